package prv

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// list is independent variables of one direction, to be added.
type list []*variable

// logMoment is ln E[e^{sΣY}].
func (l list) logMoment(s float64) float64 {
	sum := 0.0
	for _, v := range l {
		sum += v.count * v.logMoment(s)
	}
	return sum
}

// tails is an A and a B with P(ΣY < A) ≤ e^{−c} and P(ΣY > B) ≤ e^{−c}:
// Chernoff's bound, or the end of what ΣY can be.
func (l list) tails(c float64) (a, b float64) {
	for _, v := range l {
		low, high := v.ends()
		a += v.count * low
		b += v.count * high
	}
	a = math.Max(a, -least(l[0].limit, func(s float64) float64 { return (l.logMoment(-s) + c) / s }))
	b = math.Min(b, least(l[0].limit, func(s float64) float64 { return (l.logMoment(s) + c) / s }))
	return a, b
}

// divergence is a bound on ε at δ, by the Rényi divergences at all orders 1+s
// (Canonne, Kamath and Steinke 2020, arXiv 2004.00010, proposition 12).
func (l list) divergence(delta float64) float64 {
	return least(l[0].limit, func(s float64) float64 {
		return (l.logMoment(s)-math.Log(delta)-math.Log1p(s))/s - math.Log1p(1/s)
	})
}

// probability bounds P(ΣY > b), and with it δ(b), by Chernoff's bound.
func (l list) probability(b float64) float64 {
	return math.Exp(math.Min(0, least(l[0].limit, func(s float64) float64 { return l.logMoment(s) - s*b })))
}

// least is the smallest value that a golden-section search over ln s meets;
// every value is a valid bound.
func least(limit float64, f func(s float64) float64) float64 {
	const golden, narrow = 0.6180339887498949, 0.02
	lo, hi := math.Log(limit)-20, math.Log(limit)
	at := func(x float64) float64 { return f(math.Exp(x)) }
	best := at(hi)
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	fa, fb := at(a), at(b)
	for hi-lo > narrow {
		best = math.Min(best, math.Min(fa, fb))
		if fa < fb {
			hi, b, fb = b, a, fa
			a = hi - golden*(hi-lo)
			fa = at(a)
		} else {
			lo, a, fa = a, b, fb
			b = lo + golden*(hi-lo)
			fb = at(b)
		}
	}
	return math.Min(best, math.Min(fa, fb))
}

// composed is the distribution of the sum of rounded variables.
type composed struct {
	first, mesh float64   // the value of p[0], the distance of values
	p           []float64 // probabilities

	count                    float64 // of variables
	epsilonError, deltaError float64 // see the package comment
}

// aimError is ε_error as a share of ε, where enough cells are allowed.
const aimError = 5e-4

// fewCells make a lattice that is good for a first look.
const fewCells = 1 << 15

// cells is how many of them a lattice may have: fewer for many kinds, since
// each of them is transformed by itself.
func (l list) cells() int { return 1 << 21 >> int(math.Log2(float64(len(l)))/2) }

func (l list) count() float64 {
	sum := 0.0
	for _, v := range l {
		sum += v.count
	}
	return sum
}

// rounding is the allowance for the Fourier transform over count variables: a
// relative error of one variable's transform is multiplied by their number
// when the power is taken.
func rounding(count float64) float64 { return 1e-14 + 1e-16*count }

// compose adds the variables up on a lattice. deltaError is the package
// comment's δ_error without rounding, and scale an ε for ε_error to be small against;
// the lattice has at most so many cells, a power of 2.
func (l list) compose(deltaError, scale float64, most int) (*composed, error) {
	c := &composed{count: l.count()}
	low, high := l.tails(math.Log(4 / deltaError))
	low, high = math.Min(low, 0), math.Max(high, 0)
	// Chernoff's bounds are sums of rounded numbers.
	slack := 1e-9 * (high - low)
	low, high = low-slack, high+slack

	perMesh := math.Sqrt(c.count / 2 * math.Log(4/deltaError)) // ε_error in meshes
	width := (high - low) / (aimError * math.Max(scale, (high-low)/1000)) * perMesh
	cells := 1 << 10
	for float64(cells) < width+2*perMesh+2 && cells < most {
		cells *= 2
	}
	inside := float64(cells) - 2*perMesh - 2
	if inside < float64(cells)/2 {
		return nil, fmt.Errorf("%.0f releases: accountant prv would need more than %d cells: use pld", c.count, most)
	}
	c.mesh = (high - low) / inside
	c.epsilonError = perMesh * c.mesh
	c.deltaError = deltaError + c.count*beyond + rounding(c.count)

	transform := fourier.NewFFT(cells)
	product := make([]complex128, cells/2+1)
	for i := range product {
		product[i] = 1
	}
	c.p = make([]float64, cells)
	spectrum := make([]complex128, cells/2+1)
	shift := 0.0
	for _, v := range l {
		clear(c.p)
		shift += v.count * v.spread(c.p, c.mesh)
		transform.Coefficients(spectrum, c.p)
		for i, z := range spectrum {
			if product[i] != 0 {
				product[i] *= power(z, int(v.count))
			}
		}
	}
	around := transform.Sequence(nil, product)

	// The cell of index j on the circle stands for the value shift+j'·mesh, j' ≡ j,
	// in the window.
	from := math.Ceil((low - c.epsilonError - shift) / c.mesh)
	c.first = shift + from*c.mesh
	start := int(math.Mod(from, float64(cells)))
	if start < 0 {
		start += cells
	}
	n := copy(c.p, around[start:])
	copy(c.p[n:], around[:start])
	for i := range c.p {
		c.p[i] /= float64(cells)
	}
	return c, nil
}

// power is zⁿ for |z| ≤ 1, or 0 where that is below 1e−30.
func power(z complex128, n int) complex128 {
	out := complex(1, 0)
	for {
		if n&1 == 1 {
			out *= z
		}
		if n >>= 1; n == 0 {
			return out
		}
		if z *= z; real(z)*real(z)+imag(z)*imag(z) < 1e-60 {
			return 0
		}
	}
}

// delta is δ̃(ε) of the lattice.
func (c *composed) delta(epsilon float64) float64 {
	sum := 0.0
	for i := len(c.p) - 1; i >= 0; i-- {
		y := c.first + float64(i)*c.mesh
		if y <= epsilon {
			break
		}
		sum += c.p[i] * -math.Expm1(epsilon-y)
	}
	return sum
}

// epsilon is the ε with δ̃(ε) = delta, or −Inf if δ̃ is less everywhere in the window.
func (c *composed) epsilon(delta float64) float64 {
	// Of the values above y: their probability, and the mean of e^{y−Y} over them.
	above, scaled := 0.0, 0.0
	decay := math.Exp(-c.mesh)
	for i := len(c.p) - 1; i >= 0; i-- {
		above += c.p[i]
		scaled += c.p[i]
		// Between this value and the one below, δ̃(ε) = above − scaled·e^{ε−y}.
		if above-scaled*decay >= delta {
			return c.first + float64(i)*c.mesh + math.Log((above-delta)/scaled)
		}
		scaled *= decay
	}
	return math.Inf(-1)
}
