package perexample

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// auto gives every layer its fastest choice. Where stored gradients do not
// fit the memory beside the rest of a batch, either layers that lose least
// time for a byte stop storing or fewer examples go through the network
// together, whichever is faster by the device's Costs. Storing is the fastest
// choice of a convolution, so none is computed twice whose store fits.
func auto(p *ir.Program, o *Options, c choices) {
	var options []option
	for _, m := range o.batches() {
		options = append(options, o.within(p, c, m))
	}
	maps.Copy(c, o.fastest(options).choices)
}

// An option is a physical batch and a choice for every layer.
type option struct {
	choices
	batch   int
	seconds float64 // an example
	fits    bool
}

// within makes every choice that c leaves open for a physical batch.
func (o *Options) within(p *ir.Program, c choices, batch int) option {
	made := choices{}
	type change struct {
		op         int
		to         Choice
		cost, gain float64 // seconds lost and bytes won an example
	}
	var changes []change
	for i := range p.Ops {
		all := alternatives(p, i, o.views(), o.costs())
		if len(all) == 0 {
			continue
		}
		if fixed, ok := c[i]; ok {
			made[i] = fixed
			continue
		}
		slices.SortStableFunc(all, func(a, b Alternative) int { return cmp.Compare(a.Seconds, b.Seconds) })
		if made[i] = all[0].Choice; made[i] == Store {
			changes = append(changes, change{i, all[1].Choice, all[1].Seconds - all[0].Seconds, 4 * float64(p.OpParams(i))})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.cost*b.gain, b.cost*a.gain) })
	for {
		s := made.schedule(p, o)
		option := option{made, batch, o.seconds(s, batch), o.fits(s, batch)}
		if option.fits || len(changes) == 0 {
			return option
		}
		made[changes[0].op] = changes[0].to
		changes = changes[1:]
	}
}

// enough is what an option with a smaller batch may lose against the fastest.
const enough = 1.02

// fastest is the option with the smallest batch, the device's Fewest or more, that loses next
// to nothing. Options come from the largest batch to the smallest; where not even the
// last fits, it is all there is.
func (o *Options) fastest(options []option) option {
	best := options[len(options)-1]
	least := math.Inf(1)
	for _, x := range options {
		if x.fits && x.seconds < least {
			best, least = x, x.seconds
		}
	}
	for _, x := range options {
		if x.fits && x.seconds <= enough*least && x.batch >= min(max(o.costs().Fewest/o.views(), 1), options[0].batch) {
			best = x
		}
	}
	return best
}

// batches lists physical batches to consider, from the one that takes nearly
// every Poisson batch of the expected size at once, or all of Whole devices, by halves.
func (o *Options) batches() []int {
	costs := o.costs()
	most, fewest := max(costs.Most/o.views(), 1), max(costs.Fewest/o.views(), 1)
	need := o.Batch + 5*math.Sqrt(o.Batch)
	if costs.Whole && o.Rows > 0 {
		need = float64(o.Rows)
	}
	switch need = math.Ceil(need); {
	case need == 0: // unknown
	case need <= float64(most):
		most = int(need)
	case costs.Whole: // parts of one size
		most = int(math.Ceil(need / math.Ceil(need/float64(most))))
	}
	if o.MaxBatch > 0 {
		most = min(most, o.MaxBatch)
	}
	all := []int{most}
	for last := most; last > 1 && (last >= 2*fewest || o.Memory > 0); last = all[len(all)-1] {
		all = append(all, (all[len(all)-1]+1)/2)
	}
	return all
}

func (o *Options) fits(s *ir.Schedule, batch int) bool {
	return o.Memory == 0 || int64(batch)*s.ExampleBytes(o.costs().Passes) <= o.Memory
}

// seconds is what an example of a batch costs. However small the batch is,
// every step has to be started, weights are read, and sums read and written.
func (o *Options) seconds(s *ir.Schedule, batch int) float64 {
	costs := o.costs()
	views := float64(s.Views())
	flops, layers := views*float64(s.Program.StepFLOPs()), 0.0
	for _, l := range Explain(s, costs) {
		flops -= views * float64(s.Program.Ops[l.Op].FLOPs())
		layers += l.Chosen().Seconds
	}
	once := float64(len(s.Steps))*costs.Launch + 16*float64(s.Program.NumParams())/costs.Memory
	return flops/costs.GEMM + layers + 4*views*float64(s.Program.ValueBytes())/costs.Memory + once/float64(batch)
}

// Together is how many examples of a batch go through the network together: as
// many as still make it faster, unless memory says less. Larger batches go in
// parts, so that memory does not grow with the expected batch.
func Together(s *ir.Schedule, o Options) int {
	var options []option
	for _, m := range o.batches() {
		options = append(options, option{batch: m, seconds: o.seconds(s, m), fits: o.fits(s, m)})
	}
	return o.fastest(options).batch
}
