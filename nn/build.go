package nn

import (
	"fmt"
	"strings"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Options says what Build makes of a named model.
type Options struct {
	Batch      int    // rows of the graph's input node; 0 means 1
	Input      [3]int // C, H, W of the data; zero means what the model was made for
	Classes    int    // 0 means what the model was made for; huber-regression ignores it
	Activation string // "relu", "tanh" or "sigmoid"; "" means tanh. Linear models have none.
	Seed       uint64 // of the initial weights
}

// Info describes a named model.
type Info struct {
	Name       string
	Input      [3]int // C, H, W; zero for any
	Classes    int    // 2 for a model of one logit; logistic takes more
	Loss       Loss
	Parameters int    // for 10 classes, or on the default data
	Data       string // default data set
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

// spec is a named model: what it is, and its layers.
type spec struct {
	Info
	layers func(k kit) []Layer
}

// kit is what the options give every layer of a model.
type kit struct {
	act     Layer
	init    Init
	classes int
	outputs int // of a linear model: one logit for two classes, else one a class
}

func (k kit) conv(name string, out, kernel, stride, pad int) Layer {
	return Conv(name, out, kernel, stride, pad, k.init)
}

func (k kit) dense(name string, out int) Layer { return Dense(name, out, k.init) }

func specs() []spec {
	image, colour := [3]int{1, 28, 28}, [3]int{3, 32, 32}
	linear := func(name string, loss Loss) spec {
		return spec{Info{name, [3]int{}, 2, loss, 785, "fmnist"}, affine}
	}
	return []spec{
		{Info{"mlp-mnist", image, 10, SoftmaxCrossEntropy, 795010, "fmnist"}, mlpMNIST},
		{Info{"mlp-fmnist", image, 10, SoftmaxCrossEntropy, 269322, "fmnist"}, mlpFMNIST},
		{Info{"mlp-small", image, 10, SoftmaxCrossEntropy, 15910, "fmnist"}, mlpSmall},
		{Info{"cnn-mnist", image, 10, SoftmaxCrossEntropy, 102550, "fmnist"}, cnnMNIST},
		{Info{"mnist-tf", image, 10, SoftmaxCrossEntropy, 26010, "fmnist"}, mnistTF},
		{Info{"cifar-small", colour, 10, SoftmaxCrossEntropy, 550570, "cifar10"}, cifarSmall},
		{Info{"cifar-paper", colour, 10, SoftmaxCrossEntropy, 5851338, "cifar10"}, cifarPaper},
		linear("logistic", Logistic),
		linear("svm", Hinge),
		linear("huber-svm", HuberHinge),
		linear("huber-regression", Huber),
	}
}

// Names lists the models that Build knows.
func Names() []Info {
	var list []Info
	for _, s := range specs() {
		list = append(list, s.Info)
	}
	return list
}

// fits reports whether the model can read the data's shape.
func (i Info) fits(input [3]int) bool {
	return i.Input == input || i.Input == [3]int{} && min(input[0], input[1], input[2]) > 0
}

// Build makes the graph of a named model with initial weights that follow from
// the seed alone: He for ReLU, Glorot for tanh and sigmoid, zero for linear models and all
// biases. The same options give the same bits on every platform.
func Build(name string, o Options) (*Model, error) {
	var known, fitting []string
	var s *spec
	for _, t := range specs() {
		known = append(known, t.Name)
		if t.fits(o.Input) {
			fitting = append(fitting, t.Name)
		}
		if t.Name == name {
			s = &t
		}
	}
	if s == nil {
		return nil, fmt.Errorf("unknown model %q; known are %s", name, strings.Join(known, ", "))
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
	k, err := s.kit(o)
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
		logits, err := Apply(x, s.layers(k)...)
		if err != nil {
			return nil, err
		}
		return &Model{Name: name, Graph: g, Input: x, Logits: logits, Loss: s.Loss}, nil
	})
}

// kit takes the options, which may change the loss of s.
func (s *spec) kit(o Options) (kit, error) {
	k := kit{classes: o.Classes, outputs: 1}
	if k.classes == 0 {
		k.classes = s.Classes
	}
	if s.Loss == Logistic && k.classes > 2 { // of which the softmax is the form for many classes
		s.Loss, k.outputs = SoftmaxCrossEntropy, k.classes
	}
	if s.Loss == SoftmaxCrossEntropy && k.classes < 2 {
		return kit{}, fmt.Errorf("model %s needs at least 2 classes, has %d", s.Name, k.classes)
	}
	if s.Loss != SoftmaxCrossEntropy && s.Loss != Huber && k.classes != 2 {
		return kit{}, fmt.Errorf("model %s has one logit for two classes, the data has %d classes; keep two of them or choose another model", s.Name, k.classes)
	}
	switch o.Activation {
	case "relu":
		k.act, k.init = ReLU, He(o.Seed)
	case "tanh", "":
		k.act, k.init = Tanh, Glorot(o.Seed)
	case "sigmoid":
		k.act, k.init = Sigmoid, Glorot(o.Seed)
	default:
		return kit{}, fmt.Errorf("model %s: unknown activation %q; choose relu, tanh or sigmoid", s.Name, o.Activation)
	}
	return k, nil
}

func dims(s [3]int) string { return fmt.Sprintf("%d×%d×%d", s[0], s[1], s[2]) }
