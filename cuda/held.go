package cuda

import (
	"errors"
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// Together is the most training steps that are one graph.
const Together = 8

// mostTogether is the most launches of a training step that goes together with others. Beside more of them
// the start of a graph does not count, and the memory of a long graph does.
const mostTogether = 128

// pair is a training step: a step that fills a sum, and one that releases the sum and gives nothing to the
// host. Where a run of the one follows a run of the other with the same scalars, both are one graph,
// and runs of several training steps are another. Neither is launched before it is complete: the runs
// are held. They are paid for and checked, and their inputs are in the ring, so that nothing follows
// from when they are launched.
type pair struct {
	sum  *step
	one  driver.Graph
	many driver.Graph // Together of them; nil where several do not go together
}

// held are runs that are not on the stream.
type held struct {
	pair    *pair // of the complete ones, which are pairs in number
	pairs   int
	sum     *step // a run behind them of a step that fills a sum, or nil
	scalars [device.Slots]float32
}

// newPair captures the graphs of two steps.
func (n *net) newPair(sum, then *step) (p *pair, err error) {
	p = &pair{sum: sum}
	both := slices.Concat(sum.work[1:], then.work[1:]) // without the advance of each
	if p.one, err = n.capturePairs(both, 1); err == nil && len(both) <= mostTogether && !sum.counts {
		p.many, err = n.capturePairs(both, Together)
	}
	if err != nil {
		return nil, errors.Join(err, p.free())
	}
	sum.paired = true
	return p, nil
}

func (n *net) capturePairs(both []work, pairs int) (driver.Graph, error) {
	l := &list{net: n, step: noStep}
	l.launch(n.ring.advance(pairs))
	if err := l.load(); err != nil {
		return nil, err
	}
	for k := range pairs {
		for _, w := range both {
			l.work = append(l.work, w.on(n.arena.run, n.arena.run+kernels.Ptr(k*n.ring.stride)))
		}
	}
	return n.captureWork(l.work, func(int) error { return nil })
}

// on is work with the inputs of another run. Kernels have the address of their run as an argument of its own.
func (w work) on(from, to kernels.Ptr) work {
	w.launch.Args = slices.Clone(w.launch.Args)
	for i, a := range w.launch.Args {
		if a == from {
			w.launch.Args[i] = to
		}
	}
	return w
}

func (p *pair) free() error {
	var errs []error
	for _, g := range []driver.Graph{p.one, p.many} {
		if g != nil {
			errs = append(errs, g.Close())
		}
	}
	return errors.Join(errs...)
}

// run puts a run on the stream or holds it. It waits only where all slots of the ring are taken.
func (n *net) run(s *step, in *device.Inputs) error {
	h := &n.held
	if p := s.pair; p != nil && p.sum == h.sum && in.Scalars == h.scalars {
		return n.completes(p, in)
	}
	if n.spent == nil && s.paired {
		if h.sum != nil { // a batch that takes several runs
			if err := n.flush(); err != nil {
				return err
			}
		}
		h.sum, h.scalars = s, in.Scalars
		return n.ring.put(in)
	}
	if err := n.flush(); err != nil {
		return err
	}
	if err := n.ring.put(in); err != nil {
		return err
	}
	if err := n.ring.send(s.toRun(), 1); err != nil {
		return err
	}
	return s.timing.add(n.spent)
}

// completes makes a pair of the held run of its sum.
func (n *net) completes(p *pair, in *device.Inputs) error {
	h := &n.held
	h.sum = nil
	n.ring.draw(in.Draw) // which the sum does not read
	if h.pair != p {
		if err := n.flush(); err != nil {
			return err
		}
	}
	h.pair = p
	h.pairs++
	if p.many == nil || h.pairs == Together {
		return n.flush()
	}
	return nil
}

// flush puts what is held on the stream, in its order.
func (n *net) flush() error {
	h := n.held
	n.held = held{}
	if h.pairs == Together && h.pair.many != nil {
		return n.ring.send(h.pair.many, Together)
	}
	for range h.pairs {
		if err := n.ring.send(h.pair.one, 1); err != nil {
			return err
		}
	}
	if h.sum != nil {
		return n.ring.send(h.sum.graph, 1)
	}
	return nil
}
