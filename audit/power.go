package audit

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privgrad/privgrad/internal/audit/verdict"
)

// enoughPower is what an audit should have against twice the claimed μ.
const enoughPower = 0.99

// ideal stands for a mechanism that draws less noise than is claimed and is
// correct otherwise: with half the noise, every step of it is a Gaussian of twice the claimed μ.
// Pools hold the canary's statistic of many of its runs, in increasing order,
// simulated by the components of releases along the canaries' shares.
type ideal struct {
	pools  [2][]float64
	random *rand.Rand
}

// simulatedSteps is how many steps a pool may take to simulate.
const simulatedSteps = 4_000_000

// half is the part of the claimed noise that power is told of.
const half = 0.5

// newIdeal draws a part of the claimed noise.
func newIdeal(g *game, part float64) *ideal {
	d := &ideal{random: rand.New(rand.NewPCG(1, 0x706f776572))}
	c, r := g.config, g.records
	a, b := r.canaries[0], r.canaries[1]
	gram := [2][2]float64{{dot(a, a), dot(a, b)}, {dot(a, b), dot(b, b)}}
	sigma := c.NoiseMultiplier * c.Clip * part
	steps := c.Steps
	if c.Canary == Difference {
		steps *= (c.Steps + 1) / 2 // pairs
	}
	runs := min(max(simulatedSteps/steps, 2000), 50_000)

	// The products of one normal vector with both shares are normal with their
	// Gram matrix as covariance; this is its Cholesky factor.
	l00 := math.Sqrt(gram[0][0])
	l10 := 0.0
	if l00 > 0 {
		l10 = gram[0][1] / l00
	}
	l11 := math.Sqrt(max(gram[1][1]-l10*l10, 0))

	likelihood, gauge := &likelihood{q: c.SamplingRate}, g.gauge()
	count := c.countDeviation(c.publicN()) * part
	unit, width := math.Sqrt(gram[1][1]), float64(len(g.params))
	pairs := &difference{width: width, floor: vanished * vanished * c.Clip * c.Clip}
	along := make([]float64, c.Steps)
	for world := range d.pools {
		for range runs {
			likelihood.reset()
			for t := range c.Steps {
				z0, z1 := sigma*d.random.NormFloat64(), sigma*d.random.NormFloat64()
				products := [2]float64{l00 * z0, l10*z0 + l11*z1}
				in := d.random.Float64() < c.SamplingRate
				if in {
					products[0] += gram[world][0]
					products[1] += gram[world][1]
				}
				along[t] = products[1] / unit
				r := &release{}
				for w, x := range products {
					r.logs[w] = gauge.log(w, x, 1, 1)
				}
				if c.adapts() {
					g.imagineCount(r, world, in, count*d.random.NormFloat64())
				}
				likelihood.see(r)
			}
			x := likelihood.value()
			if c.Canary == Difference {
				x = 0
				for i, u := range along {
					for _, v := range along[:i] {
						x = max(x, pairs.ratio(u-v, (u-v)*(u-v)+(width-1)*2*sigma*sigma))
					}
				}
			}
			d.pools[world] = append(d.pools[world], x)
		}
		slices.Sort(d.pools[world])
	}
	return d
}

// Designs from the smallest to the largest that are considered where the number
// of runs is not given.
const smallestDesign, largestDesign = 16_000, 64_000

// hopeless is a power that a few doublings do not mend.
const hopeless = 0.01

// design plans an audit of so many runs, or of as many as enough power takes, and
// gives its power. Where the first attempt has hardly any, more runs would not help.
func (d *ideal) design(runs int, k *verdict.Claim) (*verdict.Design, float64) {
	given := runs > 0
	if !given {
		runs = smallestDesign
	}
	for {
		e := verdict.NewDesign(runs, k)
		power := d.power(e)
		if given || power >= enoughPower || power < hopeless || 2*runs > largestDesign {
			return e, power
		}
		runs *= 2
	}
}

// The power is estimated from whole audits, fewer where each takes long. Where it
// is 0.99, its standard error is 0.0031 for the most of them, 0.0063 for the fewest.
const mostAudits, leastAudits, simulatedChoices = 1000, 250, 4_000_000

// power is the share of audits of the ideal mechanism that convict it, the choice
// of the threshold included.
func (d *ideal) power(e *verdict.Design) float64 {
	audits := min(max(simulatedChoices/e.Choose, leastAudits), mostAudits)
	convicted := 0
	var chosen [2][]float64
	for range audits {
		for world := range chosen {
			chosen[world] = chosen[world][:0]
			for range e.Choose {
				chosen[world] = append(chosen[world], d.pools[world][d.random.IntN(len(d.pools[world]))])
			}
		}
		t := e.Threshold(chosen[0], chosen[1], e.Margin)
		if e.Convicts(d.errors(e, 1-d.below(0, t)), d.errors(e, d.below(1, t))) {
			convicted++
		}
	}
	return float64(convicted) / float64(audits)
}

// below is the share of a world's pool that is at most t.
func (d *ideal) below(world int, t float64) float64 {
	pool := d.pools[world]
	i := sort.Search(len(pool), func(i int) bool { return pool[i] > t })
	return float64(i) / float64(len(pool))
}

// errors draws how many of the counted runs go wrong.
func (d *ideal) errors(e *verdict.Design, p float64) int {
	if p <= 0 || p >= 1 {
		return int(math.Round(p)) * e.Count
	}
	return int(distuv.Binomial{N: float64(e.Count), P: p, Src: d.random}.Rand())
}

// imagineCount is of a clip norm that moves, but never past a gradient's length.
func (g *game) imagineCount(r *release, world int, in bool, noise float64) {
	clip := g.config.Clip
	if in && g.records.canary[world] >= 0 {
		noise += counted(g.records.lengths[world], clip)
	}
	for w := range r.logs {
		r.logs[w] += g.countLog(w, clip, noise)
	}
}
