package lower

import (
	"errors"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/usage"
)

// tokens says first of a network with attention that it has some. What else was found in it would mislead, unless records meet
// there: nobody mends attention node by node.
func (l *lowerer) tokens(m *file.Model) {
	n := l.attention()
	if n == nil {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(l.refusals), func(r *Refusal) bool { return r.Do != keepRecords })
	l.refusals = append(Refusals{{
		Reason: fmt.Sprintf("the network works on a sequence of tokens (attention, at node %s), which cannot be trained here", nameOf(n)),
		Do:     l.backbone(m),
	}}, kept...)
}

// attention is a product of two values of which one follows from a softmax, or an operation that is attention; nil without one.
func (l *lowerer) attention() *file.Node {
	shared := map[string]bool{} // what follows from a softmax
	for _, n := range l.nodes {
		from := slices.ContainsFunc(n.Inputs, func(s string) bool { return shared[s] })
		switch n.Kind {
		case "Attention", "MultiHeadAttention":
			return n
		case "MatMul":
			if from && !slices.ContainsFunc(n.Inputs, l.constant) {
				return n
			}
		}
		for _, out := range n.Outputs {
			shared[out] = out != "" && (from || n.Kind == "Softmax")
		}
	}
	return nil
}

// constant says that a name stands for numbers of the file, or for what follows from them alone.
func (l *lowerer) constant(name string) bool {
	v := l.values[name]
	return v != nil && v.known != nil
}

// backbone says what to do with a network that can only be frozen: all before its last dense layer, if that can be.
func (l *lowerer) backbone(m *file.Model) string {
	head := 0
	for i, n := range l.nodes {
		if n.Kind == "Gemm" || n.Kind == "MatMul" && len(n.Inputs) == 2 && l.constant(n.Inputs[1]) {
			head = i
		}
	}
	for _, i := range slices.Backward(l.gates()) {
		if i >= head {
			continue
		}
		name := nameOf(l.nodes[i])
		_, err := new(result).upTo(l.nodes[i].Outputs[0], m, Choices{Weights: OfFile, Freeze: name})
		if err == nil {
			return "freeze the whole backbone (--freeze " + usage.Quote(name) + " --weights-are-public --new-head), or use a convolutional network"
		}
		if found := (Refusals)(nil); errors.As(err, &found) {
			return fmt.Sprintf("use a convolutional network, or a backbone that can be frozen: of this one, node %s (%s) %s", found[0].Node, found[0].Op, found[0].Reason)
		}
		break
	}
	return "use a convolutional network"
}
