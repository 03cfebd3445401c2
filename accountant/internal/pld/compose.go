package pld

import (
	"math"
	"math/bits"
)

// A factor is one kind's measure and how often it is composed.
type factor struct {
	measure
	count int
}

// A curve bounds the δ of a composition from one side, from the masses of the
// composed measure on a window, exponentially tilted. Index i has the loss
// offset + i·spacing and, untilted, the mass mass[i−low]·e^{log−tilt·i}.
type curve struct {
	grid
	low   int
	mass  []float64
	tilt  float64 // per index
	log   float64
	each  float64 // bounds the error of each mass
	outer float64 // bounds the tilted mass on either side of the window
	rel   float64 // bounds the relative error of the untilting, as a logarithm
	slack float64
	inf   float64 // bounds the mass of the infinite loss; upper end only
}

// scale untilts index i.
func (c *curve) scale(i int) float64 { return math.Exp(c.log - c.tilt*float64(i)) }

// cumulant is ln Σ mass·e^{t·index}, and the largest |t·index|.
func (m *measure) cumulant(t float64) (k, largest float64) {
	if len(m.index) == 0 {
		return math.Inf(-1), 0
	}
	top := math.Inf(-1)
	for _, x := range m.index {
		top = max(top, t*float64(x))
	}
	sum := 0.0
	for i, x := range m.index {
		sum += m.mass[i] * math.Exp(t*float64(x)-top)
	}
	n := len(m.index)
	return top + math.Log(sum), max(math.Abs(t*float64(m.index[0])), math.Abs(t*float64(m.index[n-1])))
}

// variance is that of the index under a tilt.
func (m *measure) variance(t float64) float64 {
	k, _ := m.cumulant(t)
	var sum, mean, square float64
	for i, x := range m.index {
		w, d := m.mass[i]*math.Exp(t*float64(x)-k), float64(x-m.index[0])
		sum, mean, square = sum+w, mean+w*d, square+w*d*d
	}
	mean /= sum
	return max(0, square/sum-mean*mean)
}

// A tilting says how a composition is computed: the tilt per unit of loss,
// by which further tilts up and down the tails are bounded, and the tilted mass that may lie beyond
// either end of the window.
type tilting struct{ tilt, up, down, outside float64 }

// window is where a composition's tilted mass lies but for a share outside on
// either side, by Chernoff's bound: exact on the measures, for any t.
func window(factors []factor, t tilting) (low, high float64) {
	h := factors[0].spacing
	var up, down float64
	for i := range factors {
		f := &factors[i]
		k, _ := f.cumulant(t.tilt * h)
		u, _ := f.cumulant((t.tilt + t.up) * h)
		d, _ := f.cumulant((t.tilt - t.down) * h)
		up += float64(f.count) * (u - k)
		down += float64(f.count) * (d - k)
	}
	rest := -math.Log(t.outside)
	return -(down + rest) / (t.down * h), (up + rest) / (t.up * h)
}

// compose raises the transforms of the tilted measures to their counts and
// multiplies them. The upper and the lower end travel as the real and the
// imaginary part of one transform.
func compose(upper, lower []factor, t tilting, lows [2]int, tr *transform) (up, down *curve) {
	n, log2 := tr.n, tr.log2
	up = &curve{grid: grid{spacing: upper[0].spacing}, low: lows[0], tilt: t.tilt * upper[0].spacing, outer: t.outside}
	down = &curve{grid: up.grid, low: lows[1], tilt: up.tilt, outer: t.outside}

	x := make([]complex128, n)
	s := newSpectrum(n, fftError*float64(log2))
	var kinds, logs float64
	for k := range upper {
		clear(x)
		var ends [2]expansion
		var l [2]float64
		many := upper[k].many(n) && lower[k].many(n)
		ends[0], l[0] = up.put(x, 1, &upper[k], many)
		ends[1], l[1] = down.put(x, 1i, &lower[k], many)
		logs += l[0] + l[1]
		kinds++
		tr.forward(x)
		s.multiply(x, upper[k].count, many, ends)
	}
	sum, bad := s.join(x)
	tr.backward(x)
	for side, c := range [2]*curve{up, down} {
		c.mass = make([]float64, n)
		for i := range c.mass {
			v := x[(c.low+i)&(n-1)]
			if side == 0 {
				c.mass[i] = real(v) / float64(n)
			} else {
				c.mass[i] = imag(v) / float64(n)
			}
		}
		c.each = 1.1 * (bad[side] + fftError*float64(log2)*(sum[0]+sum[1]))
		far := math.Abs(c.tilt) * (math.Abs(float64(c.low)) + float64(n))
		c.rel += ulp * (8 + 4*far + (2+kinds)*logs)
		c.slack += ulp * (kinds + 8) * (math.Abs(c.offset) + c.spacing*(math.Abs(float64(c.low))+float64(n)))
	}
	return up, down
}

// put adds a factor to a transform's input, in units of 1 or i, and the rest of it to the curve:
// its tilted masses, or for many steps their expansion. It returns its logarithms in absolute terms.
func (c *curve) put(x []complex128, unit complex128, f *factor, many bool) (e expansion, logs float64) {
	cumulant, largest := f.cumulant(c.tilt)
	count := float64(f.count)
	c.log += count * cumulant
	c.offset += count * f.offset
	c.slack += count * f.slack
	c.inf += count * f.infinite
	c.rel += count * ulp * (4*largest + 2*math.Abs(cumulant) + 8)
	add := func(at int, v float64) { x[at&(len(x)-1)] += complex(v*real(unit), v*imag(unit)) }
	masses := make([]float64, len(f.index))
	for i, at := range f.index {
		masses[i] = f.mass[i] * math.Exp(c.tilt*float64(at)-cumulant)
		if !many {
			add(at, masses[i])
		}
	}
	if many {
		e = expand(f.index, masses, add)
	}
	return e, count * math.Abs(cumulant)
}

// A spectrum is half the transform of the upper and of the lower end.
type spectrum struct {
	bins         []bin
	transformErr float64 // of one transform, relative to the sum of its input
}

type bin struct {
	value [2]complex128
	log   [2]float64 // Σ (count−1)·ln|φ|, an upper bound
	err   [2]float64 // Σ count·|error of φ|, and that of rounding
}

// dead is the logarithm of a frequency that is as good as none.
const dead = -80

func newSpectrum(n int, transformErr float64) *spectrum {
	s := &spectrum{make([]bin, n/2+1), transformErr}
	for j := range s.bins {
		s.bins[j].value = [2]complex128{1, 1}
	}
	return s
}

// multiply takes in the transform of one kind, raised to its count: of its masses, or of what
// is left of them behind an expansion.
func (s *spectrum) multiply(x []complex128, count int, many bool, ends [2]expansion) {
	direct := 2.1*s.transformErr + 4*ulp
	spread := ends[0].spread + ends[1].spread
	n := float64(count)
	for j := range s.bins {
		// Positions 0 and 1 hold frequencies 0 and n/2; of a block
		// [2^m, 2^{m+1}) the first half faces the second.
		at := position(j)
		a, b := x[at], x[opposite(at)]
		bin := &s.bins[j]
		phi := [2]complex128{
			complex((real(a)+real(b))/2, (imag(a)-imag(b))/2),
			complex((imag(a)+imag(b))/2, (real(b)-real(a))/2),
		}
		var w complex128
		if many {
			w = turn(frequency(j, len(x)), len(x))
		}
		for side, z := range phi {
			if bin.log[side] < dead {
				continue
			}
			less, err := z-1, direct
			if many {
				less, err = ends[side].at(w, z, s.transformErr*spread)
				z = 1 + less
			}
			if count > 1 {
				bin.log[side] += (n - 1) * math.Log(math.Hypot(real(z), imag(z))+err)
				if bin.log[side] < dead {
					bin.value[side] = 0
					continue
				}
			}
			bin.err[side] += n*err + 4*ulp
			if many && math.Abs(real(less)) < 0.25 && math.Abs(imag(less)) < 0.25 {
				bin.err[side] += 50*ulp*n*(math.Abs(real(less))+math.Abs(imag(less))) + 8*ulp
				bin.value[side] = times(bin.value[side], exponential(n, less))
			} else {
				bin.err[side] += 6 * ulp * n
				bin.value[side] = times(bin.value[side], power(z, count))
			}
		}
	}
}

// join writes p + i·q, for the ends p and q, where a transform back reads it. The
// sums are (1/n)·Σ over frequencies of the bounds on Π|φ|^{count−1} and on the error of Πφ^count.
func (s *spectrum) join(x []complex128) (sum, bad [2]float64) {
	for j, b := range s.bins {
		weight := 2 / float64(len(x))
		if j < 2 { // frequencies 0 and n/2 face themselves
			weight /= 2
		}
		for side := range sum {
			size := weight * math.Exp(max(b.log[side], dead))
			sum[side] += size
			bad[side] += size * (b.err[side] + 4*ulp)
		}
		p, q := b.value[0], b.value[1]
		at := position(j)
		x[at] = complex(real(p)-imag(q), imag(p)+real(q))
		if j >= 2 {
			x[opposite(at)] = complex(real(p)+imag(q), real(q)-imag(p))
		}
	}
	return sum, bad
}

// position is where frequency index j of half a spectrum is looked up: any
// order that meets each pair of opposite frequencies once will do.
func position(j int) int {
	if j < 2 {
		return j
	}
	top := 1 << (bits.Len(uint(j-1)) - 1) // 2..: blocks of 2, 4, 8 … hold 1, 2, 4 … pairs
	return 2*top + (j - 1 - top)
}

func times(a, b complex128) complex128 {
	return complex(real(a)*real(b)-imag(a)*imag(b), real(a)*imag(b)+imag(a)*real(b))
}

// power is zⁿ by squaring: at most 2n roundings' worth of relative error.
func power(z complex128, n int) complex128 {
	if n == 1 {
		return z
	}
	p := complex(1, 0)
	for {
		if n&1 == 1 {
			p = times(p, z)
		}
		if n >>= 1; n == 0 {
			return p
		}
		z = times(z, z)
	}
}
