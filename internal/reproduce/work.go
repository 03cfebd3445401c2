package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// work is the runs of a figure, as far as they are done.
type work struct {
	*Env
	figure *Figure
	path   string
	all    Records
	made   int

	planned map[string]bool // keys of the jobs of the last round
	first   int             // seeds of the first round
	kept    time.Time       // when the file was last written
	unkept  bool
}

// round makes the jobs of a figure, and gives their records. After the first round, only jobs of
// open comparisons are added.
func (w *work) round(ctx context.Context, open []Cell) (Records, error) {
	again := w.planned != nil
	if !again {
		w.first = w.Seeds
	}
	chosen := func(jobs []Job) ([]Job, error) {
		for i := range jobs {
			if err := jobs[i].Identify(); err != nil {
				return nil, err
			}
		}
		return slices.DeleteFunc(jobs, func(j Job) bool {
			cell := Cell{j.Panel, j.Series, j.X}
			return again && j.Seed > w.first && !w.planned[j.key()] && !slices.Contains(open, cell)
		}), nil
	}
	jobs, err := w.figure.Plan(w.Env)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, usage.Errorf("%s has nothing to run: %s", w.figure.Name, strings.Join(w.skipped, "; "))
	}
	if jobs, err = chosen(jobs); err != nil {
		return nil, err
	}
	if err := w.do(ctx, jobs); err != nil {
		return nil, err
	}
	if w.figure.Then != nil {
		more, err := w.figure.Then(w.Env, w.of(jobs))
		if err != nil {
			return nil, err
		}
		if more, err = chosen(more); err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
		if err := w.do(ctx, jobs); err != nil {
			return nil, err
		}
	}
	w.planned = map[string]bool{}
	for i := range jobs {
		w.planned[jobs[i].key()] = true
	}
	return w.of(jobs), nil
}

// keepEvery is how often the file is written: all of it, however short the last run was.
const keepEvery = time.Second

// keep writes the runs so far.
func (w *work) keep() error {
	if !w.unkept {
		return nil
	}
	w.kept, w.unkept = time.Now(), false
	return WriteRecords(w.path, w.all)
}

// read takes what an earlier call has kept.
func (w *work) read() (err error) {
	if w.all, err = ReadRecords(w.path); err != nil {
		return err
	}
	for i := range w.all {
		if quick := strings.Contains(w.all[i].Label, QuickLabel); quick != w.Quick {
			return usage.Errorf("%s holds runs with --quick=%t, and these are with --quick=%t: choose another --out", w.path, quick, w.Quick)
		}
	}
	return nil
}

// do makes the runs that are not there yet, several at a time.
func (w *work) do(ctx context.Context, jobs []Job) (err error) {
	defer func() { err = cmp.Or(err, w.keep()) }()
	done := map[string]bool{}
	for i := range w.all {
		done[w.all[i].key()] = true
	}
	var left []Job
	for i := range jobs {
		if !done[jobs[i].key()] {
			left = append(left, jobs[i])
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan Job)
	var mu sync.Mutex
	finished := len(jobs) - len(left)
	tell := func(j Job) {
		if w.Progress != nil {
			w.Progress(finished, len(jobs), fmt.Sprintf("%s, %s, seed %d", j.Panel, j.Series, j.Seed))
		}
	}
	var group sync.WaitGroup
	for range w.atOnce() {
		group.Go(func() {
			for j := range next {
				mu.Lock()
				tell(j)
				mu.Unlock()
				records, err := w.run(ctx, j)
				mu.Lock()
				if err == nil {
					w.all, w.unkept = append(w.all, records...), true
					if time.Since(w.kept) > keepEvery {
						err = w.keep()
					}
					w.made += records.runs()
					finished++
					tell(j)
				}
				mu.Unlock()
				if err != nil {
					cancel(fmt.Errorf("%s, %s, %s, seed %d: %w", w.figure.Name, j.Panel, j.Series, j.Seed, err))
					return
				}
			}
		})
	}
feed:
	for _, j := range left {
		select {
		case next <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	if ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, train.ErrInterrupted) {
		return err
	}
	return fmt.Errorf("%w after %d of %d runs, which %s keeps: start the command again to go on", train.ErrInterrupted, finished, len(jobs), w.path)
}

// atOnce is the number of runs at a time. Small networks use several cores badly,
// several runs use them well; a GPU is one.
func (w *work) atOnce() int {
	switch {
	case w.OnGPU(), w.figure.Alone:
		return 1
	case w.Threads > 0:
		return w.Threads
	}
	return runtime.NumCPU()
}

// of gives the records of some jobs, in their order.
func (w *work) of(jobs []Job) Records {
	byKey := map[string]Records{}
	for i := range w.all {
		byKey[w.all[i].key()] = append(byKey[w.all[i].key()], w.all[i])
	}
	var rs Records
	for i := range jobs {
		rs = append(rs, byKey[jobs[i].key()]...)
	}
	return rs
}
