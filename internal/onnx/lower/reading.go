package lower

import "github.com/privgrad/privgrad/internal/ir"

// A Reading is what the first layers read of a value x from 0 to 1: x·Scale + Shift. A file may compute it, from such a value
// or from the byte that stands for it.
type Reading struct{ Scale, Shift float64 }

// Plain is the value itself.
var Plain = Reading{Scale: 1}

// ofByte is how a byte follows from the value that it stands for.
var ofByte = Reading{Scale: 255}

// reread computes with the input and a number, if the input is read in this one way alone.
func (c *call) reread() (*value, bool) {
	if c.role == fixed || !c.atInput {
		return nil, false
	}
	for i, v := range c.in[:2] {
		n, ok := c.scalar(c.in[1-i])
		f := readingOf(v)
		if !ok || f == nil || c.readers[c.node.Inputs[i]] != 1 || len(c.in[1-i].known.Shape) > len(f.shape)+1 {
			continue
		}
		g := *f
		switch kind := c.node.Kind; {
		case kind == "Mul":
			g.scale, g.shift = f.scale*n, f.shift*n
		case kind == "Div" && i == 0 && n != 0:
			g.scale, g.shift = f.scale/n, f.shift/n
		case kind == "Add":
			g.shift = f.shift + n
		case kind == "Sub" && i == 0:
			g.shift = f.shift - n
		case kind == "Sub":
			g.scale, g.shift = -f.scale, n-f.shift
		default:
			return nil, false
		}
		g.node = c.node
		return formed(&g), true
	}
	return nil, false
}

// readingOf sees a value as a reading of the input; nil where it is none.
func readingOf(v *value) *form {
	switch {
	case v.known != nil || v.at != ir.Input || v.trained:
		return nil
	case v.form == nil:
		return &form{kind: reading, base: v, shape: v.view.Shape, scale: 1}
	}
	return formOf(v, reading)
}

// reads notes what a layer reads of the input.
func (c *call) reads(f *form) (*value, *Refusal) {
	r := Reading{f.scale, f.shift}
	if c.read != Plain && c.read != r {
		return nil, c.refuse("read it in one way alone, as --normalize does", "reads the input in another way than a layer before it")
	}
	if r.Scale-r.Scale != 0 || r.Shift-r.Shift != 0 || r.Scale == 0 {
		return nil, c.refuse("correct its numbers", "makes the input %v times itself plus %v", r.Scale, r.Shift)
	}
	c.read = r
	return f.base, nil
}
