package audit

import "math"

// statistic is the canary's, for one lane.
func (g *game) statistic() statistic {
	r, c := g.records, g.config
	if c.Canary == Difference {
		return &difference{unit: math.Sqrt(dot(r.canaries[1], r.canaries[1])), width: float64(len(g.params)), floor: vanished * vanished * c.Clip * c.Clip}
	}
	return g.likelihood()
}

// likelihood supposes the mechanism that is claimed, and not the one that runs.
func (g *game) likelihood() *likelihood {
	r, c := g.records, g.config
	sigma := c.NoiseMultiplier * c.Clip
	return &likelihood{q: c.SamplingRate, variance: sigma * sigma, square: [2]float64{dot(r.canaries[0], r.canaries[0]), dot(r.canaries[1], r.canaries[1])}}
}

// A statistic sums up one run for the adversary: the larger, the more it speaks
// for the second world.
type statistic interface {
	reset()
	// see takes in a step: the products of the canaries' shares with what was
	// released less the shares of the other records, which the adversary knows.
	see(products [2]float64)
	value() float64
}

// likelihood is the log of the likelihood ratio of the two worlds, by
// Neyman and Pearson's lemma the best statistic there is against the mechanism
// that is claimed. In world w a step releases β·c_w + σ·z, β being 1 with
// probability q, so that the ratio of its density to that of noise alone is
// 1 − q + q·exp((⟨y, c_w⟩ − ‖c_w‖²/2)/σ²).
type likelihood struct {
	q, variance float64
	square      [2]float64 // ‖c_w‖², 0 where there is no canary
	sum         float64
}

func (l *likelihood) reset()         { l.sum = 0 }
func (l *likelihood) value() float64 { return l.sum }

func (l *likelihood) see(products [2]float64) {
	l.sum += l.log(products[1], l.square[1]) - l.log(products[0], l.square[0])
}

// log is without overflow.
func (l *likelihood) log(product, square float64) float64 {
	x := (product - square/2) / l.variance
	if l.q == 1 {
		return x
	}
	a, b := math.Log1p(-l.q), math.Log(l.q)+x
	return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
}

// difference is the largest, over pairs of a run's releases, of the square of
// their difference along the canary's share, over the mean square of its other
// coordinates. Independent noise leaves a χ² of one degree there. Noise that was
// used twice leaves nothing but the canary, if one of the two batches holds it.
type difference struct {
	releases [][]float64 // what was released, less the other records' shares
	along    []float64   // their components along the canary's share
	unit     float64     // its length
	width    float64     // coordinates
	floor    float64     // of a mean square, where the noise vanishes
}

// vanished is the deviation, in clip norms, below which a difference holds no
// noise that would hide anything, but may hold rounding.
const vanished = 1e-4

func (d *difference) reset() { d.releases, d.along = d.releases[:0], d.along[:0] }

// keep takes a copy of what a step released, before the step is seen.
func (d *difference) keep(released []float32, beside []int32, r *records) {
	if n := len(d.releases); n < cap(d.releases) {
		d.releases = d.releases[:n+1]
	} else {
		d.releases = append(d.releases, nil)
	}
	last := &d.releases[len(d.releases)-1]
	if *last == nil {
		*last = make([]float64, len(released))
	}
	for i, x := range released {
		(*last)[i] = float64(x)
	}
	for _, row := range beside {
		for i, x := range r.shares[row] {
			(*last)[i] -= float64(x)
		}
	}
}

func (d *difference) see(products [2]float64) { d.along = append(d.along, products[1]/d.unit) }

// ratio is of one pair.
func (d *difference) ratio(along, square float64) float64 {
	return along * along / (max(square-along*along, 0)/(d.width-1) + d.floor)
}

func (d *difference) value() float64 {
	largest := 0.0
	for i, a := range d.releases {
		for j, b := range d.releases[:i] {
			square := 0.0
			for k, x := range a {
				square += (x - b[k]) * (x - b[k])
			}
			largest = max(largest, d.ratio(d.along[i]-d.along[j], square))
		}
	}
	return largest
}
