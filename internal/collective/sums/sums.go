// Package sums lets the processes of a run share one device.Device's worth of sums: each adds up the rows that it
// has, and what is released is the total. Nothing else of a run knows that there are several.
//
// Every rank records and runs the same steps. Before a sum is released, searched or measured, the integers
// that it consists of on the grid of its noise are added up over all ranks. The noise comes from one key and
// one position, so that it is in the total once, and all ranks release the same bits.
package sums

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Wrap makes a device whose sums are those of all ranks.
func Wrap(d device.Device, g collective.Group) device.Device { return &shared{d, g} }

type shared struct {
	device.Device
	group collective.Group
}

// Wrapped is the device itself: every rank maps its own records.
func (d *shared) Wrapped() device.Device { return d.Device }

func (d *shared) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(d.share(s), o)
	if err != nil {
		return nil, err
	}
	return &net{Net: n, group: d.group, whole: map[device.Sum]bool{}}, nil
}

// leastShare is how many records a rank's processor takes together at least: with fewer, starting steps costs time.
const leastShare = 64

// share lets as many records go through the network together on all ranks as on one: what they need stays in caches.
// GPUs have fewer parts to start the more records those have.
func (d *shared) share(s *ir.Schedule) *ir.Schedule {
	if s.Chunk == 0 || d.Info().Costs.Whole {
		return s
	}
	part := *s
	part.Chunk = min(s.Chunk, max(s.Chunk/d.group.Size(), leastShare))
	return &part
}

type net struct {
	device.Net
	group collective.Group
	whole map[device.Sum]bool // sums that every rank has of the total, as norms are
}

func (n *net) Record(body func(device.Queue)) (device.Step, error) {
	q := &queue{net: n}
	step, err := n.Net.Record(func(to device.Queue) {
		if c, ok := to.(device.Combiner); ok {
			q.Combiner = c
			body(q)
			return
		}
		q.err = device.ErrNoCombining
	})
	if q.err != nil {
		err = q.err
	}
	return step, err
}

// Parts is the number of ranks: each rounds its own sum.
func (n *net) Parts() int { return n.group.Size() }

type queue struct {
	device.Combiner
	net *net
	err error
}

// combine makes a sum the total, once.
func (q *queue) combine(s device.Sum, step device.Slot, scales ...device.Slot) {
	if !q.net.whole[s] {
		q.Combine(s, device.Hidden{Step: step, Scales: scales}, q.net.group)
	}
}

func (q *queue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	q.combine(src, noise.Step(), noise.Std())
	q.Combiner.Release(dst, src, noise)
}

func (q *queue) AboveThreshold(src device.Sum, s device.Search) {
	q.combine(src, device.NoiseStep, device.ThresholdStd, device.QueryStd)
	q.Combiner.AboveThreshold(src, s)
}

func (q *queue) ArgMin(src device.Sum, m device.Minimum) {
	q.combine(src, device.NoiseStep, device.ThresholdStd, device.QueryStd)
	q.Combiner.ArgMin(src, m)
}

func (q *queue) Norm(dst, src device.Sum) {
	if q.net.whole[src] {
		q.err = fmt.Errorf("sum %d is a total, and its norm was asked for", src)
		return
	}
	q.CombinedNorm(dst, src, device.Hidden{Step: device.NormStep, Scales: []device.Slot{device.NormStd}}, q.net.group)
	q.net.whole[dst] = true
}
