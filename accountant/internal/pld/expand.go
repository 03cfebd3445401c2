package pld

import (
	"math"
	"math/bits"
)

// An expansion is what a characteristic function φ(θ) = Σ v_j·e^{−iθj} has beside its transform,
// for masses v_j that add up to nearly 1. With w = e^{−iθ}−1,
//
//	φ = 1 + rest + mean·w + w²·Σ_k N_k·e^{−iθk},
//
// since z^j = 1 + j(z−1) + (z−1)²·Σ_k (j−1−k)z^k, k from 0 to j−2, and likewise for j below 0.
// The transform is that of N, whose error then counts w² times: a power of φ for many steps has only
// small w that are not dead, and keeps its digits however many the steps are.
type expansion struct{ rest, mean, spread float64 } // Σv−1, Σvj and ΣN

// manySteps is how many are raised by an expansion.
const manySteps = 128

// many says whether a factor is raised by its expansion, given the size of a transform.
func (f *factor) many(n int) bool {
	return f.count >= manySteps && len(f.index) > 0 && f.index[len(f.index)-1]-f.index[0] < 4*n
}

// expand calls add with N_k ≥ 0 for every k at which it is not 0.
func expand(index []int, v []float64, add func(k int, n float64)) (e expansion) {
	var rest, mean, spread exact
	rest.add(-1)
	for i, j := range index {
		rest.add(v[i])
		x, y := v[i]*float64(j), 0.0
		y = math.FMA(v[i], float64(j), -x)
		mean.add(x)
		mean.add(y)
	}
	// N_k is a sum of tails, from either end inwards.
	var tail, n exact
	for i, k := len(index)-1, index[len(index)-1]-2; k >= 0; k-- {
		for ; i >= 0 && index[i] >= k+2; i-- {
			tail.add(v[i])
		}
		n.addExact(tail)
		add(k, n.value())
		spread.add(n.value())
	}
	tail, n = exact{}, exact{}
	for i, k := 0, index[0]; k < 0; k++ {
		for ; i < len(index) && index[i] <= k; i++ {
			tail.add(v[i])
		}
		n.addExact(tail)
		add(k, n.value())
		spread.add(n.value())
	}
	return expansion{rest.value(), mean.value(), spread.value()}
}

// at is φ−1 from the transform of N at a frequency, and a bound on its error, that of the transform given.
func (e expansion) at(w, z complex128, transformErr float64) (less complex128, err float64) {
	square := times(times(w, w), z)
	less = complex(e.rest+e.mean*real(w)+real(square), e.mean*imag(w)+imag(square))
	w1 := math.Abs(real(w)) + math.Abs(imag(w))
	err = 1.01*w1*w1*transformErr + 30*ulp*(math.Abs(e.rest)+math.Abs(e.mean)*w1+math.Abs(real(square))+math.Abs(imag(square)))
	return less, err
}

// turn is e^{−2πik/n}−1, relatively precise.
func turn(k, n int) complex128 {
	sin, cos := math.Sincos(math.Pi * float64(k) / float64(n))
	return complex(-2*sin*sin, -2*sin*cos)
}

// frequency is that of index j of half a spectrum, the number at the position in reversed bits.
func frequency(j, n int) int {
	return int(bits.Reverse64(uint64(position(j))) >> (64 - (bits.Len(uint(n)) - 1)))
}

// exponential is (1+z)ⁿ for |z| below a half, by n·ln(1+z).
func exponential(n float64, z complex128) complex128 {
	x, y := real(z), imag(z)
	size := math.Exp(n / 2 * math.Log1p(2*x+(x*x+y*y)))
	sin, cos := math.Sincos(n * math.Atan2(y, 1+x))
	return complex(size*cos, size*sin)
}

// An exact is a sum that keeps what is rounded off.
type exact struct{ high, low float64 }

func (s *exact) add(x float64) {
	t := s.high + x
	b := t - s.high
	s.low += (s.high - (t - b)) + (x - b)
	s.high = t
}

func (s *exact) addExact(x exact) {
	s.add(x.high)
	s.add(x.low)
}

func (s *exact) value() float64 { return s.high + s.low }
