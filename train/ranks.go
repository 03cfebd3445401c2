package train

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/collective/sums"
	"github.com/privgrad/privgrad/internal/collective/team"
	"github.com/privgrad/privgrad/internal/imported"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
)

// join makes this process a rank, where there are others. They need what a run that goes on keeps of a network's file.
func (r *run) join(network bool) error {
	o := &r.options
	if o.Group == nil || o.Group.Size() == 1 {
		return nil
	}
	r.team = &team.Team{
		Group: o.Group, Own: []error{ErrInterrupted, ErrReport},
		Kinds: []error{ErrInterrupted, accountant.ErrBudget, ledger.ErrInUse, ledger.ErrCorrupt, ledger.ErrMismatch},
	}
	var err error
	if r.team.Rank() > 0 {
		r.team.Scratch, err = os.MkdirTemp("", "privgrad-rank-")
		o.Out, o.Progress, o.Watch, o.Report, o.Log = r.team.Scratch, nil, nil, nil, slog.New(slog.DiscardHandler)
	}
	if !network || err != nil {
		return err
	}
	return imported.Share(r.team.Root, r.team.Rank() == 0, r.dir())
}

// meet draws the keys of this process. Ranks compare what they are about to do, and share what all must know.
func (r *run) meet() (err error) {
	draw := r.plan.Keys
	if k := r.options.keys; k != nil {
		draw = func() (plan.Keys, error) { return *k, nil }
	}
	t, p := r.team, r.plan
	if t == nil {
		r.keys, err = draw()
		return err
	}
	if err := p.Together(); err != nil {
		return err
	}
	info := r.device.Info() // noise and updates have the same bits on the same kind of device alone
	if err := t.Alike(p.Fingerprint, p.Set.Parts, fmt.Sprint(info.Name, info.Detail, info.Cipher)); err != nil {
		return err
	}
	if r.shard, err = t.Shard(p.Set.Train.Units()); err != nil {
		return err
	}
	keys, err := t.Root(func() ([]byte, error) {
		k, err := draw()
		return slices.Concat(k.Sampling[:], k.Noise[:], k.Views[:]), err
	})
	if err == nil {
		for _, k := range []*stream.Key{&r.keys.Sampling, &r.keys.Noise, &r.keys.Views} {
			keys = keys[copy(k[:], keys):]
		}
		r.device = sums.Wrap(r.device, t)
	}
	return err
}

// enter opens the run: at rank 0 first, from whose files the others go on. A run that has finished has a result.
func (r *run) enter(ctx context.Context) (done *Result, err error) {
	t := r.team
	if t == nil {
		return r.open(ctx)
	}
	files, err := t.Root(func() ([]byte, error) {
		if done, err = r.open(ctx); err != nil || done != nil {
			return nil, err
		}
		return r.dir().Pack()
	})
	switch {
	case err != nil:
		return nil, err
	case len(files) == 0 && t.Rank() == 0:
		return done, nil
	case len(files) == 0:
		return &Result{}, nil
	case t.Rank() > 0:
		r.options.Resume = ResumeAuto
		if err = r.dir().Unpack(files); err == nil {
			_, err = r.open(ctx)
		}
	}
	return nil, t.All(err)
}

// stopping says whether the run is to end: as rank 0 has it.
func (r *run) stopping(ctx context.Context) bool { return r.team.Stopping(ctx.Err() != nil) }

// newSampler draws the batches of all records, and of a rank gives those that it has.
func (r *run) newSampler() (batches.Sampler, error) {
	if r.team == nil {
		return r.plan.Sampler(r.plan.Set.Train.Units()+r.plan.Config.Canaries, r.keys.Sampling)
	}
	whole, err := r.plan.Sampler(r.shard.N, r.keys.Sampling)
	if err != nil {
		return nil, err
	}
	return batches.Part(whole, r.shard.First, r.shard.Count), nil
}
