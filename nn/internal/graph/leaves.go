package graph

import G "gorgonia.org/gorgonia"

// DataLeaves lists the leaves at positions of activations, in order.
func DataLeaves(logits *G.Node) []*G.Node {
	var leaves []*G.Node
	seen := map[*G.Node]bool{}
	var visit func(n *G.Node)
	visit = func(n *G.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if Type(n) == Leaf {
			leaves = append(leaves, n)
		}
		for _, x := range activations(n) {
			visit(x)
		}
	}
	visit(logits)
	return leaves
}

// activations are the operands of a node that are no parameters.
func activations(n *G.Node) []*G.Node {
	c := Children(n)
	if op, own := n.Op().(Op); own {
		return c[:op.Activations()]
	}
	switch t := Type(n); t {
	case Leaf, Constant:
		return nil
	case Repeat, Size:
		return c[:1]
	case LinAlg, Binary:
		// Beside a computed operand, a bare leaf is a parameter; of two
		// bare leaves in a matrix product, the right one is, unless the
		// values say that the product is the wrong way round.
		a, b := Root(c[0]) != nil, Root(c[1]) != nil
		switch {
		case a && b && t == LinAlg && IsWeight(Root(c[0])) && !IsWeight(Root(c[1])):
			return c[1:2]
		case a && b && t == LinAlg:
			return c[:1]
		case a && !b && Type(c[1]) != Constant:
			return c[1:2]
		case b && !a && Type(c[0]) != Constant:
			return c[:1]
		}
		return c[:2]
	}
	return c
}
