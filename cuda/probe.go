package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// A product has 16×8 results, of which each lane of a warp has four.
const (
	probeRows  = 16
	probeLanes = 32
)

// trial is a product of fragments: c + A·B of the rows i, columns j and terms k. Where want is given, every result must be it.
type trial struct {
	a    func(i, k int) float32
	b    func(k, j int) float32
	c    float32
	want func(i, j int) float32 // nil: all are alike
}

// all gives one result everywhere.
func all(x float32) func(i, j int) float32 { return func(int, int) float32 { return x } }

// terms is a trial with a product in each of some places k: x times y.
func terms(c, want float32, places map[int][2]float32) trial {
	return trial{
		a:    func(_, k int) float32 { return places[k][0] },
		b:    func(k, _ int) float32 { return places[k][1] },
		c:    c,
		want: all(want),
	}
}

// trials are products of which docs/proofs/rounding.md says what comes out, in any order and however many are added at a time: bits down
// to 23 places behind the largest term's are kept, and so are all results in 24 digits. last is the last place of a factor.
func trials(of kernels.Math) []trial {
	n, last := of.ProbeTerms(), float32(0x1p-7)
	if device.Precision(of) == device.TF32 {
		last = 0x1p-10
	}
	one, least := [2]float32{1, 1}, [2]float32{0x1p-11, 0x1p-12} // 2⁻²³ is 23 places behind 1
	minus := [2]float32{-1, 1}
	var list []trial
	most := map[int][2]float32{}
	for k := range n {
		most[k] = least
		list = append(list,
			terms(0, (1+last)*(1+last), map[int][2]float32{k: {1 + last, 1 + last}}), // all digits of a product
			terms(1, 1+0x1p-23, map[int][2]float32{k: least}),
			terms(-1, -1-0x1p-23, map[int][2]float32{k: {-0x1p-11, 0x1p-12}}),
			terms(0x1p-23, 1+0x1p-23, map[int][2]float32{k: one}),
			terms(1.5, 3+0x1p-22, map[int][2]float32{k: {1.5, 1}, (k + 1) % n: {0x1p-11, 0x1p-11}}),
		)
		for other := range n {
			if other != k {
				list = append(list,
					terms(0, 1+0x1p-23, map[int][2]float32{k: one, other: least}),
					terms(1, 0x1p-23, map[int][2]float32{k: minus, other: least})) // nothing is left of what is large
			}
		}
	}
	list = append(list, terms(1, 1+float32(n)*0x1p-23, most), places(n))
	// What a record's gradient is must not depend on its place: equal rows and columns of any numbers come out alike.
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for range 64 {
		x, y := make([]float32, n), make([]float32, n)
		for k := range n {
			x[k], y[k] = rounded(of, random), rounded(of, random)
		}
		list = append(list, trial{
			a: func(_, k int) float32 { return x[k] },
			b: func(k, _ int) float32 { return y[k] },
			c: float32(random.NormFloat64()),
		})
	}
	return list
}

// places has another whole number in every place, so that results lie where the kernels look for them.
func places(n int) trial {
	a := func(i, k int) float32 { return float32((i*7 + k*3) % 16) }
	b := func(k, j int) float32 { return float32((j*5 + k*11) % 16) }
	return trial{a, b, 3, func(i, j int) float32 {
		sum := float32(3)
		for k := range n {
			sum += a(i, k) * b(k, j)
		}
		return sum
	}}
}

// rounded draws a number of a precision, of very different sizes.
func rounded(of kernels.Math, random *rand.Rand) float32 {
	low := uint32(0xffff)
	if device.Precision(of) == device.TF32 {
		low = 0x1fff
	}
	x := float32(random.NormFloat64() * math.Exp2(float64(random.IntN(12))))
	return math.Float32frombits(math.Float32bits(x) &^ low)
}

// trusted probes the tensor cores, once for each precision.
func (d *Device) trusted(of kernels.Math) error {
	if d.probed[of] {
		return nil
	}
	if err := d.probe(of); err != nil {
		return err
	}
	if d.probed == nil {
		d.probed = map[kernels.Math]bool{}
	}
	d.probed[of] = true
	return nil
}

// probe tries whether tensor cores add as precisely as the bound on rounding assumes, and alike at every place of a fragment.
func (d *Device) probe(of kernels.Math) (err error) {
	list := trials(of)
	a, b, c := fragments(of, list)
	m := memory{device: d}
	defer func() { err = errors.Join(err, m.release()) }()
	var at [4]driver.Ptr
	for i, x := range [][]byte{bytesOf(a), bytesOf(b), bytesOf(c), bytesOf(c)} {
		if at[i], err = m.alloc(int64(len(x)), "trials of tensor cores", lessMemory); err != nil {
			return err
		}
		if err := d.context.CopyIn(at[i], x); err != nil {
			return d.failed(probing, err)
		}
	}
	got := make([]float32, len(c))
	if err := d.runOnce(of.Probe(len(list), kernels.Ptr(at[0]), kernels.Ptr(at[1]), kernels.Ptr(at[2]), kernels.Ptr(at[3]))); err != nil {
		return err
	}
	if err := d.context.CopyOut(bytesOf(got), at[3]); err != nil {
		return d.failed(probing, err)
	}
	for n, t := range list {
		if err := t.judge(got[n*4*probeLanes:]); err != nil {
			return fmt.Errorf("--precision %v: the tensor cores of %s do not add as precisely as the proof on rounding assumes (%w): use --precision float32",
				device.Precision(of), d.info.Name, err)
		}
	}
	return nil
}

const probing = "trying tensor cores"

// runOnce launches a kernel and waits for it.
func (d *Device) runOnce(l kernels.Launch) error {
	f, err := d.function(&l)
	if err != nil {
		return err
	}
	s, err := d.context.NewStream()
	if err != nil {
		return d.failed(probing, err)
	}
	err = s.Launch(driver.Launch{Function: f, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Args: l.Args})
	if err == nil {
		err = s.Sync()
	}
	return d.failed(probing, errors.Join(err, s.Close()))
}

// judge looks at what lanes have of a trial's results.
func (t *trial) judge(got []float32) error {
	for lane := range probeLanes {
		for e := range 4 {
			i, j := lane/4+e/2*8, lane%4*2+e%2
			x := got[4*lane+e]
			switch {
			case t.want != nil && x != t.want(i, j):
				return fmt.Errorf("row %d, column %d of a product is %v instead of %v", i, j, x, t.want(i, j))
			case t.want == nil && math.Float32bits(x) != math.Float32bits(got[0]):
				return fmt.Errorf("row %d, column %d of a product of equal rows and columns is %v, and the first %v", i, j, x, got[0])
			}
		}
	}
	return nil
}

// fragments lays operands out as registers have them: a word is one term of tf32, or two neighbouring ones of bf16.
func fragments(of kernels.Math, list []trial) (a, b []uint32, c []float32) {
	word := func(f func(k int) float32, w int) uint32 {
		if device.Precision(of) == device.TF32 {
			return math.Float32bits(f(w))
		}
		return math.Float32bits(f(2*w))>>16 | math.Float32bits(f(2*w+1))&0xffff0000
	}
	for _, t := range list {
		for lane := range probeLanes {
			g, w := lane/4, lane%4
			for _, at := range [][2]int{{g, w}, {g + probeRows/2, w}, {g, w + 4}, {g + probeRows/2, w + 4}} {
				a = append(a, word(func(k int) float32 { return t.a(at[0], k) }, at[1]))
			}
			for _, w := range []int{w, w + 4} {
				b = append(b, word(func(k int) float32 { return t.b(k, g) }, w))
			}
			c = append(c, t.c, t.c, t.c, t.c)
		}
	}
	return a, b, c
}
