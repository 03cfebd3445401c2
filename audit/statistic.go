package audit

import (
	"math"

	"github.com/privgrad/privgrad/audit/hear"
	"github.com/privgrad/privgrad/audit/reach"
)

// newStatistic is the canary's.
func (l *lane) newStatistic() statistic {
	g := l.game
	r, c := g.records, g.config
	switch c.Canary {
	case Difference:
		return &difference{records: r, unit: math.Sqrt(dot(r.canaries[1], r.canaries[1])), width: float64(len(g.params)), floor: vanished * vanished * c.Clip * c.Clip}
	case Digits:
		return &digits{q: c.SamplingRate, scalars: &l.scalars}
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
	see(*release)
	value() float64
}

// release is what the adversary knows of a step. It is overwritten by the next.
type release struct {
	values []float32
	beside []int32 // the other records of the batch
	// products of the canaries' shares with the values less the others' shares.
	products [2]float64
	// sums of the batch before the noise, should it lack the canary or hold it: of
	// Digits alone.
	sums [2][]float32
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

func (l *likelihood) see(r *release) {
	l.sum += l.log(r.products[1], l.square[1]) - l.log(r.products[0], l.square[0])
}

func (l *likelihood) log(product, square float64) float64 {
	return hear.Sampled(l.q, (product-square/2)/l.variance)
}

// digits is the log-likelihood ratio down to the last digit: of the floats that
// were released, not of the reals that they stand for.
type digits struct {
	q       float64
	scalars *reach.Scalars // of the latest step
	seen    []reach.Range
	sum     float64
}

func (d *digits) reset()         { d.sum = 0 }
func (d *digits) value() float64 { return d.sum }

func (d *digits) see(r *release) {
	d.seen = d.seen[:0]
	for _, y := range r.values {
		d.seen = append(d.seen, reach.Exactly(y))
	}
	d.sum += hear.Sampled(d.q, reach.NoiseOf(d.scalars).LogRatio(d.seen, r.sums))
}

// difference is the largest, over pairs of a run's releases, of the square of
// their difference along the canary's share, over the mean square of its other
// coordinates.
type difference struct {
	records  *records
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

func (d *difference) see(r *release) {
	if n := len(d.releases); n < cap(d.releases) {
		d.releases = d.releases[:n+1]
	} else {
		d.releases = append(d.releases, nil)
	}
	last := &d.releases[len(d.releases)-1]
	if *last == nil {
		*last = make([]float64, len(r.values))
	}
	for i, x := range r.values {
		(*last)[i] = float64(x)
	}
	for _, row := range r.beside {
		for i, x := range d.records.shares[row] {
			(*last)[i] -= float64(x)
		}
	}
	d.along = append(d.along, r.products[1]/d.unit)
}

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
