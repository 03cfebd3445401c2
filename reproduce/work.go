package reproduce

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

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
func (w *work) do(ctx context.Context, jobs []Job) error {
	done := map[string]bool{}
	for i := range w.all {
		done[w.all[i].key()] = true
	}
	var left []Job
	for i := range jobs {
		if err := jobs[i].Identify(); err != nil {
			return err
		}
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
					w.all = append(w.all, records...)
					err = WriteRecords(w.path, w.all)
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
	case w.onGPU(), w.figure.Alone:
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
