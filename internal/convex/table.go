package convex

import (
	"math"
	"sync"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
)

// Table is the private records of a linear model. No method of it is for anything but a
// mechanism's input: its sums are of every record that counts, and its size is private.
type Table struct {
	*Model
	Norm    float64 // of features, at most
	Threads int
	Most    int     // records that count, those in front; 0: all
	Order   []int32 // of the public places, for a solver that takes them one after the other

	rows   []float32 // Inputs values a record
	factor []float64 // what brings a record's features down to the norm
	target []float32 // NaN of a record that counts as zero
}

// NewTable reads the records that a device is given. A record's features are scaled to the
// norm at most, in float64 and whatever scaled them before.
func NewTable(m *Model, rows device.Rows, features device.Features, norm float64, threads int) (*Table, error) {
	if err := rows.Validate(features, "a solver", host.Plain.Has); err != nil {
		return nil, err
	}
	rows = rows.Checked(features)
	t := &Table{Model: m, Norm: norm, Threads: max(threads, 1), factor: make([]float64, rows.Count), target: make([]float32, rows.Count)}
	if f, ok := features.(device.Floats); ok && len(rows.Gather) == 0 {
		t.rows = f
	} else {
		t.rows = make([]float32, features.Len())
		for i := range rows.Count {
			host.Plain.Read(t.rows[i*rows.Width:][:rows.Width], &rows, features, i)
		}
	}
	for i := range rows.Count {
		t.target[i] = rows.Targets[i]
		if !m.Loss.ValidTarget(rows.Targets[i], m.Outputs) {
			t.target[i] = float32(math.NaN())
			continue
		}
		t.factor[i] = shrink(t.row(i), norm)
	}
	return t, nil
}

// row is a record's features before they are scaled.
func (t *Table) row(i int) []float32 { return t.rows[i*t.Inputs:][:t.Inputs] }

// counts reports whether a record is there that does not count as zero.
func (t *Table) counts(i int) bool {
	return i < len(t.target) && (t.Most == 0 || i < t.Most) && t.target[i] == t.target[i]
}

// shrink is what brings x down to a norm. The margin is for the rounding of the norm and of what is
// computed with the factor.
func shrink(x []float32, norm float64) float64 {
	margin := 1 - float64(len(x)+64)*0x1p-53
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	if length := math.Sqrt(sum); length > norm*margin {
		return norm * margin / length
	}
	return 1
}

// logits are those of a record's, at w.
func (t *Table) logits(z, w []float64, i int) {
	x := t.row(i)
	for k := range z {
		z[k] = dot(w[t.weight+k*t.Inputs:][:t.Inputs], x) * t.factor[i]
		if t.Bias {
			z[k] += w[t.bias+k]
		}
	}
}

// dot adds up in four sums, of every fourth product.
func dot(w []float64, x []float32) float64 {
	var a, b, c, d float64
	for len(x) >= 4 && len(w) >= 4 {
		a += w[0] * float64(x[0])
		b += w[1] * float64(x[1])
		c += w[2] * float64(x[2])
		d += w[3] * float64(x[3])
		w, x = w[4:], x[4:]
	}
	for i, v := range x {
		a += w[i] * float64(v)
	}
	return (a + b) + (c + d)
}

// addGradient adds the gradient of a record's loss at w; z and delta are room for the logits and
// their gradient.
func (t *Table) addGradient(into, w, z, delta []float64, i int) {
	t.logits(z, w, i)
	host.Loss(t.Loss, z, t.target[i], delta)
	x, factor := t.row(i), t.factor[i]
	for k, d := range delta {
		if t.Bias {
			into[t.bias+k] += d
		}
		if d *= factor; d == 0 {
			continue
		}
		g := into[t.weight+k*t.Inputs:][:len(x)]
		for j, v := range x {
			g[j] += d * float64(v)
		}
	}
}

// RecordGradient sets into to the gradient at w of the record at one place: zero where none counts.
func (t *Table) RecordGradient(place int, w, into []float64) {
	clear(into)
	if t.counts(place) {
		t.addGradient(into, w, make([]float64, t.Outputs), make([]float64, t.Outputs), place)
	}
}

// blockRows are added up from zero, and their sums in the order of the table, so that results do
// not depend on threads.
const blockRows = 512

// Gradient sets into to the sum of the gradients of all records' losses at w.
func (t *Table) Gradient(w, into []float64) {
	t.sums(into, func() func(sum []float64, i int) {
		z, delta := make([]float64, t.Outputs), make([]float64, t.Outputs)
		return func(sum []float64, i int) { t.addGradient(sum, w, z, delta, i) }
	})
}

// sums adds up what every record that counts adds to a vector; each gives a goroutine its function.
func (t *Table) sums(into []float64, each func() func(sum []float64, i int)) {
	n := len(t.target)
	blocks := (n + blockRows - 1) / blockRows
	all := make([]float64, blocks*len(into))
	var group sync.WaitGroup
	for k := range min(t.Threads, blocks) {
		group.Go(func() {
			add := each()
			for b := k; b < blocks; b += t.Threads {
				sum := all[b*len(into):][:len(into)]
				for i := b * blockRows; i < min((b+1)*blockRows, n); i++ {
					if t.counts(i) {
						add(sum, i)
					}
				}
			}
		})
	}
	group.Wait()
	clear(into)
	for b := range blocks {
		for i, v := range all[b*len(into):][:len(into)] {
			into[i] += v
		}
	}
}

// A Solver finds parameters from private records. Where tilt is not nil, it is a linear term ⟨tilt, w⟩
// of the sum of losses. stopped is asked now and then, and its error ends the work. What it finds
// is private, and no outcome but the result may depend on the records.
type Solver interface {
	Solve(t *Table, tilt []float64, stopped func() error) ([]float64, error)
}
