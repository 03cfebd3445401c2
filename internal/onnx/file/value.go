package file

import (
	"errors"
	"fmt"
	"math"
)

// value reads the declaration of an input or an output. Of what is no tensor only the name is kept.
func (d *decoder) value(f field, to *[]Value) error {
	var b, kind []byte
	if err := f.message(&b); err != nil {
		return err
	}
	v := Value{}
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&v.Name)
		case 2:
			return f.message(&kind)
		}
		return nil
	})
	if err == nil && v.Name == "" {
		err = errors.New("it has no name: export the model again")
	}
	if err == nil {
		err = d.kind(kind, &v)
	}
	if err != nil {
		return fmt.Errorf("the declaration of %s among inputs and outputs: %w", quote(v.Name), err)
	}
	*to = append(*to, v)
	return nil
}

func (d *decoder) kind(b []byte, v *Value) error {
	var tensor, shape []byte
	err := each(b, func(f field) error {
		if f.number == 1 {
			return f.message(&tensor)
		}
		return nil
	})
	if err != nil || tensor == nil {
		return err
	}
	var element int64
	err = each(tensor, func(f field) error {
		switch f.number {
		case 1:
			return f.int(&element)
		case 2:
			return f.message(&shape)
		}
		return nil
	})
	if err == nil && (element < 0 || element > math.MaxInt32) {
		err = fmt.Errorf("its type is %d, which the format does not have", element)
	}
	v.Type = ElementType(element)
	if err != nil || shape == nil {
		return err
	}
	counts, err := tally(shape)
	n := counts[1]
	if n > mostAxes {
		err = fmt.Errorf("it has %d axes, more than %d", n, mostAxes)
	}
	if err == nil {
		err = d.pay(n, axisCosts)
	}
	if err != nil {
		return err
	}
	v.Shape = make([]Axis, 0, n)
	return each(shape, func(f field) error {
		if f.number == 1 {
			return f.axis(&v.Shape)
		}
		return nil
	})
}

// axis reads a length. Some programs write -1, or 0, for one that is open.
func (f field) axis(to *[]Axis) error {
	var b []byte
	if err := f.message(&b); err != nil {
		return err
	}
	var length int64
	a := Axis{}
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			return f.int(&length)
		case 2:
			return f.text(&a.Name)
		}
		return nil
	})
	if err == nil && length > mostLength {
		err = fmt.Errorf("an axis has the length %d, and the longest is %d", length, mostLength)
	}
	if length > 0 {
		a = Axis{Length: int(length)}
	}
	*to = append(*to, a)
	return err
}
