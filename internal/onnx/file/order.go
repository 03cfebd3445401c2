package file

import (
	"fmt"
	"strings"
)

// How far a node has come.
const (
	waiting = iota
	begun
	placed
)

// A walk puts nodes after those that make what they read.
type walk struct {
	nodes []Node
	maker map[string]int // the node of a value; -1 for inputs and constants
	state []uint8
	stack []step
	order []int
}

// A step is a node that has begun, and how many of its inputs are done.
type step struct{ node, done int }

// order sorts a graph's nodes such that every value is made before it is read. Nodes that are so already stay as they are.
func (d *decoder) order(g *Graph) error {
	w := &walk{nodes: g.Nodes, state: make([]uint8, len(g.Nodes)), order: make([]int, 0, len(g.Nodes))}
	if err := w.make(g); err != nil {
		return err
	}
	for i := range g.Nodes {
		if err := w.visit(i); err != nil {
			return err
		}
	}
	for _, v := range g.Outputs {
		if _, made := w.maker[v.Name]; !made {
			return fmt.Errorf("the output %s is made by no node: export the model again", quote(v.Name))
		}
	}
	sorted := make([]Node, len(w.order))
	for i, k := range w.order {
		sorted[i] = g.Nodes[k]
	}
	g.Nodes = sorted
	return nil
}

func (w *walk) make(g *Graph) error {
	n := len(g.Inputs) + len(g.Constants)
	for _, node := range g.Nodes {
		n += len(node.Outputs)
	}
	w.maker = make(map[string]int, n)
	for _, v := range g.Inputs {
		if _, twice := w.maker[v.Name]; twice {
			return fmt.Errorf("the input %s is there twice: export the model again", quote(v.Name))
		}
		w.maker[v.Name] = -1
	}
	for name := range g.Constants {
		w.maker[name] = -1
	}
	for i, node := range g.Nodes {
		for _, name := range node.Outputs {
			if name == "" {
				continue // left out
			}
			if _, twice := w.maker[name]; twice {
				return fmt.Errorf("%s makes the value %s, which is there already: export the model again", node.label(), quote(name))
			}
			w.maker[name] = i
		}
	}
	return nil
}

// visit places a node after those that it needs. It does not call itself, because a file may have a chain of any length.
func (w *walk) visit(node int) error {
	if w.state[node] == placed {
		return nil
	}
	w.state[node] = begun
	w.stack = append(w.stack[:0], step{node: node})
	for len(w.stack) > 0 {
		top := &w.stack[len(w.stack)-1]
		if top.done == len(w.nodes[top.node].Inputs) {
			w.state[top.node] = placed
			w.order = append(w.order, top.node)
			w.stack = w.stack[:len(w.stack)-1]
			continue
		}
		name := w.nodes[top.node].Inputs[top.done]
		top.done++
		if name == "" {
			continue // left out
		}
		maker, made := w.maker[name]
		switch {
		case !made:
			return fmt.Errorf("%s reads %s, which no node makes and the file does not hold: export the model again", w.nodes[top.node].label(), quote(name))
		case maker < 0 || w.state[maker] == placed:
		case w.state[maker] == begun:
			return w.cycle(maker)
		default:
			w.state[maker] = begun
			w.stack = append(w.stack, step{node: maker})
		}
	}
	return nil
}

// cycle is the error of a node that needs its own output.
func (w *walk) cycle(node int) error {
	const most = 5 // nodes shown
	var through []string
	for _, s := range w.stack {
		if s.node == node || len(through) > 0 {
			through = append(through, w.nodes[s.node].label())
		}
	}
	if len(through) > most {
		through = append(through[:most], fmt.Sprintf("%d more", len(through)-most))
	}
	return fmt.Errorf("nodes need their own outputs, in a circle (%s): export the model again", strings.Join(through, ", "))
}
