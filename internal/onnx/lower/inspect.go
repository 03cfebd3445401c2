package lower

import (
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
)

// A Report says what is in a file, and what of it cannot be trained.
type Report struct {
	Input      []int // shape of a record: channels, rows and columns of images; nil where it is not known
	Outputs    int   // 0 where it is refused
	Parameters int   // that are trained
	Layers     []Layer
	Refusals   Refusals
	Network    *Network // what Lower gives; nil where it is refused
	Err        error    // what else is wrong, such as choices that do not fit; nil: nothing
}

// A Layer is a node that computes with what records become.
type Layer struct {
	Node, Op   string
	Shape      []int // of a record of its output, as the file has it
	Parameters int   // that are trained
	Frozen     bool
	Norm       *GroupNorm // that takes the place of a batch normalization; nil: nothing does
}

// GroupNorm has what nn.GroupNorm of PyTorch takes.
type GroupNorm struct {
	Groups, Channels int
	Epsilon          float32
}

func (g *GroupNorm) String() string { return fmt.Sprintf("GroupNorm(%d, %d)", g.Groups, g.Channels) }

// Inspect says what Lower makes of a file, or why it refuses it.
func Inspect(m *file.Model, c Choices) *Report {
	w, err := work(m, c)
	if err != nil && !errors.As(err, &w.report.Refusals) {
		w.report.Err = err
	}
	w.report.Network = w.network
	return &w.report
}

// add appends the layers of a graph.
func (r *Report) add(l *lowerer, frozen bool) {
	if r.Input == nil {
		r.Input = l.program.shape
	}
	for i, row := range l.report {
		row.Frozen = frozen
		if !frozen {
			row.Parameters = l.parametersOf(l.nodeOf[i])
			row.Norm = l.inPlaceOf(l.nodeOf[i])
		}
		r.Layers = append(r.Layers, row)
	}
}

// count adds up the parameters.
func (r *Report) count(l *lowerer) {
	r.Parameters = 0
	for i := range l.layers {
		r.Parameters += l.layers[i].parameters()
	}
}

// parametersOf counts the parameters of the ops of a node.
func (l *lowerer) parametersOf(n *file.Node) (sum int) {
	for i := range l.layers {
		if l.layers[i].node == n {
			sum += l.layers[i].parameters()
		}
	}
	return sum
}

// inPlaceOf is what takes the place of a node, if it is a batch normalization and something does.
func (l *lowerer) inPlaceOf(n *file.Node) *GroupNorm {
	for i := range l.layers {
		if op := &l.layers[i].op; n.Kind == "BatchNormalization" && l.layers[i].node == n && op.Kind == ir.GroupNorm {
			return &GroupNorm{op.Groups, op.Shape[0], float32(op.Epsilon)}
		}
	}
	return nil
}

func (l *layer) parameters() (n int) {
	for _, s := range []*slot{l.weight, l.bias} {
		if s != nil {
			n += ir.Size(s.shape)
		}
	}
	return n
}

func words(shape []int) string { return fmt.Sprint(shape) }
