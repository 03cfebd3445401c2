// Package reach tells two sums apart by which floats they and noise can come to.
// docs/explain/auditing.md explains why the last digits can do so (Mironov 2012, "On significance of the least significant bits
// for differential privacy"). This package knows several ways to add noise. Of a release it finds one by which it can
// have come about, and gives the ratio of the two candidates' probabilities under it.
package reach

import (
	"errors"
	"math"
)

// Range is the floats, from the least to the greatest, that a released value may have been: one where the release is
// seen, more where only what was computed from it is.
type Range struct{ Low, High float32 }

// Exactly is a release that is seen.
func Exactly(y float32) Range { return Range{y, y} }

// Noise is what is public of the noise: its deviation, and the step of the grid that it is on, 0 for none.
type Noise struct {
	Std  float32
	Step float64
}

// Certain is the log ratio that stands for a release that one of the candidates cannot have become. It is finite,
// so that those of several releases add up.
const Certain = 1e6

// LogRatio is the log of the probability of what was seen if the sum was sums[1], over that if it was sums[0]. It is
// NaN where a value that was seen is not finite.
func (n Noise) LogRatio(seen []Range, sums [2][]float32) float64 {
	for _, r := range seen {
		if d := float64(r.High) - float64(r.Low); !(d < math.Inf(1)) {
			return math.NaN()
		}
	}
	for _, w := range n.ways() {
		if x, possible := logRatio(w, seen, sums); possible {
			return x
		}
	}
	return n.gaussian(seen, sums)
}

// gaussian is the log ratio of real numbers, which always has a value.
func (n Noise) gaussian(seen []Range, sums [2][]float32) float64 {
	total := 0.0
	for i, r := range seen {
		y := (float64(r.Low) + float64(r.High)) / 2
		a, b := y-float64(sums[0][i]), y-float64(sums[1][i])
		total += (a - b) * (a + b)
	}
	return total / (2 * float64(n.Std) * float64(n.Std))
}

// logRatio is that of one way to add noise. It is false where neither sum can have become what was seen, so that the
// noise was not added in this way.
func logRatio(w way, seen []Range, sums [2][]float32) (float64, bool) {
	total, possible := 0.0, [2]bool{true, true}
	for i, r := range seen {
		if sums[0][i] == sums[1][i] {
			continue
		}
		var log [2]float64
		for k, s := range sums {
			var ok bool
			log[k], ok = w.logMass(r, s[i])
			possible[k] = possible[k] && ok
		}
		if possible == [2]bool{} {
			return 0, false
		}
		total += log[1] - log[0]
	}
	switch {
	case !possible[0]:
		return Certain, true
	case !possible[1]:
		return -Certain, true
	}
	return total, true
}

// A way to add noise: what is drawn, and how it is added. What comes out never falls where the draw grows.
type way struct {
	draws
	std float64
	add func(noise, sum float64) float32
}

// draws are numbered in the order of their size.
type draws interface {
	noise(k int64) float64 // draw k
	near(noise float64) int64
	last() int64 // the largest number
}

// ways lists them. The stricter ones come before those that leave fewer floats out: a grid that is finer than what is
// released leaves out none.
func (n Noise) ways() []way {
	std := float64(n.Std)
	ways := []way{{normals{std}, std, once}, {normals{std}, std, twice}}
	if n.Step != 0 {
		g := grid{n.Step}
		ways = append(ways, way{g, std, g.rounded}, way{g, std, once}, way{g, std, twice})
	}
	return append(ways, way{normals{1}, std, once})
}

// once rounds the sum of both, as a fused multiply-add does. Noise that is a float32 it adds as all processors do.
func once(noise, sum float64) float32 { return round(noise, sum) }

// twice rounds the noise first.
func twice(noise, sum float64) float32 { return round(float64(float32(noise)), sum) }

// normals are multiples of all float32, in units of scale.
type normals struct{ scale float64 }

func (n normals) noise(k int64) float64    { return float64(number(k)) * n.scale }
func (n normals) near(noise float64) int64 { return place(float32(noise / n.scale)) }
func (normals) last() int64                { return 0x7f7fffff }

// grid is all multiples of a step.
type grid struct{ step float64 }

func (g grid) noise(k int64) float64    { return float64(k) * g.step }
func (g grid) near(noise float64) int64 { return int64(math.RoundToEven(noise / g.step)) }
func (grid) last() int64                { return 1 << 52 }

func (g grid) rounded(noise, sum float64) float32 {
	return float32(noise + g.step*math.RoundToEven(sum/g.step))
}

// most is more deviations than anything draws (docs/proofs/exact-noise.md).
const most = 13.3

// logMass is the log, but for a constant, of the probability that noise makes a value of r of a sum. It is false
// where no draw does.
func (w way) logMass(r Range, sum float32) (float64, bool) {
	first := w.least(r.Low, sum)
	end := w.least(math.Nextafter32(r.High, float32(math.Inf(1))), sum)
	if first == end {
		return 0, false
	}
	// A draw stands for the reals that are closer to it than to another.
	low, high := (w.noise(first-1)+w.noise(first))/(2*w.std), (w.noise(end-1)+w.noise(end))/(2*w.std)
	if max(low, -high) > most {
		return 0, false
	}
	middle := (low + high) / 2
	return math.Log(high-low) - middle*middle/2, true
}

// least is the first draw that makes at least y of a sum, one past the last if none does.
func (w way) least(y, sum float32) int64 {
	end := w.last() + 1
	enough := func(k int64) bool { return k >= end || k > -end && w.add(w.noise(k), float64(sum)) >= y }
	high := max(min(w.near(float64(y)-float64(sum)), end), -end)
	low, step := high, int64(1)
	if enough(high) {
		for low = high - step; enough(low); low = high - step {
			high, step = low, 2*step
		}
	} else {
		for high = low + step; !enough(high); high = low + step {
			low, step = high, 2*step
		}
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// number is the float32 of a place in the order of all of them, and place its inverse. Both zeros have place 0.
func number(place int64) float32 {
	if place < 0 {
		return -math.Float32frombits(uint32(-place))
	}
	return math.Float32frombits(uint32(place))
}

func place(x float32) int64 {
	b := int64(math.Float32bits(x))
	if b >= 1<<31 {
		return 1<<31 - b
	}
	return b
}

// round is a + b as the nearest float32, rounded once. The sum in float64 is rounded to odd: whatever was cut off
// then shows in its last digit, and cannot make a tie.
func round(a, b float64) float32 {
	s := a + b
	if math.IsInf(s, 0) {
		return float32(s)
	}
	t := s - a
	if off := (a - (s - t)) + (b - t); off != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Inf(int(math.Copysign(1, off))))
	}
	return float32(s)
}

// Invert gives the floats of which f makes each of the values seen. It takes and gives one value a coordinate, none
// of which falls where its argument grows. A range is empty, its Low above its High, where f makes the value of none.
func Invert(f func(dst, y []float32) error, seen []float32) ([]Range, error) {
	n, last := len(seen), normals{}.last()
	y, made, found := make([]float32, n), make([]float32, n), make([]Range, n)
	// first writes the least float of which f makes at least the value seen, or more than it.
	first := func(more bool, dst []int64) error {
		end := make([]int64, n)
		for i := range dst {
			dst[i], end[i] = -last, last+1
		}
		for range 32 {
			for i := range y {
				y[i] = number((dst[i] + end[i]) >> 1)
			}
			if err := f(made, y); err != nil {
				return err
			}
			for i, x := range made {
				middle := (dst[i] + end[i]) >> 1
				if x > seen[i] || !more && x == seen[i] {
					end[i] = middle
				} else {
					dst[i] = min(middle+1, end[i])
				}
			}
		}
		return nil
	}
	low, high := make([]int64, n), make([]int64, n)
	if err := errors.Join(first(false, low), first(true, high)); err != nil {
		return nil, err
	}
	for i := range found {
		found[i] = Range{number(low[i]), number(high[i] - 1)}
	}
	return found, nil
}
