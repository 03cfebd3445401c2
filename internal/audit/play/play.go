// Package play plays the runs of a game in two worlds, by several players at a time.
package play

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Lanes is how many players share the runs. It does not depend on the machine,
// so that seeded audits repeat everywhere.
const Lanes = 16

// A Player plays runs, one after the other.
type Player interface {
	// Run plays one in a world, and gives its statistic.
	Run(world int) (float64, error)
	Close()
}

// Runs plays both worlds so many times, and gives the statistics of every run. As many players as there are threads play at a
// time. Progress is told how many runs are done, perhaps by several goroutines; nil: nobody.
func Runs(ctx context.Context, threads, times int, progress func(done, total int), newPlayer func(lane int) (Player, error)) ([2][]float64, error) {
	stats := [2][]float64{make([]float64, times), make([]float64, times)}
	var done atomic.Int64
	tell := func() {
		if n := done.Add(1); progress != nil {
			progress(int(n), 2*times)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	errs := make([]error, Lanes)
	var workers sync.WaitGroup
	for range min(threads, Lanes) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < Lanes; i = int(next.Add(1)) - 1 {
				if errs[i] = lane(ctx, i, stats, newPlayer, tell); errs[i] != nil {
					cancel() // the others stop as well
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return stats, err
		}
	}
	if ctx.Err() != nil {
		return stats, errors.New("interrupted: an audit that was stopped says nothing")
	}
	return stats, nil
}

// lane plays the runs whose number is i modulo Lanes, by a player of its own.
func lane(ctx context.Context, i int, stats [2][]float64, newPlayer func(lane int) (Player, error), tell func()) error {
	if ctx.Err() != nil || i >= len(stats[0]) {
		return ctx.Err()
	}
	p, err := newPlayer(i)
	if err != nil {
		return err
	}
	defer p.Close()
	for n := i; n < len(stats[0]); n += Lanes {
		for world := range stats {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := p.Run(world)
			if err != nil {
				return err
			}
			if math.IsNaN(x) {
				return fmt.Errorf("a run released values that are not finite: lower --noise-multiplier or --clip, or choose another --seed")
			}
			stats[world][n] = x
			tell()
		}
	}
	return nil
}
