package exact

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"math/big"
	"os"
	"testing"
)

var write = flag.Bool("write", false, "write vector.table anew")

const (
	madePrec   = 192
	madeDegree = 13 // of the Taylor series that polynomials are made of
	kept       = 4  // degree of the polynomials
	cellReach  = 0x1p-8
	seriesCut  = perOctave // series an octave; each serves four cells
)

// A series is f(u) = T⁻¹(u·2^-(e+1)) around a point of [1, 2) as a polynomial, and what that leaves out.
type series struct {
	centre float64
	a      [madeDegree + 1]*big.Float
	steep  float64 // the largest slope of f, with room for points a little lower
	off    float64 // within half a seriesCut of the centre
}

func reachTo(n int) float64 { return math.Ldexp(1, -8*n) } // cellReachⁿ

func made(x float64) *big.Float { return new(big.Float).SetPrec(madePrec).SetFloat64(x) }

func newSeries(e, j int) *series {
	const reach = 0.5 / seriesCut
	s := &series{centre: 1 + (float64(j)+0.5)/seriesCut}
	slope := func(z *big.Float) *big.Float { // -dz/du
		r := exponential(halfSquare(z))
		return r.SetMantExp(r.Mul(r, rootTwoPi(madePrec)), -e-2)
	}
	v := made(math.Ldexp(s.centre, -e-1))
	f, _ := v.Float64()
	z := made(normal.inverse(f, farthest))
	residual := func() *big.Float { // T(z) - V, as a step of u
		d := tail(z)
		d.Sub(d, v)
		return d.SetMantExp(d, e+1)
	}
	for range 3 { // of Newton's method
		d := residual()
		z.Add(z, d.Mul(d, slope(z)))
	}
	s.a[0] = z
	p := []int64{1}
	power, factorial := made(1), made(1)
	r := slope(z)
	r.Neg(r)
	for n := 1; n <= madeDegree; n++ {
		power.Mul(power, r)
		factorial.Mul(factorial, made(float64(n)))
		s.a[n] = made(0)
		for i := len(p) - 1; i >= 0; i-- {
			s.a[n].Mul(s.a[n], z)
			s.a[n].Add(s.a[n], new(big.Float).SetInt64(p[i]))
		}
		s.a[n].Mul(s.a[n], power)
		s.a[n].Quo(s.a[n], factorial)
		p = differentiate(p, int64(n))
	}

	// f and all derivatives are largest in absolute value where |Z| is.
	top := normal.topOf(uint64(perOctave+j)<<(57-e), madePrec)
	steep, _ := slope(made(top)).Float64()
	s.steep = steep * (1 + 0x1p-10)
	next, _ := evaluate(p, top, madePrec).Float64()
	rest := next
	for n := 1; n <= madeDegree+1; n++ {
		rest *= steep * reach / float64(n)
	}
	d, _ := residual().Float64()
	limit, _ := tailError(madePrec).Float64()
	s.off = rest + s.steep*(math.Abs(d)+math.Ldexp(limit, e+1))
	return s
}

// at gives the coefficients around another point, of powers of (u - centre)/cellReach.
func (s *series) at(centre float64) []*big.Float {
	d := made(centre - s.centre)
	b := make([]*big.Float, len(s.a))
	for i, a := range s.a {
		b[i] = new(big.Float).Set(a)
	}
	for i := range b {
		for j := len(b) - 2; j >= i; j-- {
			b[j].Add(b[j], new(big.Float).Mul(d, b[j+1]))
		}
		b[i].Mul(b[i], made(reachTo(i)))
	}
	return b
}

// chebyshev gives the coefficients of T₀ to T_n.
func chebyshev(n int) [][]float64 {
	t := [][]float64{{1}, {0, 1}}
	for k := 2; k <= n; k++ {
		c := make([]float64, k+1)
		for i, x := range t[k-1] {
			c[i+1] += 2 * x
		}
		for i, x := range t[k-2] {
			c[i] -= x
		}
		t = append(t, c)
	}
	return t
}

// nearest is the float64 nearest to x whose lower half is low.
func nearest(x float64, low uint32) float64 {
	b := math.Float64bits(x)&^(1<<32-1) | uint64(low)
	best := math.Float64frombits(b)
	for _, c := range []uint64{b - 1<<32, b + 1<<32} {
		if y := math.Float64frombits(c); math.Abs(y-x) < math.Abs(best-x) {
			best = y
		}
	}
	return best
}

// budget is the parts of the bound.
type budget struct{ series, polynomial, coefficients, horner, digits, whole, most float64 }

// newRow makes the row of a cell, of u within cellReach of the centre.
func newRow(s *series, e int, centre float64, t [][]float64) (Row, budget) {
	a := s.at(centre)
	var row Row
	var c [kept + 1]float64
	cut := budget{series: s.off}
	for n := madeDegree; n >= 0; n-- {
		value := 0.0 // of the coefficient that is kept, of τⁿ where |τ| ≤ 1
		scale := reachTo(n)
		if n <= kept {
			x, _ := a[n].Float64()
			c[n] = x / scale
			switch n {
			case 4:
				c[4] = nearest(c[4], 0)
			case 3:
				c[3] = nearest(c[3], uint32(math.Float64bits(c[4])>>32))
			}
			if n < 4 {
				row[n] = math.Float64bits(c[n])
			}
			value = c[n] * scale
		}
		// What is lost is lost·τⁿ. Of that, lower terms make up for all but lost·2^(1-n)·Tₙ(τ), and |Tₙ| ≤ 1.
		lost := new(big.Float).Sub(a[n], made(value))
		top := 1.0
		if n > 1 {
			top = math.Ldexp(1, 1-n)
			for i, x := range t[n][:n] {
				a[i].Sub(a[i], new(big.Float).Mul(lost, made(x*top)))
			}
		}
		size, _ := lost.Float64()
		if size = math.Abs(size) * top; n > kept {
			cut.polynomial += size
		} else {
			cut.coefficients += size
		}
	}
	size := math.Abs(c[kept])
	for n := kept - 1; n >= 0; n-- {
		size = math.Abs(c[n]) + size*cellReach
		cut.horner += unit * size * reachTo(n)
	}
	cut.most = size * (1 + 0x1p-40)
	// x is within half a unit in its last place of the odd one of v and v + 1.
	cut.digits = s.steep * (unit + math.Ldexp(1, e-62))
	// The roundings of this sum, and those of second order and of 192 bits.
	cut.whole = (cut.series + cut.polynomial + cut.coefficients + cut.horner + cut.digits) * (1 + 0x1p-10)
	return row, cut
}

// The committed table is what this makes, and the bound that the fast path rests on is what this certifies.
func TestVectorTable(t *testing.T) {
	polynomials := chebyshev(madeDegree)
	const cells = 1 << cellDigits
	rows := make([]Row, rowOctaves*cells)
	var worst budget
	for e := range rowOctaves {
		for j := range seriesCut {
			s := newSeries(e, j)
			for i := range cells / seriesCut {
				cell := j*cells/seriesCut + i
				row, b := newRow(s, e, 1+(float64(cell)+0.5)/cells, polynomials)
				rows[(rowOctaves-1-e)*cells+cell] = row
				worst = budget{max(worst.series, b.series), max(worst.polynomial, b.polynomial), max(worst.coefficients, b.coefficients), max(worst.horner, b.horner),
					max(worst.digits, b.digits), max(worst.whole, b.whole), max(worst.most, b.most)}
			}
		}
	}
	var b []byte
	for _, row := range rows {
		for _, w := range row {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	log := math.Log2
	t.Logf("series 2^%.2f, polynomial 2^%.2f, coefficients 2^%.2f, Horner's rule 2^%.2f, digits 2^%.2f, worst sum 2^%.4f = %x, most %v",
		log(worst.series), log(worst.polynomial), log(worst.coefficients), log(worst.horner), log(worst.digits), log(worst.whole), worst.whole, worst.most)
	if worst.whole > tableBound || worst.most > tableMost {
		t.Errorf("the bound is %x and the largest |Z| %v, the constants are less: %x and %v", worst.whole, worst.most, tableBound, tableMost)
	}
	if *write {
		if err := os.WriteFile("vector.table", b, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(b, packed) {
		t.Error("vector.table is not what this makes: go test -run VectorTable -write")
	}
}
