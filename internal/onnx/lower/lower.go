// Package lower turns graphs of the ONNX format into networks that are trained here. It follows axis 0, that of the records,
// through every node: what would let one record see another is refused.
package lower

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/strides"
	"github.com/privgrad/privgrad/internal/usage"
)

// Choices are what a user says about a file.
type Choices struct {
	Weights   Weights
	BatchNorm BatchNorm
	// Freeze names a node, or one of its outputs: it and all before it become the Prefix. Empty: nothing is frozen. It
	// needs the file's weights.
	Freeze  string
	Classes int    // outputs that the data need; 0: those of the file
	NewHead bool   // the last dense layer is replaced by a fresh one of so many outputs
	Seed    uint64 // of fresh weights
}

// Weights says with which weights training begins.
type Weights uint8

// The weights that there are.
const (
	Fresh  Weights = iota // drawn from the seed; those of the file may come from private data, and are not used
	OfFile                // those of the file, which the user declares public
)

// A Network is what trains, and what is frozen before it.
type Network struct {
	Program *ir.Program // its loss is SoftmaxCrossEntropy, or Logistic of one output
	Params  []float32   // the first weights, flat, in the order of the program
	Prefix  *Prefix     // nil: nothing is frozen
	Sigmoid bool        // one stood at the end, which the logistic loss has
	Reads   Reading     // what the program reads of a value; of what a prefix gives it is Plain
}

// The operator sets that are read.
const (
	firstVersion = 13
	lastVersion  = 26
)

// Lower makes the network of a file. An error is Refusals, which say of every node that cannot be trained why, or a usage error.
func Lower(m *file.Model, c Choices) (*Network, error) {
	w, err := work(m, c)
	if err != nil {
		return nil, err
	}
	return w.network, nil
}

// A result is a network with what is said about it.
type result struct {
	network *Network
	report  Report
}

// work lowers a file. Of a file that is refused it gives the report alone.
func work(m *file.Model, c Choices) (*result, error) {
	out := &result{}
	if err := check(m, c); err != nil {
		return out, err
	}
	var prefix *Prefix
	cut := ""
	if c.Freeze != "" {
		var err error
		if prefix, err = out.freeze(m, c); err != nil {
			return out, err
		}
		cut = prefix.cut
	}
	l, err := choose(m, c, prefix, cut)
	if l != nil {
		out.report.add(l, false)
	}
	if err != nil {
		return out, err
	}
	if c.NewHead {
		if err := l.newHead(c.Classes); err != nil {
			return out, err
		}
	}
	p, params, err := l.finish(cmp.Or(m.Graph.Name, "network"), c.Seed)
	if err != nil {
		return out, usage.Errorf("%v", err)
	}
	if p.Loss = ir.SoftmaxCrossEntropy; len(p.Ops) > 0 && p.Outputs() == 1 {
		p.Loss = ir.Logistic
	}
	if err := p.Validate(); err != nil {
		return out, usage.Errorf("the network cannot be trained: %v", err)
	}
	out.report.count(l)
	out.report.Outputs = p.Outputs()
	if want := p.Outputs(); c.Classes != 0 && c.Classes != want && !(want == 1 && c.Classes == 2) {
		return out, usage.Errorf("the network has %d outputs, and the data need %d; --new-head replaces its last dense layer by a fresh one of %d", want, c.Classes, c.Classes)
	}
	out.network = &Network{Program: p, Params: params, Prefix: prefix, Sigmoid: l.sigmoid, Reads: l.read}
	return out, nil
}

// check refuses choices that contradict each other, and sets of operations that are not read.
func check(m *file.Model, c Choices) error {
	switch {
	case c.Weights == Fresh && c.BatchNorm == Frozen:
		return usage.Errorf("--batchnorm frozen keeps the statistics of the file, which may come from private data; declare them public with --weights-are-public, or use --batchnorm group")
	case c.Weights == Fresh && c.Freeze != "":
		return usage.Errorf("--freeze keeps weights of the file, which may come from private data; declare them public with --weights-are-public")
	case c.NewHead && c.Classes < 1:
		return usage.Errorf("a new head needs the number of outputs that the data need")
	}
	if c.BatchNorm != NoBatchNorm && !slices.ContainsFunc(m.Graph.Nodes, func(n file.Node) bool { return n.Kind == "BatchNormalization" }) {
		return usage.Errorf("--batchnorm %v: the file has no batch normalization: the exporter may have merged it into the convolutions. "+
			"Export with training=TrainingMode.PRESERVE, do_constant_folding=False (or dynamo=True, optimize=False), or leave --batchnorm out", c.BatchNorm)
	}
	if v := version(m); v < firstVersion || v > lastVersion {
		return Refusals{{Reason: fmt.Sprintf("the file uses version %d of the standard operator set, and versions %d to %d are read", v, firstVersion, lastVersion),
			Do: "export it again with such a version, such as 17"}}
	}
	return nil
}

// choose lowers each output of a file, and takes the one that gives logits. Of a cut, the input is its value.
func choose(m *file.Model, c Choices, prefix *Prefix, cut string) (*lowerer, error) {
	var fitting, failed []*lowerer
	var names []string
	for _, out := range m.Graph.Outputs {
		l := newLowerer(m, c, trained)
		l.lowerFrom(out.Name, prefix, cut)
		if len(l.refusals) > 0 {
			failed = append(failed, l)
			continue
		}
		fitting, names = append(fitting, l), append(names, out.Name)
	}
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) > 1:
		return nil, Refusals{{Reason: fmt.Sprintf("the file has %d outputs that could be trained: %s", len(names), strings.Join(names, ", ")),
			Do: "export it again with the one that gives a number for each class"}}
	case len(failed) == 0:
		return nil, Refusals{{Reason: "the file has no output", Do: exportAgain}}
	}
	// The output that is nearest to one that can be trained says most.
	best := slices.MinFunc(failed, func(a, b *lowerer) int { return cmp.Compare(len(a.refusals), len(b.refusals)) })
	best.nameGates()
	best.tokens(m)
	return best, best.refusals
}

// lowerFrom lowers one output of a graph, from the file's input or from what a prefix gives.
func (l *lowerer) lowerFrom(output string, prefix *Prefix, cut string) {
	l.input, l.output = cut, output
	l.reach(output)
	if prefix == nil {
		l.atInput = true
		l.findInput()
	} else {
		l.records = prefix.records
		l.crossed(prefix)
		l.begin(cut, prefix.shape, strides.Of(prefix.shape))
	}
	if len(l.refusals) > 0 {
		return
	}
	l.run()
	l.end(output)
	l.refusals = distinct(l.refusals)
}

// distinct leaves out what was said before.
func distinct(all Refusals) Refusals {
	var out Refusals
	for _, r := range all {
		if !slices.ContainsFunc(out, func(s *Refusal) bool { return *s == *r }) {
			out = append(out, r)
		}
	}
	return out
}

// begin puts the input where a graph begins.
func (l *lowerer) begin(name string, stored []int, v strides.View) {
	l.input, l.program.shape = name, planShape(stored)
	l.values[name] = &value{at: ir.Input, view: v}
}

// findInput puts the file's input where the graph begins: images as channels, rows and columns, however the file has them.
func (l *lowerer) findInput() {
	stop := func(do, reason string, args ...any) {
		l.refusals = append(l.refusals, &Refusal{Reason: fmt.Sprintf(reason, args...), Do: do})
	}
	var inputs []file.Value
	for _, in := range l.graph.Inputs {
		if l.readers[in.Name] > 0 && l.values[in.Name] == nil {
			inputs = append(inputs, in)
		}
	}
	if len(inputs) != 1 {
		stop("export one that reads the records alone", "the network reads %d inputs, want one", len(inputs))
		return
	}
	in := inputs[0]
	ofBytes := in.Type == file.Uint8 && l.role == trained
	if in.Type != 0 && !in.Type.IsFloating() && !ofBytes {
		stop("export it with a floating-point input", "the input %s is of whole numbers", in.Name)
		return
	}
	if len(in.Shape) < 2 {
		stop("export it with an axis of records and the shape of a record behind it", "the input %s has %d axes, and records lie along the first", in.Name, len(in.Shape))
		return
	}
	var shape []int
	for i, a := range in.Shape[1:] {
		if a.Length < 1 {
			stop("export it with all lengths but that of axis 0 fixed", "the input %s leaves the length of axis %d open", in.Name, i+1)
			return
		}
		shape = append(shape, a.Length)
	}
	if _, ok := strides.Count(shape); !ok {
		stop("make it smaller", "the input %s has records of shape %v, which are too large", in.Name, shape)
		return
	}
	l.records = max(in.Shape[0].Length, 0)
	if ofBytes {
		defer func() {
			v := l.values[in.Name]
			l.values[in.Name] = formed(&form{kind: reading, base: v, shape: v.view.Shape, scale: ofByte.Scale})
		}()
	}
	if l.channelsLast(in.Name, shape) {
		stored := []int{shape[2], shape[0], shape[1]}
		l.begin(in.Name, stored, strides.Of(stored).Transposed([]int{1, 2, 0}))
		return
	}
	l.begin(in.Name, shape, strides.Of(shape))
}

// channelsLast says that a file has images as rows, columns and channels: where it moves the channels to the front itself, or
// where three numbers can be nothing else.
func (l *lowerer) channelsLast(input string, shape []int) bool {
	if len(shape) != 3 {
		return false
	}
	for _, n := range l.nodes {
		switch n.Kind {
		case "Conv": // which reads channels first
			return false
		case "Transpose":
			return slices.Equal(n.Attributes["perm"].Ints, []int64{0, 3, 1, 2})
		}
	}
	return shape[2] <= 4 && shape[0] > 4 && shape[1] > 4
}

// version is that of the standard operator set.
func version(m *file.Model) int {
	if v, ok := m.Opsets[""]; ok {
		return v
	}
	return m.Opsets["ai.onnx"]
}
