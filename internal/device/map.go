package device

import (
	"errors"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// A Front is a front end: a fixed public map of one record to a row of values of half precision.
type Front interface {
	In() [3]int // the shape of a record: channels, height, width
	Width() int // values of a row
	// Program is the map as ops, from a record with values of [0, 1] to a row before it is rounded to halves, and the
	// values of its constants. nil: it is a Go function, which only the host can call.
	Program() (*ir.Program, []float32)
	// Fill writes the rows of records on the host, on so many goroutines. Either bytes are given, of which b stands for b/255, or
	// values. A record that is not finite, or whose row is not, gets a row of NaN, silently.
	Fill(rows []uint16, bytes []uint8, values []float32, threads int)
}

// Fractions is how bytes are gathered that stand for values of [0, 1].
var Fractions = ir.Gather{ir.ScaledBy(1.0/255, 0)}

// A Mapper is a Device that makes a table of the rows that a front end makes of another table's records.
type Mapper interface {
	// Maps says why the device cannot map by a front end, behind "device NAME …"; nil if it can.
	Maps(Front) error
	// Map maps a loaded table, whose bytes are gathered as Fractions. The rows keep their targets, and one
	// that is not finite is void. A row depends on its record alone: its bits are the same wherever it stands and
	// whatever else the table holds. Nothing can be read back.
	Map(Front, Data, MapOptions) (Data, error)
}

// MapOptions say how a table is mapped. They change no bit.
type MapOptions struct {
	Threads  int               // of the host, if that maps; 0 stands for 1
	Parts    int               // in which the table is worked through, whatever its length; 0 stands for 50
	Progress func(percent int) // gets 1 to 100, behind the parts; nil: nobody asks
	Stopped  func() error      // asked before each part; its error ends the mapping; nil: it goes on
}

// MapperOf is a device, or the one that it wraps and names by a method Wrapped, as a Mapper; nil if it is none.
func MapperOf(d Device) Mapper {
	if m, ok := d.(Mapper); ok {
		return m
	}
	if w, ok := d.(interface{ Wrapped() Device }); ok {
		return MapperOf(w.Wrapped())
	}
	return nil
}

// CheckFront says whether a front end reads a table of such values.
func CheckFront(front Front, r *Rows, values Features) error {
	in := front.In()
	_, bytes := values.(Bytes)
	_, halves := values.(Halves)
	switch {
	case r == nil:
		return errors.New("the records to map are not loaded here")
	case r.Width != ir.Size(in[:]):
		return fmt.Errorf("the front end reads records of %d values, and they have %d", ir.Size(in[:]), r.Width)
	case bytes && !slices.Equal(r.Gather, Fractions):
		return fmt.Errorf("the front end reads values of [0, 1], and bytes gathered by %v stand for others", r.Gather)
	case halves:
		return errors.New("the front end reads bytes or float32 values, and the records have half precision")
	}
	return nil
}

// Work calls do for the records of each part of n, and reports in between.
func (o MapOptions) Work(n int, do func(lo, hi int)) error {
	parts := o.Parts
	if parts == 0 {
		parts = 50
	}
	for k := range parts {
		if o.Stopped != nil {
			if err := o.Stopped(); err != nil {
				return err
			}
		}
		do(k*n/parts, (k+1)*n/parts)
		if o.Progress != nil {
			for percent := k*100/parts + 1; percent <= (k+1)*100/parts; percent++ {
				o.Progress(percent)
			}
		}
	}
	return nil
}
