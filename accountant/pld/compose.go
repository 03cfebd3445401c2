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
// and by which further tilts up and down the tails are bounded.
type tilting struct{ tilt, up, down float64 }

// outside is the tilted mass that may lie beyond either end of the window.
const outside = 1e-13

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
	rest := -math.Log(outside)
	return -(down + rest) / (t.down * h), (up + rest) / (t.up * h)
}

// compose raises the transforms of the tilted measures to their counts and
// multiplies them. The upper and the lower end travel as the real and the
// imaginary part of one transform.
func compose(upper, lower []factor, t tilting, lows [2]int, tr *transform) (up, down *curve) {
	n, log2 := tr.n, tr.log2
	up = &curve{grid: grid{spacing: upper[0].spacing}, low: lows[0], tilt: t.tilt * upper[0].spacing, outer: outside}
	down = &curve{grid: up.grid, low: lows[1], tilt: up.tilt, outer: outside}

	x := make([]complex128, n)
	s := newSpectrum(n, 2.1*fftError*float64(log2)+4*ulp)
	var steps, kinds, logs float64
	for k := range upper {
		clear(x)
		logs += up.put(x, 1, &upper[k])
		logs += down.put(x, 1i, &lower[k])
		steps += float64(upper[k].count)
		kinds++
		tr.forward(x)
		s.multiply(x, upper[k].count)
	}
	sum := s.join(x)
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
		c.each = 1.1 * (sum[side]*(steps*(s.transformErr+6*ulp)+4*kinds*ulp) + fftError*float64(log2)*(sum[0]+sum[1]))
		far := math.Abs(c.tilt) * (math.Abs(float64(c.low)) + float64(n))
		c.rel += ulp * (8 + 4*far + (2+kinds)*logs)
		c.slack += ulp * (kinds + 8) * (math.Abs(c.offset) + c.spacing*(math.Abs(float64(c.low))+float64(n)))
	}
	return up, down
}

// put adds a factor's tilted masses to a transform's input, in units of 1 or i,
// and the rest of it to the curve, and returns its logarithms in absolute terms.
func (c *curve) put(x []complex128, unit complex128, f *factor) (logs float64) {
	cumulant, largest := f.cumulant(c.tilt)
	count := float64(f.count)
	c.log += count * cumulant
	c.offset += count * f.offset
	c.slack += count * f.slack
	c.inf += count * f.infinite
	c.rel += count * ulp * (4*largest + 2*math.Abs(cumulant) + 8)
	for i, at := range f.index {
		v := f.mass[i] * math.Exp(c.tilt*float64(at)-cumulant)
		x[at&(len(x)-1)] += complex(v*real(unit), v*imag(unit))
	}
	return count * math.Abs(cumulant)
}

// A spectrum is half the transform of the upper and of the lower end.
type spectrum struct {
	bins         []bin
	transformErr float64 // of one transform, relatively
}

type bin struct {
	value [2]complex128
	log   [2]float64 // Σ (count−1)·ln|φ|, an upper bound
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

// multiply takes in the transform of one kind, raised to its count.
func (s *spectrum) multiply(x []complex128, count int) {
	transformErr := s.transformErr
	for j := range s.bins {
		// Positions 0 and 1 hold frequencies 0 and n/2; of a block
		// [2^m, 2^{m+1}) the first half faces the second.
		at := position(j)
		a, b := x[at], x[opposite(at)]
		s := &s.bins[j]
		phi := [2]complex128{
			complex((real(a)+real(b))/2, (imag(a)-imag(b))/2),
			complex((imag(a)+imag(b))/2, (real(b)-real(a))/2),
		}
		for side, z := range phi {
			if s.log[side] < dead {
				continue
			}
			if count > 1 {
				r := math.Hypot(real(z), imag(z)) + transformErr
				s.log[side] += float64(count-1) * math.Log(r)
				if s.log[side] < dead {
					s.value[side] = 0
					continue
				}
			}
			s.value[side] = times(s.value[side], power(z, count))
		}
	}
}

// join writes p + i·q, for the ends p and q, where a transform back reads it. The
// sums are (1/n)·Σ over frequencies of the bound on Π|φ|^{count−1}.
func (s *spectrum) join(x []complex128) (sum [2]float64) {
	for j, b := range s.bins {
		weight := 2.0
		if j < 2 { // frequencies 0 and n/2 face themselves
			weight = 1
		}
		for side := range sum {
			sum[side] += weight * math.Exp(max(b.log[side], dead)) / float64(len(x))
		}
		p, q := b.value[0], b.value[1]
		at := position(j)
		x[at] = complex(real(p)-imag(q), imag(p)+real(q))
		if weight == 2 {
			x[opposite(at)] = complex(real(p)+imag(q), real(q)-imag(p))
		}
	}
	return sum
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
