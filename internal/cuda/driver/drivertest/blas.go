package drivertest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

const workspace = 4 << 20

func clocks(r *Rig) {
	var k [3]driver.Clock
	for i := range k {
		k[i] = Got(r.Context.NewClock())(r.T)
	}
	p := r.Floats(0)
	since := func(a, b driver.Clock) {
		r.T.Helper()
		if d := Got(b.Since(a))(r.T); d < 0 || a != b && d == 0 {
			r.T.Errorf("work took %v", d)
		}
	}
	between := func() error {
		return errors.Join(r.Stream.Mark(k[0]), r.Stream.Launch(r.AddLaunch(p, 1, 1)), r.Stream.Mark(k[1]), r.Stream.Launch(r.AddLaunch(p, 1, 1)), r.Stream.Mark(k[2]))
	}
	r.OK(between())
	since(k[0], k[1])
	since(k[1], k[2])
	since(k[2], k[2])
	g := Got(r.Stream.Capture(between))(r.T)
	for range 2 {
		r.OK(r.Stream.Run(g))
		since(k[0], k[2])
		since(k[1], k[2])
	}
	r.Holds(p, 6)
	for _, c := range k {
		r.once("a clock is closed", c.Close)
	}
}

// productOf makes a product of small integers, of which every sum is exact in whatever
// order, with rows that are longer than they need to be. It gives what C's memory must hold then.
func productOf(r *Rig, rnd *rand.Rand, m, n, k, batch int, ta, tb, add bool) (driver.Product, []float32) {
	integers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rnd.IntN(9) - 4)
		}
		return x
	}
	rowsA, rowsB := m, k
	p := driver.Product{M: m, N: n, K: k, RowA: k + 1, RowB: n + 2, RowC: n + 3, TransA: ta, TransB: tb, Add: add, Batch: batch}
	if ta {
		rowsA, p.RowA = k, m+1
	}
	if tb {
		rowsB, p.RowB = n, k+2
	}
	p.NextA, p.NextB, p.NextC = int64(rowsA*p.RowA+5), int64(rowsB*p.RowB+6), int64(m*p.RowC+7)
	times := max(batch, 1)
	a, b, c := integers(times*int(p.NextA)), integers(times*int(p.NextB)), integers(times*int(p.NextC))
	p.A, p.B, p.C = r.Floats(a...), r.Floats(b...), r.Floats(c...)
	for t := range times {
		a, b, c := a[t*int(p.NextA):], b[t*int(p.NextB):], c[t*int(p.NextC):]
		for i := range m {
			for j := range n {
				var sum float32
				for l := range k {
					atA, atB := i*p.RowA+l, l*p.RowB+j
					if ta {
						atA = l*p.RowA + i
					}
					if tb {
						atB = j*p.RowB + l
					}
					sum += a[atA] * b[atB]
				}
				if add {
					sum += c[i*p.RowC+j]
				}
				c[i*p.RowC+j] = sum
			}
		}
	}
	return p, c
}

// products are of all layouts, at once and captured.
func products(r *Rig) {
	at := Got(r.Context.Alloc(workspace))(r.T)
	h := Got(r.Context.(driver.BLASContext).NewProducts(r.Stream, at, workspace))(r.T)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 32 {
		m, n, k := 1+rnd.IntN(9), 1+rnd.IntN(9), 1+rnd.IntN(9)
		batch := i / 8 * (i / 16) // 0, 0, 2, 3
		p, want := productOf(r, rnd, m, n, k, batch, i&1 != 0, i&2 != 0, i&4 != 0)
		what := fmt.Sprintf("%+v", p)
		r.OK(h.Multiply(p))
		r.OK(r.Stream.Sync())
		if got := r.Read(p.C, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
			r.T.Fatalf("%s: got %v, want %v", what, got, want)
		}
		// Captured, with operands of other values, and by value.
		q, want := productOf(r, rnd, m, n, k, batch, p.TransA, p.TransB, p.Add)
		c := q.C
		g := Got(r.Stream.Capture(func() error {
			err := h.Multiply(q)
			q = driver.Product{}
			return err
		}))(r.T)
		r.OK(r.Stream.Run(g))
		r.OK(r.Stream.Sync())
		if got := r.Read(c, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
			r.T.Fatalf("captured %s: got %v, want %v", what, got, want)
		}
	}
	// IEEE float32: neither the last bit nor the least of a product is lost.
	x, y, z := r.Floats(1+0x1p-23), r.Floats(1+0x1p-22), r.Floats(0)
	r.OK(h.Multiply(driver.Product{M: 1, N: 1, K: 1, A: x, B: y, C: z, RowA: 1, RowB: 1, RowC: 1}))
	r.OK(r.Stream.Sync())
	r.Holds(z, 1+0x1p-22+0x1p-23)
	if h.Multiply(driver.Product{}) == nil {
		r.T.Error("a product of nothing is multiplied")
	}
	r.once("a handle is closed", h.Close)
}

// everyProduct makes every call of the library once, where there is one.
func everyProduct(d driver.Driver, c driver.Context, s driver.Stream) error {
	b, ok := d.(driver.BLAS)
	if !ok {
		return nil
	}
	if _, err := b.BLAS(); err != nil {
		return err
	}
	at, err := c.Alloc(workspace)
	if err != nil {
		return err
	}
	h, err := c.(driver.BLASContext).NewProducts(s, at, workspace)
	if err != nil {
		return err
	}
	p := driver.Product{M: 1, N: 1, K: 1, A: at, B: at, C: at + 4, RowA: 1, RowB: 1, RowC: 1}
	batch := p
	batch.Batch = 2
	return errors.Join(h.Multiply(p), h.Multiply(batch), s.Sync(), h.Close())
}
