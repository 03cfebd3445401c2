package train

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/sums"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

// A team is the processes of one run. Each makes the whole run, on its own records: sums are added up over all ranks before they are
// released, so that all have the same parameters and come to the same decisions. The run directory is that of rank 0. The
// others have a scratch directory each, which goes when they end.
type team struct {
	collective.Group
	scratch string
	keys    plan.Keys
	shard   datasets.Shard
}

// kinds are what may be asked of another rank's error.
var kinds = []error{ErrInterrupted, accountant.ErrBudget, ledger.ErrInUse, ledger.ErrCorrupt, ledger.ErrMismatch}

// join makes this process a rank, where there are others.
func (r *run) join() error {
	o := &r.options
	if o.Group == nil || o.Group.Size() == 1 {
		return nil
	}
	r.team = &team{Group: o.Group}
	if r.team.Rank() == 0 {
		return nil
	}
	var err error
	r.team.scratch, err = os.MkdirTemp("", "privgrad-rank-")
	o.Out, o.Progress, o.Watch, o.Report, o.Log = r.team.scratch, nil, nil, nil, slog.New(slog.DiscardHandler)
	return err
}

// leave tells the others of an error that they have not come to.
func (t *team) leave(err error) {
	if t == nil {
		return
	}
	if err != nil && !collective.Agreed(err) && !errors.Is(err, ErrInterrupted) && !errors.Is(err, ErrReport) {
		t.Abort(err)
	}
	if t.scratch != "" {
		os.RemoveAll(t.scratch)
	}
}

// part is the share of the records that the rank opens.
func (t *team) part() datasets.Rank {
	if t == nil {
		return datasets.Rank{}
	}
	return datasets.Rank{Rank: t.Rank(), Of: t.Size()}
}

// gpu is implemented by groups whose ranks have a GPU each.
type gpu interface{ GPU() int }

// device names the one that the rank opens in the place of the configured one, as each needs another; "" for that.
func (t *team) device(configured string) string {
	if t == nil {
		return ""
	}
	if g, ok := t.Group.(gpu); ok && (configured == "auto" || configured == "cuda") {
		return fmt.Sprintf("cuda:%d", g.GPU())
	}
	return ""
}

// all gives every rank the error of the first that has one.
func (t *team) all(err error) error {
	if t == nil {
		return err
	}
	for rank := range t.Size() {
		if _, err := collective.At(t, rank, kinds, func() ([]byte, error) { return nil, err }); err != nil {
			return err
		}
	}
	return nil
}

// like gives all ranks the error where one of them has other bytes than rank 0.
func (t *team) like(mine []byte, otherwise error) error {
	digest := sha256.Sum256(mine)
	root, err := collective.AtRoot(t, kinds, func() ([]byte, error) { return digest[:], nil })
	if err == nil && string(root) != string(digest[:]) {
		err = otherwise
	}
	return t.all(err)
}

// same checks that all ranks have come to the same parameters, before they are saved.
func (t *team) same(params []float32) error {
	if t == nil {
		return nil
	}
	bits := make([]byte, 0, 4*len(params))
	for _, x := range params {
		bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(x))
	}
	return t.like(bits, errors.New("its parameters are not those of rank 0: a processor computes other numbers; nothing was saved of these steps, which stay charged"))
}

// summable are the questions whose answers several processes find together.
var summable = []dpoptim.Question{dpoptim.Gradients, dpoptim.Norms, dpoptim.Searches, dpoptim.Curves, dpoptim.Minima, dpoptim.Losses}

// meet compares what the ranks are about to do, and shares what all must know.
func (r *run) meet() error {
	t, p := r.team, r.plan
	if t == nil {
		return nil
	}
	for _, a := range p.Declaration.Asks {
		if !slices.Contains(summable, a.Question) {
			return usage.Errorf("optimizer %s asks for a %s, which one process works out from all records: start it without mpirun", p.Config.Optimizer, a.Question)
		}
	}
	switch {
	case p.Method.Traits().Once:
		return usage.Errorf("optimizer %s works out its model in one process, from all records: start it without mpirun", p.Config.Optimizer)
	case p.Config.DataIsPublic || p.Config.PrivateDiagnostics:
		return usage.Errorf("data-is-public and private-diagnostics score all training records in one process: leave them out, or start without mpirun")
	}
	if err := r.alike(); err != nil {
		return err
	}
	counts := make([]int64, t.Size())
	counts[t.Rank()] = int64(p.Set.Train.Len())
	if err := t.SumInt64(counts); err != nil {
		return err
	}
	t.shard = datasets.ShardOf(t.Rank(), counts)
	keys, err := collective.AtRoot(t, kinds, func() ([]byte, error) {
		k, err := r.drawKeys()
		return slices.Concat(k.Sampling[:], k.Noise[:]), err
	})
	if err == nil {
		copy(t.keys.Sampling[:], keys)
		copy(t.keys.Noise[:], keys[len(t.keys.Sampling):])
		r.device = sums.Wrap(r.device, t)
	}
	return err
}

// alike refuses ranks that would not make one run together. What is compared is public: names, settings and published sizes.
func (r *run) alike() error {
	binary, err := program()
	if err = r.team.all(err); err != nil {
		return err
	}
	info := r.device.Info() // noise and updates have the same bits on the same kind of device alone
	for _, x := range []struct{ mine, otherwise string }{
		{string(binary), "its program is not that of rank 0: copy one file to all machines"},
		{r.plan.Fingerprint, "its settings or its public sizes are not those of rank 0: start all ranks with the same ones"},
		{r.plan.Set.Parts, "its list of shards is not that of rank 0: give all machines the index that `privgrad data shard` wrote with the shards"},
		{fmt.Sprint(info.Name, info.Detail, info.Cipher), "its processor is not of the kind that rank 0 has, and computes other bits: use machines of one kind"},
	} {
		if err := r.team.like([]byte(x.mine), usage.Errorf("%s", x.otherwise)); err != nil {
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
	return nil, t.all(err)
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
		return r.team.keys, nil
	}
	return r.drawKeys()
}

// newSampler draws the batches of all records, and of a rank gives those that it has.
func (r *run) newSampler(key stream.Key) (datasets.Sampler, error) {
	if r.team == nil {
		return r.plan.Sampler(r.plan.Set.Train.Len(), key)
	}
	whole, err := r.plan.Sampler(r.team.shard.N, key)
	if err != nil {
		return nil, err
	}
	return r.team.shard.Sampler(whole), nil
}

// program is the digest of the file that this process runs.
var program = sync.OnceValues(func() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the program's own file cannot be read, which is compared with that of rank 0: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
})
