package train

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/sums"
	"github.com/privgrad/privgrad/internal/collective/team"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

// kinds are what may be asked of another rank's error.
var kinds = []error{ErrInterrupted, accountant.ErrBudget, ledger.ErrInUse, ledger.ErrCorrupt, ledger.ErrMismatch}

// join makes this process a rank, where there are others.
func (r *run) join() error {
	o := &r.options
	if o.Group == nil || o.Group.Size() == 1 {
		return nil
	}
	r.team = &team.Team{Group: o.Group, Kinds: kinds, Own: []error{ErrInterrupted, ErrReport}}
	if r.team.Rank() == 0 {
		return nil
	}
	var err error
	r.team.Scratch, err = os.MkdirTemp("", "privgrad-rank-")
	o.Out, o.Progress, o.Watch, o.Report, o.Log = r.team.Scratch, nil, nil, nil, slog.New(slog.DiscardHandler)
	return err
}

// meet compares what the ranks are about to do, and shares what all must know.
func (r *run) meet() error {
	t, p := r.team, r.plan
	if t == nil {
		return nil
	}
	if err := p.Together(); err != nil {
		return err
	}
	if err := r.alike(); err != nil {
		return err
	}
	counts := make([]int64, t.Size())
	counts[t.Rank()] = int64(p.Set.Train.Len())
	if err := t.SumInt64(counts); err != nil {
		return err
	}
	r.shard = datasets.ShardOf(t.Rank(), counts)
	keys, err := collective.AtRoot(t, kinds, func() ([]byte, error) {
		k, err := r.drawKeys()
		return slices.Concat(k.Sampling[:], k.Noise[:]), err
	})
	if err == nil {
		copy(r.shared.Sampling[:], keys)
		copy(r.shared.Noise[:], keys[len(r.shared.Sampling):])
		r.device = sums.Wrap(r.device, t)
	}
	return err
}

// alike refuses ranks that would not make one run together. What is compared is public: names, settings and published sizes.
func (r *run) alike() error {
	binary, err := team.Program()
	if err = r.team.All(err); err != nil {
		return err
	}
	info := r.device.Info() // noise and updates have the same bits on the same kind of device alone
	for _, x := range []struct{ mine, otherwise string }{
		{string(binary), "its program is not that of rank 0: copy one file to all machines"},
		{r.plan.Fingerprint, "its settings or its public sizes are not those of rank 0: start all ranks with the same ones"},
		{r.plan.Set.Parts, "its list of shards is not that of rank 0: give all machines the index that `privgrad data shard` wrote with the shards"},
		{fmt.Sprint(info.Name, info.Detail, info.Cipher), "its processor is not of the kind that rank 0 has, and computes other bits: use machines of one kind"},
	} {
		if err := r.team.Like([]byte(x.mine), usage.Errorf("%s", x.otherwise)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) drawKeys() (plan.Keys, error) {
	if k := r.options.keys; k != nil {
		return *k, nil
	}
	return r.plan.Keys()
}

// enter opens the run: at rank 0 first, from whose files the others go on. A run that has finished has a result.
func (r *run) enter(ctx context.Context) (done *Result, err error) {
	t := r.team
	if t == nil {
		return r.open(ctx)
	}
	files, err := collective.AtRoot(t, kinds, func() ([]byte, error) {
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
func (r *run) stopping(ctx context.Context) bool {
	stop := ctx.Err() != nil
	if r.team == nil {
		return stop
	}
	b, err := collective.AtRoot(r.team, kinds, func() ([]byte, error) {
		return fmt.Append(nil, stop), nil
	})
	return err == nil && string(b) == "true" // what has failed fails again at the next release
}

// keys are those of all ranks.
func (r *run) keys() (plan.Keys, error) {
	if r.team != nil {
		return r.shared, nil
	}
	return r.drawKeys()
}

// newSampler draws the batches of all records, and of a rank gives those that it has.
func (r *run) newSampler(key stream.Key) (batches.Sampler, error) {
	if r.team == nil {
		return r.plan.Sampler(r.plan.Set.Train.Len(), key)
	}
	whole, err := r.plan.Sampler(r.shard.N, key)
	if err != nil {
		return nil, err
	}
	return batches.Part(whole, r.shard.First, r.shard.Count), nil
}
