package nn

import (
	"cmp"
	"fmt"
	"strings"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/usage"
)

// Options says what Build makes of a named model.
type Options struct {
	Batch      int    // rows of the graph's input node; 0 means 1
	Input      [3]int // C, H, W of the data; zero means what the model was made for
	Classes    int    // 0 means what the model was made for; regressions ignore it
	Activation string // one of Activations; "" means the model's own (Info). Linear models have none.
	Seed       uint64 // of the initial weights
	Version    int    // of the model, from 1 to Info.Versions; 0 means the last. Networks of a user's own have one
}

// Info describes a named model.
type Info struct {
	Name       string
	Input      [3]int // C, H, W; zero for any
	Linear     bool   // an affine layer alone
	Classes    int    // 2 for a model of one logit; logistic takes more
	Loss       Loss
	Parameters int    // for 10 classes, or on the default data
	Data       string // default data set
	Activation string // where Options name none
	Versions   int    // networks that the name has stood for, the last of which it stands for now
}

// Model is a named model as a Gorgonia graph. Input is (Batch, C, H, W).
type Model struct {
	Name          string
	Graph         *G.ExprGraph
	Input, Logits *G.Node
	Loss          Loss
}

// Lower lowers the model under its own name and loss.
func (m *Model) Lower() (*Network, error) {
	return Lower(m.Logits, WithName(m.Name), WithLoss(m.Loss), WithInput(m.Input))
}

// Names describes the named models, and those that were registered: these take any shape and any
// number of classes, as far as is known before they are built.
func Names() []Info {
	var list []Info
	for _, s := range specs {
		s.Versions = 1 + len(former[s.Name])
		list = append(list, s.Info)
	}
	for _, name := range registeredNames() {
		list = append(list, Info{Name: name, Classes: 10, Data: "fmnist", Activation: "tanh", Versions: 1})
	}
	return list
}

// fits reports whether the model can read the data's shape.
func (i Info) fits(input [3]int) bool {
	return i.Input == input || i.Input == [3]int{} && min(input[0], input[1], input[2]) > 0
}

// namedActivations are those that a named model may have, and the initial weights before each.
var namedActivations = []struct {
	name  string
	layer Layer
	init  func(seed uint64) Init
}{
	{"tanh", Tanh, Glorot},
	{"relu", ReLU, He},
	{"sigmoid", Sigmoid, Glorot},
	{"gelu", GELU, He},
}

// Activations lists what Options.Activation may be.
func Activations() (names []string) {
	for _, a := range namedActivations {
		names = append(names, a.name)
	}
	return names
}

// Build makes the graph of a named model with initial weights that follow from
// the seed alone: He for ReLU and GELU, Glorot for tanh and sigmoid, of variance 1/fan-in for wide residual networks, zero for
// linear models, the last layer of the networks for tables, and all biases. The same options give the same bits on every platform.
func Build(name string, o Options) (*Model, error) {
	if build := registered(name); build != nil {
		return buildOwn(name, build, o)
	}
	var known, fitting []string
	var s *spec
	for _, t := range specs {
		known = append(known, t.Name)
		if t.fits(o.Input) {
			fitting = append(fitting, t.Name)
		}
		if t.Name == name {
			s = &t
		}
	}
	if s == nil {
		return nil, usage.Unknown("model", name, known)
	}
	if o.Input == [3]int{} {
		if o.Input = s.Input; o.Input == [3]int{} {
			return nil, fmt.Errorf("model %s takes any input, so that Options.Input must say which: channels, rows and columns (1, 1, n for n columns of a table)", name)
		}
	}
	if !s.fits(o.Input) {
		fit := "no named model fits this data"
		if len(fitting) > 0 {
			fit = "models that fit are " + strings.Join(fitting, ", ")
		}
		return nil, fmt.Errorf("model %s takes %s, the data is %s; %s", name, dims(s.Input), dims(o.Input), fit)
	}
	if err := s.version(o.Version); err != nil {
		return nil, err
	}
	layers, err := s.choose(o)
	if err != nil {
		return nil, err
	}
	if o.Batch == 0 {
		o.Batch = 1
	}
	if o.Batch < 0 {
		return nil, fmt.Errorf("model %s: batch %d is negative; give the rows of the input node", name, o.Batch)
	}
	return guard("model "+name, func() (*Model, error) {
		g := G.NewGraph(G.WithGraphName(name))
		x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(o.Batch, o.Input[0], o.Input[1], o.Input[2]), G.WithName("input"))
		logits, err := Apply(x, layers...)
		if err != nil {
			return nil, err
		}
		return &Model{Name: name, Graph: g, Input: x, Logits: logits, Loss: s.Loss}, nil
	})
}

// choose makes the layers by the options, which may change the loss of s.
func (s *spec) choose(o Options) ([]Layer, error) {
	classes := o.Classes
	if classes == 0 {
		classes = s.Classes
	}
	if s.Loss == Logistic && classes > 2 { // of which the softmax is the form for many classes
		s.Loss = SoftmaxCrossEntropy
	}
	if s.Loss == SoftmaxCrossEntropy && classes < 2 {
		return nil, fmt.Errorf("model %s needs at least 2 classes, has %d", s.Name, classes)
	}
	if s.Loss != SoftmaxCrossEntropy && s.Loss != Huber && classes != 2 {
		return nil, fmt.Errorf("model %s has one logit for two classes, the data has %d classes; keep two of them or choose another model", s.Name, classes)
	}
	outputs := classes
	if s.Loss != SoftmaxCrossEntropy {
		outputs = 1
	}
	for _, a := range namedActivations {
		if a.name != cmp.Or(o.Activation, s.Activation) {
			continue
		}
		init := a.init
		if own, ok := s.front.(interface{ init(seed uint64) Init }); ok { // whatever the activation
			init = own.init
		}
		return s.layers(a.layer, init(o.Seed), outputs), nil
	}
	return nil, usage.Unknown("activation", o.Activation, Activations())
}

func dims(s [3]int) string { return fmt.Sprintf("%d×%d×%d", s[0], s[1], s[2]) }
