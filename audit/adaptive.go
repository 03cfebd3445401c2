package audit

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/audit/verdict"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/perexample"
)

// Adaptive clipping releases a count beside every sum: of the batch's gradients that are no longer than
// the clip norm, ½ for each, less ½ for each longer one. The clip norm of the next step follows from it. The
// adversary hears the count, and so knows every clip norm.

// adapts reports whether the clip norm moves.
func (c *Config) adapts() bool { return c.Clipping == string(perexample.AdaptiveFlat) }

// publicN is the number of records that an audit claims to have. The noise of the count grows with it:
// here, the count is as private as the sum, so that neither drowns the other.
func (c *Config) publicN() int {
	if !c.adapts() {
		return recordsBeside
	}
	one := c.countDeviation(1) * 2
	return max(int(math.Ceil(c.NoiseMultiplier/one)), recordsBeside)
}

// countDeviation is that of the noise of a count, of so many records.
func (c *Config) countDeviation(n int) float64 {
	return perexample.CountDeviation(c.SamplingRate * float64(n))
}

// released is what is released of every batch. A record adds ½ to a count, or −½.
func (c *Config) released() []accountant.Mechanism {
	m := []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: c.NoiseMultiplier}}
	if c.adapts() {
		m = append(m, accountant.Gaussian{NoiseMultiplier: c.countDeviation(c.publicN()) / 0.5})
	}
	return m
}

// claimed is what the configuration names, or what its plan would tell a user, where that is less.
func (c *Config) claimed(p *plan.Plan) (*verdict.Claim, error) {
	o := accountant.Options{Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(c.Neighbouring), Delta: c.Delta}
	events := []accountant.Event{accountant.PoissonBatch(c.SamplingRate, c.Steps, c.released()...)}
	named, err := verdict.NewClaim(events, o)
	if err != nil || p.Epsilon == nil || *p.Epsilon >= named.Epsilon {
		return named, err
	}
	if events, err = p.Events(); err != nil {
		return nil, err
	}
	return verdict.NewClaim(events, o)
}

// share is what a record adds to a sum at a clip norm, in units of its share at the first one.
func (g *game) share(length, clip float64) float64 {
	if first := g.config.Clip; clip != first && length > 0 {
		return min(length, clip) / min(length, first)
	}
	return 1
}

// counted is what a gradient adds to a count.
func counted(length, clip float64) float64 {
	if length <= clip {
		return 0.5
	}
	return -0.5
}

// hearCount adds to what a release says what its count says.
func (g *game) hearCount(r *release, clip, count float64) {
	for _, row := range r.beside {
		count -= counted(g.records.norms[row], clip)
	}
	for w := range r.logs {
		r.logs[w] += g.countLog(w, clip, count)
	}
}

// countLog is as gauge.log, of a count less what the others add.
func (g *game) countLog(w int, clip, count float64) float64 {
	if g.records.canary[w] < 0 {
		return 0
	}
	own, deviation := counted(g.records.lengths[w], clip), g.config.countDeviation(g.config.publicN())
	return (count*own - own*own/2) / (deviation * deviation)
}
