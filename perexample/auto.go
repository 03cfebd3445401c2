package perexample

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/plan"
)

// auto gives every layer its fastest choice. Where stored gradients do not
// fit the memory beside the rest of a batch, either layers that lose least
// time for a byte stop storing or fewer examples go through the network
// together, whichever is faster by the device's Costs. Storing is the fastest
// choice of a convolution, so none is computed twice whose store fits.
func auto(p *plan.Program, o *Options, c choices) {
	var options []option
	for _, m := range o.batches() {
		options = append(options, o.within(p, c, m))
	}
	best := fastest(options)
	for i, choice := range best.choices {
		c[i] = choice
	}
}

// An option is a physical batch and a choice for every layer.
type option struct {
	choices
	batch   int
	seconds float64 // an example
	fits    bool
}

// within makes every choice that c leaves open for a physical batch.
func (o *Options) within(p *plan.Program, c choices, batch int) option {
	made := choices{}
	seconds := 0.0 // of all layers
	type change struct {
		op         int
		to         Choice
		cost, gain float64 // seconds lost and bytes won an example
	}
	var changes []change
	for i := range p.Ops {
		all := alternatives(p, i, o.costs())
		if len(all) == 0 {
			continue
		}
		if fixed, ok := c[i]; ok {
			made[i] = fixed
			seconds += all[slices.IndexFunc(all, func(a Alternative) bool { return a.Choice == fixed })].Seconds
			continue
		}
		slices.SortStableFunc(all, bySeconds)
		made[i] = all[0].Choice
		seconds += all[0].Seconds
		if all[0].Choice == Store {
			changes = append(changes, change{i, all[1].Choice, all[1].Seconds - all[0].Seconds, 4 * float64(p.OpParams(i))})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return order(a.cost*b.gain, b.cost*a.gain) })
	fits := func() bool { return o.Memory == 0 || int64(batch)*made.schedule(p).ExampleBytes() <= o.Memory }
	for ; len(changes) > 0 && !fits(); changes = changes[1:] {
		made[changes[0].op] = changes[0].to
		seconds += changes[0].cost
	}
	s := made.schedule(p)
	return option{made, batch, seconds + o.exampleSeconds(s) + o.batchSeconds(s)/float64(batch), fits()}
}

func bySeconds(a, b Alternative) int { return order(a.Seconds, b.Seconds) }

func order(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// enough is what an option with a smaller batch may lose against the fastest:
// memory beyond that would be taken for next to nothing.
const enough = 1.02

// fastest is the option with the smallest batch that loses next to nothing. A
// batch below leastTogether is for want of memory only. Options come from the
// largest batch to the smallest; where not even the last fits, it is all there
// is.
func fastest(options []option) option {
	best := options[len(options)-1]
	least := math.Inf(1)
	for _, o := range options {
		if o.fits && o.seconds < least && (o.batch >= leastTogether || math.IsInf(least, 1)) {
			best, least = o, o.seconds
		}
	}
	for _, o := range options {
		if o.fits && o.seconds <= enough*least && o.batch >= min(leastTogether, options[0].batch) {
			best = o
		}
	}
	return best
}

// No batch is faster for being larger than the first; smaller than the second
// it could leave cores without work.
const mostTogether, leastTogether = 512, 64

// batches lists physical batches to consider, from the one that takes nearly
// every Poisson batch of the expected size at once, by halves.
func (o *Options) batches() []int {
	most := mostTogether
	if need := math.Ceil(o.Batch + 5*math.Sqrt(o.Batch)); o.Batch > 0 && need < float64(most) {
		most = int(need)
	}
	if o.MaxBatch > 0 {
		most = min(most, o.MaxBatch)
	}
	all := []int{most}
	for all[len(all)-1] >= 2*leastTogether || o.Memory > 0 && all[len(all)-1] > 1 {
		all = append(all, (all[len(all)-1]+1)/2)
	}
	return all
}

// exampleSeconds is what an example costs whatever the choices, and
// batchSeconds what a batch costs whatever its size: weights are read, and
// sums read and written, once.
func (o *Options) exampleSeconds(s *plan.Schedule) float64 {
	return float64(s.Program.StepFLOPs())/o.costs().GEMM + 4*float64(s.Program.ValueBytes())/o.costs().Memory
}

func (o *Options) batchSeconds(s *plan.Schedule) float64 {
	return float64(len(s.Steps))*o.costs().Launch + 16*float64(s.Program.NumParams())/o.costs().Memory
}

// Together is how many examples of a batch go through the network together: as
// many as still make it faster, unless memory says less. Larger batches go in
// parts, so that memory does not grow with the expected batch.
func Together(s *plan.Schedule, o Options) int {
	if s.Chunk > 0 {
		return o.batches()[0] // only a chunk takes memory
	}
	var options []option
	for _, m := range o.batches() {
		options = append(options, option{
			batch:   m,
			seconds: o.exampleSeconds(s) + o.batchSeconds(s)/float64(m),
			fits:    o.Memory == 0 || int64(m)*s.ExampleBytes() <= o.Memory,
		})
	}
	return fastest(options).batch
}
