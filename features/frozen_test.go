package features

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// fake is a network whose runner is a function of all records that it is given together.
type fake struct {
	of     func(dst, records []float32) error
	opened int
}

func (f *fake) Program() (*ir.Program, []float32) { return nil, nil }
func (f *fake) Open(int) (Runner, error)          { f.opened++; return f, nil }
func (f *fake) Write(w io.Writer) error           { _, err := w.Write([]byte("file")); return err }
func (f *fake) Of(dst, records []float32) error   { return f.of(dst, records) }
func (f *fake) Close()                            { f.opened-- }
func (f *fake) Rest()                             {}

// sums gives each record of four values their sum and twice that.
func sums(dst, records []float32) error {
	for i := range len(records) / 4 {
		for _, x := range records[4*i : 4*i+4] {
			dst[2*i] += x
		}
		dst[2*i+1] = 2 * dst[2*i]
	}
	return nil
}

// cleared has the runner begin with zeros: memory is used again.
func cleared(of func(dst, records []float32) error) func(dst, records []float32) error {
	return func(dst, records []float32) error { clear(dst); return of(dst, records) }
}

func TestFrozenRows(t *testing.T) {
	n := &fake{of: cleared(sums)}
	f, err := Frozen([3]int{1, 2, 2}, [3]int{2, 1, 1}, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Probe(1); err != nil {
		t.Error(err)
	}
	nan := float32(math.NaN())
	images := Images{Values: []float32{1, 0, 0, 0, nan, 0, 0, 0, 1, 1, 1, 1, 1e5, 0, 0, 0}}
	rows := f.Rows(images, 2, nil)
	const one, two, four, eight = 0x3c00, 0x4000, 0x4400, 0x4800
	// The second is not finite, and the last is above what a half holds: both count as damaged.
	if want := []uint16{one, two, notANumber, notANumber, four, eight, notANumber, notANumber}; !slices.Equal(rows, want) {
		t.Errorf("rows %x, want %x", rows, want)
	}
	if n.opened != 0 {
		t.Errorf("%d runners are still open", n.opened)
	}
	var file bytes.Buffer
	if err := f.Write(&file); err != nil || file.String() != "file" || f.IsFunc() || f.Made() || f.Spec().Kind != FrozenKind {
		t.Errorf("it writes %q, and is %+v: %v", file.String(), f.Spec(), err)
	}
	if d, err := f.Digest(); err != nil || len(d) != 64 {
		t.Errorf("digest %q: %v", d, err)
	}
}

// A map in which one record sees another is refused, and so is one without any use.
func TestFrozenIsProbed(t *testing.T) {
	for want, of := range map[string]func(dst, records []float32) error{
		"alone than among others": func(dst, records []float32) error {
			_ = sums(dst, records)
			dst[0] += float32(len(records))
			return nil
		},
		"not finite": func(dst, records []float32) error {
			for i := range dst {
				dst[i] = 1e6
			}
			return nil
		},
		"broken": func(dst, records []float32) error { return errors.New("broken") },
	} {
		f, err := Frozen([3]int{1, 2, 2}, [3]int{2, 1, 1}, &fake{of: cleared(of)})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Probe(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := Frozen([3]int{1, 2, 2}, [3]int{1 << 21, 1, 1}, &fake{}); err == nil {
		t.Error("rows of 2²¹ values were taken")
	}
}
