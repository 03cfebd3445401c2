package lower

import (
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/strides"
	"github.com/privgrad/privgrad/internal/usage"
)

// end takes the logits from an output: a softmax, or the sigmoid of one output, is the loss's part.
func (l *lowerer) end(output string) {
	v := l.values[output]
	if len(l.refusals) > 0 || v == nil || v.broken {
		if len(l.refusals) == 0 {
			l.refusals = append(l.refusals, &Refusal{Reason: "nothing makes the output " + output, Do: exportAgain})
		}
		return
	}
	stop := func(do, reason string) {
		l.refusals = append(l.refusals, &Refusal{Reason: "the output " + output + " " + reason, Do: do})
	}
	if v.known != nil {
		stop("export the network's logits", "does not depend on the records")
		return
	}
	if f := formOf(v, softmaxed); f != nil {
		v = f.base
	}
	if len(l.nodes) == 0 {
		stop("export the network's logits", "is the input")
		return
	}
	last := &call{lowerer: l, node: l.nodes[len(l.nodes)-1]}
	v, r := last.force(v)
	if r != nil {
		l.refusals = append(l.refusals, r)
		return
	}
	if int(v.at) != len(l.layers) {
		stop("export the network's logits", "is not what is computed last")
		return
	}
	long := 0
	for _, n := range v.view.Shape {
		if n > 1 {
			long++
		}
	}
	if long > 1 || !v.view.Plain() {
		stop("flatten them to one number for each class", "gives records of shape "+words(v.view.Shape)+" or in another order than the layers'")
		return
	}
	if own := l.of(v); own != nil && own.op.Kind == ir.Sigmoid {
		if v.view.Size() > 1 {
			stop("leave the sigmoids out: the loss takes the softmax of the outputs, one class a record", "has a sigmoid for each class, as for records of several classes")
			return
		}
		l.layers, l.sigmoid = l.layers[:len(l.layers)-1], true
	}
	if len(l.layers) == 0 {
		stop("export the network's logits", "computes nothing")
	}
}

// newHead replaces the last dense layer by a fresh one of so many outputs.
func (l *lowerer) newHead(classes int) error {
	n := len(l.layers) - 1
	if n < 0 || l.layers[n].op.Kind != ir.Dense {
		return usage.Errorf("--new-head replaces a dense layer that gives the outputs, and the network ends by none")
	}
	head := &l.layers[n]
	in := ir.Size(head.op.Shape)
	if classes > strides.Most/in || classes*in > mostMade {
		return usage.Errorf("a new head of %d outputs would read %d values each, which is too large", classes, in)
	}
	outputs := classes
	if head.op.Out[0] == 1 && classes == 2 {
		outputs = 1
	}
	head.op.Out = []int{outputs}
	weight, bias := *head.weight, slot{fill: zeros}
	if head.bias != nil {
		bias.root = head.bias.root
	}
	weight.shape, weight.values, weight.fill = []int{outputs, in}, nil, drawn
	bias.shape = []int{outputs}
	head.weight, head.bias = &weight, &bias
	return nil
}
