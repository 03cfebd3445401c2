package file

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// A field is one of a message: a number, or bytes of the file.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

var errDamaged = errors.New("the file is damaged or was cut short: export or copy it again")

// each calls do with every field of a message, in the order of the file.
func each(message []byte, do func(f field) error) error {
	for b := message; len(b) > 0; {
		var f field
		var n int
		f.number, f.kind, n = protowire.ConsumeTag(b)
		if n < 0 {
			return errDamaged
		}
		b = b[n:]
		switch f.kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			f.value = uint64(v)
		case protowire.Fixed64Type:
			f.value, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default: // groups, which the format has nowhere
			return errDamaged
		}
		if n < 0 {
			return errDamaged
		}
		b = b[n:]
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

// tally is how often a message has each field up to the number 31.
func tally(message []byte) (counts [32]int, err error) {
	err = each(message, func(f field) error {
		if int(f.number) < len(counts) {
			counts[f.number]++
		}
		return nil
	})
	return counts, err
}

func (f field) wrong() error {
	return fmt.Errorf("field %d is encoded as none of its kind: %w", f.number, errDamaged)
}

func (f field) int(to *int64) error {
	if f.kind != protowire.VarintType {
		return f.wrong()
	}
	*to = int64(f.value)
	return nil
}

func (f field) float(to *float32) error {
	if f.kind != protowire.Fixed32Type {
		return f.wrong()
	}
	*to = math.Float32frombits(uint32(f.value))
	return nil
}

func (f field) text(to *string) error {
	if f.kind != protowire.BytesType || !utf8.Valid(f.bytes) {
		return f.wrong()
	}
	*to = string(f.bytes)
	return nil
}

func (f field) appendText(to *[]string) error {
	var s string
	err := f.text(&s)
	*to = append(*to, s)
	return err
}

// appendBytes is appendText for what need not be a name.
func (f field) appendBytes(to *[]string) error {
	if f.kind != protowire.BytesType {
		return f.wrong()
	}
	*to = append(*to, string(f.bytes))
	return nil
}

// message takes what may be there once: two of them would have to be merged, and no program writes that.
func (f field) message(to *[]byte) error {
	if f.kind != protowire.BytesType {
		return f.wrong()
	}
	if *to != nil {
		return fmt.Errorf("field %d is there twice: %w", f.number, errDamaged)
	}
	*to = f.bytes[:len(f.bytes):len(f.bytes)]
	if *to == nil {
		*to = []byte{}
	}
	return nil
}

// numbers calls do with each number of a repeated field, whether they are packed together or not.
func (f field) numbers(kind protowire.Type, do func(v uint64) error) error {
	if f.kind == kind {
		return do(f.value)
	}
	if f.kind != protowire.BytesType {
		return f.wrong()
	}
	for b := f.bytes; len(b) > 0; {
		var v uint64
		var n int
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var w uint32
			w, n = protowire.ConsumeFixed32(b)
			v = uint64(w)
		default:
			v, n = protowire.ConsumeFixed64(b)
		}
		if n < 0 {
			return errDamaged
		}
		if err := do(v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// quote shows a name of the file, or its beginning: a name may be of any length.
func quote(name string) string {
	const most = 100
	if runes := []rune(name[:min(len(name), 4*most)]); len(runes) > most {
		return fmt.Sprintf("%q…", string(runes[:most]))
	}
	return fmt.Sprintf("%q", name)
}
