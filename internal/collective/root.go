package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
)

// AtRoot has rank 0 do f for all, and gives every rank its bytes or its error.
func AtRoot(g Group, kinds []error, f func() ([]byte, error)) ([]byte, error) {
	return At(g, 0, kinds, f)
}

// At has one rank do f for all, and gives every rank its bytes or its error, which is agreed
// upon. Other ranks get the error's text behind the number of the rank, and what can be asked
// of it: whether it is one of kinds, at most 62, and whether it is a usage error.
func At(g Group, rank int, kinds []error, f func() ([]byte, error)) ([]byte, error) {
	var head [16]byte
	var body []byte
	var err error
	own := g.Rank() == rank
	if own {
		if body, err = f(); err != nil {
			body = []byte(err.Error())
		}
		binary.LittleEndian.PutUint64(head[:], uint64(len(body)))
		binary.LittleEndian.PutUint64(head[8:], encode(err, kinds))
	}
	if err := g.Broadcast(rank, head[:]); err != nil {
		return nil, err
	}
	n, code := binary.LittleEndian.Uint64(head[:]), binary.LittleEndian.Uint64(head[8:])
	if !own {
		body = make([]byte, n)
	}
	if n > 0 {
		if err := g.Broadcast(rank, body); err != nil {
			return nil, err
		}
	}
	if code&failed == 0 {
		return body, nil
	}
	if !own {
		err = decode(fmt.Sprintf("rank %d: %s", rank, body), code, kinds)
	}
	return nil, Agree(err)
}

// What an error is, as bits; those below are for its kinds.
const (
	failed = 1 << 63
	misuse = 1 << 62
)

func encode(err error, kinds []error) (code uint64) {
	if err == nil {
		return 0
	}
	code = failed
	if u := new(usage.Error); errors.As(err, &u) {
		code |= misuse
	}
	for i, k := range kinds {
		if errors.Is(err, k) {
			code |= 1 << i
		}
	}
	return code
}

func decode(text string, code uint64, kinds []error) error {
	t := &told{text: text}
	for i, k := range kinds {
		if code>>i&1 != 0 {
			t.kinds = append(t.kinds, k)
		}
	}
	if code&misuse != 0 {
		return usage.Wrap(t)
	}
	return t
}

// told is an error of another rank's.
type told struct {
	text  string
	kinds []error
}

func (t *told) Error() string        { return t.text }
func (t *told) Is(target error) bool { return slices.Contains(t.kinds, target) }

// agreed is an error that every rank has.
type agreed struct{ error }

func (a agreed) Unwrap() error { return a.error }

// Agree marks an error that all ranks come to by themselves; nil stays nil.
func Agree(err error) error {
	if err == nil {
		return nil
	}
	return agreed{err}
}

// Agreed reports whether all ranks have an error, so that none has to be told of it by Abort.
func Agreed(err error) bool { return errors.As(err, new(agreed)) }
