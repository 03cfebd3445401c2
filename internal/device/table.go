package device

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// Features are the values of a table, row after row, in one of three forms.
type Features interface {
	Len() int
	features()
}

// Bytes stand for the whole numbers from 0 to 255.
type Bytes []uint8

// Floats stand for themselves.
type Floats []float32

// Halves are bits of IEEE 754 half precision (package half) and stand for themselves.
type Halves []uint16

// Len is how many values there are.
func (f Bytes) Len() int  { return len(f) }
func (f Floats) Len() int { return len(f) }
func (f Halves) Len() int { return len(f) }

func (Bytes) features()  {}
func (Floats) features() {}
func (Halves) features() {}

// Rows describes a table of examples: Count rows of Width values, and one target a
// row (what ir.Loss says). A row whose target the loss does not accept adds nothing to any
// sum, and a row with a value that is not finite is such a row.
type Rows struct {
	Count, Width int
	// Gather makes of a row what a network reads. Only Bytes are ir.Scaled: what values the other forms stand for, their
	// table says by itself.
	Gather  ir.Gather
	Targets []float32
	Mapped  bool // the values, but not the targets, lie in files, whose pages are read when they are needed
}

// Validate checks a table against its values, and its gather against the maps that its reader, such as "device cpu",
// has. Counts of rows are private, so no message names them.
func (r Rows) Validate(f Features, reader string, has func(ir.MapKind) bool) error {
	switch {
	case r.Count < 0 || r.Width < 1:
		return fmt.Errorf("a table needs rows of at least one value, has width %d", r.Width)
	case f == nil:
		return errors.New("a table has no values")
	case f.Len() != r.Count*r.Width || len(r.Targets) != r.Count:
		return errors.New("a table's values, targets and row count do not agree")
	}
	for _, m := range r.Gather {
		if !has(m.Kind) {
			return fmt.Errorf("%s does not have the map %s", reader, m.Kind)
		}
		if m.Kind.Drawn() {
			return fmt.Errorf("the map %s is drawn for each view of a record: it belongs to a schedule, not to a table", m.Kind)
		}
	}
	if _, bytes := f.(Bytes); !bytes && r.Gather.Has(ir.Scaled) {
		return fmt.Errorf("the map %s is for tables of bytes; scale other values before they are loaded", ir.Scaled)
	}
	return r.Gather.Validate([]int{r.Width})
}

// Checked is a valid table in which the target of every row with a value that is not
// finite is NaN, which no loss accepts; the caller's targets stay as they are. A device
// loads no other, and gathers zeros for rows that are Void: 0·NaN is not 0.
func (r Rows) Checked(f Features) Rows {
	finite := func(lo, hi int) bool { return true }
	switch f := f.(type) {
	case Floats:
		finite = func(lo, hi int) bool { return allFinite(f[lo:hi]) }
	case Halves:
		finite = func(lo, hi int) bool { return allFiniteHalves(f[lo:hi]) }
	}
	own := false
	for i := range r.Count {
		if finite(i*r.Width, (i+1)*r.Width) {
			continue
		}
		if !own {
			r.Targets, own = slices.Clone(r.Targets), true
		}
		r.Targets[i] = float32(math.NaN())
	}
	return r
}

func allFinite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

func allFiniteHalves(x []uint16) bool {
	const endless = 0x7c00 // the exponent of infinities and NaNs
	for _, h := range x {
		if h&endless == endless {
			return false
		}
	}
	return true
}

// Void says of a row that no loss accepts its target, as that is NaN: its values are not
// to be read.
func (r *Rows) Void(row int32) bool { return r.Targets[row] != r.Targets[row] }
