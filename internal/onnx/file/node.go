package file

import (
	"errors"
	"fmt"
)

// Fields of a node's message.
const (
	nodeInputs     = 1
	nodeOutputs    = 2
	nodeName       = 3
	nodeKind       = 4
	nodeAttributes = 5
	nodeDomain     = 7
)

// label names a node in errors: by its name, or else by its first output.
func (n *Node) label() string {
	switch {
	case n.Name != "":
		return fmt.Sprintf("node %s (%s)", quote(n.Name), n.Kind)
	case len(n.Outputs) > 0:
		return fmt.Sprintf("the node of %s (%s)", quote(n.Outputs[0]), n.Kind)
	}
	return fmt.Sprintf("a node of %s", n.Kind)
}

func (d *decoder) node(f field, g *Graph) error {
	var b []byte
	err := f.message(&b)
	if err != nil {
		return err
	}
	counts, err := tally(b)
	if err != nil {
		return fmt.Errorf("node %d: %w", len(g.Nodes)+1, err)
	}
	ins, outs, attributes := counts[nodeInputs], counts[nodeOutputs], counts[nodeAttributes]
	if d.pay(ins, nameCosts) != nil || d.pay(outs, outputCosts) != nil || attributes > 0 && d.pay(1, attributesCost) != nil || d.pay(attributes, attributeCosts) != nil {
		return errTooMuch
	}
	n := Node{Inputs: make([]string, 0, ins), Outputs: make([]string, 0, outs)}
	if attributes > 0 {
		n.Attributes = make(map[string]Attribute, attributes)
	}
	err = each(b, func(f field) error {
		switch f.number {
		case nodeInputs:
			return f.appendText(&n.Inputs)
		case nodeOutputs:
			return f.appendText(&n.Outputs)
		case nodeName:
			return f.text(&n.Name)
		case nodeKind:
			return f.text(&n.Kind)
		case nodeDomain:
			return f.text(&n.Domain)
		case nodeAttributes:
			return d.attribute(f, &n)
		}
		return nil
	})
	if err == nil && n.Kind == "" {
		err = errors.New("it does not say which operation it is: export the model again")
	}
	if err != nil {
		return fmt.Errorf("node %d: %s: %w", len(g.Nodes)+1, n.label(), err)
	}
	if n.Domain == standard {
		n.Domain = ""
	}
	g.Nodes = append(g.Nodes, n)
	return nil
}
