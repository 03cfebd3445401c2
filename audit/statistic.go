package audit

import (
	"math"

	"github.com/privgrad/privgrad/internal/audit/hear"
	"github.com/privgrad/privgrad/internal/audit/reach"
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
	case Order:
		return &order{pattern: g.learned.pattern}
	case Divisor:
		return &lengths{of: g.learned.lengths}
	}
	return &likelihood{q: c.SamplingRate}
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
	// logs say how much likelier the release is with the canary of either world in the batch than
	// without, under the noise that is claimed; 0 where a world has none.
	logs [2]float64
	// sums of the batch before the noise, should it lack the canary or hold it: of
	// Digits alone.
	sums [2][]float32
}

// gauge is what a release is held against: directions in the space of gradients, with the products
// that they have with the canaries' shares, and the variance of the noise along a direction of length 1.
// It supposes the mechanism that is claimed, and not the one that runs.
type gauge struct {
	along    [2][]float32
	square   [2]float64
	variance float64
}

func (g *game) gauge() gauge {
	r, c := g.records, g.config
	if w := g.learned.whitened; w != nil {
		return gauge{[2][]float32{nil, w}, [2]float64{0, dot(w, r.canaries[1])}, 1}
	}
	sigma := c.NoiseMultiplier * c.Clip
	return gauge{r.canaries, [2]float64{dot(r.canaries[0], r.canaries[0]), dot(r.canaries[1], r.canaries[1])}, sigma * sigma}
}

// log is ln(density of the release with the canary / without), where
// a canary in the batch is worth so many of its shares, and the noise is worth as many of its deviations.
func (g *gauge) log(w int, product, share, noise float64) float64 {
	return (product*share - g.square[w]*share*share/2) / (g.variance * noise * noise)
}

// likelihood is the log of the likelihood ratio of the two worlds, by
// Neyman and Pearson's lemma the best statistic there is against the mechanism
// that is claimed. In world w a step releases β·c_w + σ·z, β being 1 with
// probability q, so that the ratio of its density to that of noise alone is
// 1 − q + q·exp((⟨y, c_w⟩ − ‖c_w‖²/2)/σ²).
type likelihood struct {
	q   float64
	sum float64
}

func (l *likelihood) reset()         { l.sum = 0 }
func (l *likelihood) value() float64 { return l.sum }

func (l *likelihood) see(r *release) {
	l.sum += hear.Sampled(l.q, r.logs[1]) - hear.Sampled(l.q, r.logs[0])
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
	*last = d.records.without(*last, r)
	d.along = append(d.along, r.products[1]/d.unit)
}

// without writes what was released, less the other records' shares.
func (r *records) without(dst []float64, x *release) []float64 {
	dst = dst[:0]
	for _, y := range x.values {
		dst = append(dst, float64(y))
	}
	for _, row := range x.beside {
		for i, y := range r.shares[row] {
			dst[i] -= float64(y)
		}
	}
	return dst
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
