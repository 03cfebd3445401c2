package lower

import (
	"slices"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// gates are the nodes, by their places, through whose first output passes all that follows of the input: up to these a graph
// can be frozen. The last is the output's own.
func (l *lowerer) gates() []int {
	until := l.readUntil()
	open := map[string]bool{} // what depends on the input, and is read later
	for _, in := range l.graph.Inputs {
		if _, read := until[in.Name]; read && l.graph.Constants[in.Name] == nil {
			open[in.Name] = true
		}
	}
	if l.input != "" {
		open[l.input] = true
	}
	depends := map[string]bool{}
	for name := range open {
		depends[name] = true
	}
	var found []int
	for i, n := range l.nodes {
		reads := slices.ContainsFunc(n.Inputs, func(in string) bool { return depends[in] })
		for _, out := range n.Outputs {
			if reads && out != "" && out != l.input {
				depends[out] = true
				if until[out] > i {
					open[out] = true
				}
			}
		}
		for _, in := range n.Inputs {
			if until[in] <= i {
				delete(open, in)
			}
		}
		if reads && len(open) == 1 && len(n.Outputs) > 0 && open[n.Outputs[0]] {
			found = append(found, i)
		}
	}
	return found
}

// readUntil is the last node that reads each value. The output is read behind all.
func (l *lowerer) readUntil() map[string]int {
	until := map[string]int{l.output: len(l.nodes)}
	for i, n := range l.nodes {
		for _, in := range n.Inputs {
			until[in] = max(until[in], i)
		}
	}
	return until
}

// gateOf gives the first node at or behind a place up to which a graph can be frozen so that something is left to train; nil
// where there is none.
func (l *lowerer) gateOf(place int, gates []int) *file.Node {
	for _, g := range gates {
		if g >= place && g < len(l.nodes)-1 {
			return l.nodes[g]
		}
	}
	return nil
}

// nameGates writes into refusals which node to freeze: the refused one, or the next through which all passes.
func (l *lowerer) nameGates() {
	gates := l.gates()
	place := map[string]int{}
	for i, n := range l.nodes {
		place[nameOf(n)] = i
	}
	for _, r := range l.refusals {
		i, ok := place[r.Node]
		if !ok || r.advice == "" {
			continue
		}
		if g := l.gateOf(i, gates); g != nil {
			r.name(nameOf(g))
		}
	}
}
