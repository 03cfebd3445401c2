package file

import (
	"fmt"
	"maps"
)

// Join puts models one behind the other: each reads what the one before gives. All have one input and one output, which of the whole
// are those of the first and of the last. The version of the standard set is the newest of theirs, so that each must mean the same in it.
func Join(name string, parts ...*Model) (*Model, error) {
	all := &Model{Opsets: map[string]int{}, Graph: Graph{Name: name, Constants: map[string]*Tensor{}}}
	between := "" // what the part before gives
	for i, m := range parts {
		g := &m.Graph
		if len(g.Inputs) != 1 || len(g.Outputs) != 1 {
			return nil, fmt.Errorf("part %d of %s has %d inputs and %d outputs, want one of each", i, name, len(g.Inputs), len(g.Outputs))
		}
		for domain, version := range m.Opsets {
			all.Opsets[domain] = max(all.Opsets[domain], version)
		}
		all.format = max(all.format, m.format)
		in, out := g.Inputs[0].Name, g.Outputs[0].Name
		rename := func(v string) string {
			switch {
			case v == "", v == in && i == 0, v == out && i == len(parts)-1:
				return v
			case v == in:
				return between
			}
			return fmt.Sprintf("part%d/%s", i, v)
		}
		for _, n := range g.Nodes {
			n.Name = fmt.Sprintf("part%d/%s", i, n.Name)
			n.Inputs, n.Outputs = renamed(n.Inputs, rename), renamed(n.Outputs, rename)
			all.Graph.Nodes = append(all.Graph.Nodes, n)
		}
		for v, t := range maps.All(g.Constants) {
			all.Graph.Constants[rename(v)] = t
		}
		between = rename(out)
	}
	all.Graph.Inputs, all.Graph.Outputs = parts[0].Graph.Inputs, parts[len(parts)-1].Graph.Outputs
	return all, nil
}

func renamed(names []string, rename func(string) string) []string {
	all := make([]string, len(names))
	for i, v := range names {
		all[i] = rename(v)
	}
	return all
}
