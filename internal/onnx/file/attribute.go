package file

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of an attribute's message.
const (
	attributeName      = 1
	attributeFloat     = 2
	attributeInt       = 3
	attributeText      = 4
	attributeTensor    = 5
	attributeFloats    = 7
	attributeInts      = 8
	attributeTexts     = 9
	attributeType      = 20
	attributeReference = 21
)

// Types of attributes that hold graphs.
const (
	oneGraph   = 5
	manyGraphs = 10
)

func (d *decoder) attribute(f field, n *Node) error {
	var b []byte
	if err := f.message(&b); err != nil {
		return err
	}
	var name string
	var kind int64
	err := each(b, func(f field) error {
		switch f.number {
		case attributeName:
			return f.text(&name)
		case attributeType:
			return f.int(&kind)
		case attributeReference:
			return errors.New("it stands for an attribute of a function, and no function is around it: export the model again")
		}
		return nil
	})
	_, twice := n.Attributes[name]
	switch {
	case err != nil:
	case name == "":
		err = errors.New("it has no name: export the model again")
	case twice:
		err = errors.New("it is there twice: export the model again")
	case kind <= 0 || kind > math.MaxUint8:
		err = fmt.Errorf("its type is %d, which the format does not have: export the model again", kind)
	}
	a := Attribute{}
	if err == nil {
		err = d.setting(b, AttributeType(kind), &a)
	}
	if err != nil {
		return fmt.Errorf("attribute %s: %w", quote(name), err)
	}
	n.Attributes[name] = a
	return nil
}

// setting reads the value of an attribute.
func (d *decoder) setting(b []byte, kind AttributeType, a *Attribute) error {
	a.Type = kind
	switch kind {
	case IsFloat, IsInt, IsText, IsTensor:
		return d.single(b, a)
	case IsFloats:
		n, err := d.count(b, attributeFloats, protowire.Fixed32Type)
		if err != nil {
			return err
		}
		a.Floats = make([]float32, 0, n)
		return numbersOf(b, attributeFloats, protowire.Fixed32Type, func(v uint64) error {
			a.Floats = append(a.Floats, math.Float32frombits(uint32(v)))
			return nil
		})
	case IsInts:
		n, err := d.count(b, attributeInts, protowire.VarintType)
		if err != nil {
			return err
		}
		a.Ints = make([]int64, 0, n)
		return numbersOf(b, attributeInts, protowire.VarintType, func(v uint64) error {
			a.Ints = append(a.Ints, int64(v))
			return nil
		})
	case IsTexts:
		counts, err := tally(b)
		if err == nil {
			err = d.pay(counts[attributeTexts], nameCosts)
		}
		if err != nil {
			return err
		}
		a.Texts = make([]string, 0, counts[attributeTexts])
		return each(b, func(f field) error {
			if f.number != attributeTexts {
				return nil
			}
			return f.appendBytes(&a.Texts)
		})
	}
	*a = Attribute{Type: Other, encoded: b}
	return nil
}

// single reads one value, which is zero where the message leaves it out.
func (d *decoder) single(b []byte, a *Attribute) error {
	err := each(b, func(f field) error {
		switch {
		case f.number == attributeFloat && a.Type == IsFloat:
			return f.float(&a.Float)
		case f.number == attributeInt && a.Type == IsInt:
			return f.int(&a.Int)
		case f.number == attributeText && a.Type == IsText:
			a.Text = string(f.bytes)
			return nil
		case f.number == attributeTensor && a.Type == IsTensor && a.Tensor != nil:
			return errors.New("it holds two tensors: export the model again")
		case f.number == attributeTensor && a.Type == IsTensor:
			if err := d.pay(1, tensorCosts); err != nil {
				return err
			}
			var err error
			a.Tensor, err = d.tensor(f)
			return err
		}
		return nil
	})
	if err == nil && a.Type == IsTensor && a.Tensor == nil {
		err = errors.New("it holds no tensor: export the model again")
	}
	return err
}

// count is how many numbers a repeated field has, and pays for them.
func (d *decoder) count(b []byte, number protowire.Number, kind protowire.Type) (n int, err error) {
	err = numbersOf(b, number, kind, func(uint64) error {
		n++
		return nil
	})
	if err == nil {
		err = d.pay(n, numberCosts)
	}
	return n, err
}

func numbersOf(b []byte, number protowire.Number, kind protowire.Type, do func(v uint64) error) error {
	return each(b, func(f field) error {
		if f.number != number {
			return nil
		}
		return f.numbers(kind, do)
	})
}
