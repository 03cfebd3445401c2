package file

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of a tensor's message.
const (
	tensorDims     = 1
	tensorType     = 2
	tensorSegment  = 3
	tensorName     = 8
	tensorRaw      = 9
	tensorBeside   = 13
	tensorLocation = 14
)

// inside is a tensor's message in the file: its numbers stay there.
type inside []byte

func (s inside) raw(t *Tensor) (raw []byte, err error) {
	e := elements[t.Type]
	var listed []byte
	n := t.Len()
	err = each(s, func(f field) error {
		switch f.number {
		case tensorRaw:
			return f.message(&raw)
		case e.list:
			if listed == nil { // counted when the file was read
				listed = make([]byte, 0, n*e.size)
			}
			return f.numbers(e.kind, func(v uint64) error {
				if len(listed) == cap(listed) {
					return errDamaged
				}
				listed = append(listed, binary.LittleEndian.AppendUint64(nil, v)[:e.size]...)
				return nil
			})
		}
		return nil
	})
	if raw == nil {
		raw = listed
	}
	return raw, err
}

// check counts a tensor's numbers and takes no memory: a shape of any size is refused where the file does not hold as many.
func (s inside) check(t *Tensor) error {
	e, read := elements[t.Type]
	if !read {
		return nil // nobody can ask for them
	}
	var raw []byte
	listed := 0
	err := each(s, func(f field) error {
		switch f.number {
		case tensorRaw:
			return f.message(&raw)
		case e.list:
			return f.numbers(e.kind, func(v uint64) error {
				if e.kind == protowire.VarintType && (int64(v) < e.from || int64(v) > e.to) {
					return fmt.Errorf("it holds %d, which its type %s does not have", int64(v), t.Type)
				}
				listed++
				return nil
			})
		}
		return nil
	})
	switch n := t.Len(); {
	case err != nil:
		return err
	case len(raw) > 0 && listed > 0:
		return errors.New("it holds its numbers in two forms: export the model again")
	case listed > 0 && listed != n:
		return fmt.Errorf("its shape %v has %d numbers, the file holds %d: export or copy the file again", t.Shape, n, listed)
	case listed == 0 && len(raw) != n*e.size:
		return fmt.Errorf("its shape %v takes %d bytes, the file holds %d: export or copy the file again", t.Shape, n*e.size, len(raw))
	}
	return nil
}
