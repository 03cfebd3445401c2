package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/slice"
)

// errCut ends what a test does there as a crash would: nothing after it is written.
var errCut = errors.New("cut")

// A lending is a run whose slices are lent, and every release that was made for it, by whichever process.
type lending struct {
	*testing.T
	config   Config
	run      string
	released []int // slots
}

const lentSteps, lentBlock, lentSlots = 24, 3, 7

// lent is a run that was stopped after 5 of its steps.
func lent(t *testing.T, change func(*Config)) *lending {
	t.Helper()
	c := small()
	c.Accountant = accountant.RDP // which prices in a moment
	if change != nil {
		change(&c)
	}
	l := &lending{T: t, config: c, run: filepath.Join(t.TempDir(), "run")}
	l.goOn(l.run, ResumeNever, func(n int) error { return nil }, 5, ErrInterrupted)
	return l
}

// copied is the same as a lending of its own.
func (l *lending) copied() *lending {
	run := filepath.Join(l.TempDir(), "run")
	check(l.T, os.CopyFS(run, os.DirFS(l.run)))
	return &lending{T: l.T, config: l.config, run: run, released: slices.Clone(l.released)}
}

// goOn trains in a directory. At each release it calls at with the number of those before, and it is asked to stop when there
// are stop of them, unless that is negative. It must end with an error, nil for none.
func (l *lending) goOn(dir string, resume Resume, at func(n int) error, stop int, want error) *Result {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	r, err := Run(ctx, l.config, Options{
		Sources: sources(made(1, 400)), Out: dir, Resume: resume, block: lentBlock,
		onRelease: func(slot int) error {
			if err := at(n); err != nil {
				return err
			}
			if n++; n == stop {
				cancel()
			}
			l.released = append(l.released, slot)
			return nil
		},
	})
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		l.Fatalf("training in %s ended with %v, want %v", dir, err, want)
	}
	return r
}

// sound checks that the ledger at home charges every release that was made, and that none was made twice.
func (l *lending) sound(when string) int {
	l.Helper()
	s, _, err := ledger.Read(filepath.Join(l.run, rundir.Ledger))
	check(l.T, err)
	seen := map[int]bool{}
	for _, slot := range l.released {
		if seen[slot] && l.config.Noise != dpoptim.Seeded { // which draws the same noise again
			l.Fatalf("%s: slot %d was released twice", when, slot)
		}
		seen[slot] = true
		if slot >= s.Reserved {
			l.Fatalf("%s: slot %d was released, and %d are charged", when, slot, s.Reserved)
		}
	}
	return s.Reserved
}

// refuses wants a request to be refused, with words of the reason, and nothing to be charged or written for it.
func (l *lending) refuses(err error, words string) {
	l.Helper()
	var misuse *UsageError
	if !errors.As(err, &misuse) || !strings.Contains(err.Error(), words) {
		l.Errorf("%v, want a refusal with %q", err, words)
	}
}

// cutAt cuts at one name of a Point.
func cutAt(name string) func(string) error {
	return func(at string) error {
		if at == name {
			return errCut
		}
		return nil
	}
}

// finish goes on with the run to its end, and checks what it claims.
func (l *lending) finish(when string) *Result {
	l.Helper()
	r := l.goOn(l.run, ResumeRun, func(int) error { return nil }, -1, nil)
	if l.sound(when) != lentSteps || r.Steps > lentSteps || len(l.released) < r.Steps || *r.EpsilonSoFar > *r.Epsilon {
		l.Fatalf("%s: the run ends after %d steps of %d releases, ε %v of %v", when, r.Steps, len(l.released), *r.EpsilonSoFar, *r.Epsilon)
	}
	last := r.Evaluations[len(r.Evaluations)-1]
	if last.Step != r.Steps || !slices.IsSortedFunc(r.Evaluations, func(a, b Measurement) int { return a.Step - b.Step }) {
		l.Fatalf("%s: evaluations are out of order: %+v", when, r.Evaluations)
	}
	return r
}

// How a slice may end where it runs.
type ending struct {
	name string
	at   int
}

func endings() (all []ending) {
	all = append(all, ending{"complete", 0})
	for n := range lentSlots {
		all = append(all, ending{"crash", n}, ending{"stop", n + 1}, ending{"fetched early", n})
	}
	return all
}

// made makes the slice in a folder, and gives the folder that comes back.
func (l *lending) made(folder string, e ending) string {
	l.Helper()
	none := func(int) error { return nil }
	switch e.name {
	case "complete":
		l.goOn(folder, ResumeRun, none, -1, ErrSlice)
	case "crash":
		l.goOn(folder, ResumeRun, func(n int) error {
			if n == e.at {
				return errCut
			}
			return nil
		}, -1, errCut)
	case "stop":
		want := ErrInterrupted
		if e.at == lentSlots {
			want = ErrSlice
		}
		l.goOn(folder, ResumeRun, none, e.at, want)
	case "fetched early": // while it runs, and it runs on
		back := folder + ".back"
		l.goOn(folder, ResumeRun, func(n int) error {
			if n == e.at {
				return os.CopyFS(back, os.DirFS(folder))
			}
			return nil
		}, -1, ErrSlice)
		return back
	}
	return folder
}

// inPoints are the places at which taking in may be cut, and none. Behind the checkpoint, the slice is in.
var (
	inPoints = []string{"", "note taking", "metrics", "checkpoint", "model", "settle", "note in"}
	behind   = 4
)

// afterwards is what a person may do then.
var afterwards = []string{"again", "resume", "lost"}

// cutSlice lends one slice, cuts it where it runs and where it is taken in, does something afterwards and finishes the run.
func cutSlice(start *lending, e ending, point int, after string) {
	l := start.copied()
	when := fmt.Sprintf("%s %d, taking in cut at %q, then %s", e.name, e.at, inPoints[point], after)
	in := func(folder string, point string) (*slice.Incoming, error) {
		h := slice.Home{Dir: l.run}
		if point != "" {
			h.Point = cutAt(point)
		}
		return h.In(folder)
	}
	went, err := (&slice.Home{Dir: l.run}).Out(lentSlots, "")
	check(l.T, err)
	if went.Charged != 5+lentSlots {
		l.Fatalf("%d are charged for a slice of %d", went.Charged, lentSlots)
	}
	back := l.made(went.Folder, e)
	l.sound(when)
	_, err = Run(context.Background(), l.config, Options{Sources: sources(made(1, 400)), Out: went.Folder, Resume: ResumeRun})
	l.refuses(err, "starts once")

	_, err = in(back, inPoints[point])
	l.sound(when)
	isIn := err == nil
	if err != nil && !errors.Is(err, errCut) {
		l.Fatalf("%s: %v", when, err)
	}
	switch {
	case after == "again" && isIn:
		_, err = in(back, "")
		l.refuses(err, "taken in already")
	case after == "again":
		_, err = in(back, "")
		check(l.T, err)
		isIn = true
	case after == "lost" && !isIn:
		got, err := (&slice.Home{Dir: l.run}).Lost()
		check(l.T, err)
		isIn = !got.Lost
		if moved := e.name == "complete" || e.name == "stop"; isIn != (point >= behind) && moved {
			l.Errorf("%s: the slice is in: %v", when, isIn)
		}
		_, err = in(back, "")
		l.refuses(err, "of "+l.run+" was")
	case after == "resume" && !isIn && point < behind:
		_, err = Run(context.Background(), l.config, Options{Sources: sources(made(1, 400)), Out: l.run, Resume: ResumeRun})
		if same := e.name != "complete" && e.name != "stop"; err != nil || !same { // one that brings no step is in when that is noted
			l.refuses(err, "is out")
			_, err = in(back, "")
			check(l.T, err)
		}
		isIn = true
	default:
		isIn = true
	}
	l.sound(when)
	if l.Failed() {
		return
	}
	r := l.goOnHome(when)
	switch ended := e.name == "complete" || e.name == "stop"; {
	case !isIn && r.Steps != lentSteps-lentSlots, isIn && ended && r.Steps != lentSteps, isIn && !ended && r.Steps < lentSteps-lentSlots:
		l.Errorf("%s: the run made %d steps", when, r.Steps)
	}
}

// goOnHome is finish, also of a run that has finished.
func (l *lending) goOnHome(when string) *Result {
	l.Helper()
	if rundir.Dir(l.run).Has(rundir.Result) {
		return l.goOn(l.run, ResumeRun, func(int) error { return nil }, -1, nil)
	}
	return l.finish(when)
}

// everyCut cuts at all places, or at some.
func everyCut(t *testing.T, every int) {
	start := lent(t, nil)
	n, cuts := 0, 0
	for _, e := range endings() {
		for point := range inPoints {
			for _, after := range afterwards {
				if n++; n%every == 0 {
					cutSlice(start, e, point, after)
					cuts++
				}
			}
		}
	}
	t.Logf("%d slices of %d", cuts, n)
	if n < 200 {
		t.Errorf("%d places to cut a slice", n)
	}
}

// Wherever a slice is cut, lost, or taken in twice, the ledger at home charges all noise that was drawn, and the run goes on to its end.
func TestSlices(t *testing.T)     { everyCut(t, 19) }
func TestLongSlices(t *testing.T) { everyCut(t, 1) }

// Wherever slice out is cut, its slots are charged before there is a folder that may use them.
func TestSliceOutIsCut(t *testing.T) {
	start := lent(t, nil)
	for i, point := range []string{"copy", "measurement", "charge", "note", "ledger", "slice", "folder"} {
		l := start.copied()
		_, err := (&slice.Home{Dir: l.run, Point: cutAt(point)}).Out(lentSlots, "")
		if !errors.Is(err, errCut) {
			t.Fatalf("%s: %v", point, err)
		}
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(l.run), "*")); len(found) != 1 {
			t.Errorf("%s: there are %v", point, found)
		}
		want := 5
		if i > 2 {
			want += lentSlots
		}
		if got := l.sound(point); got != want {
			t.Errorf("%s: %d are charged", point, got)
		}
		if i > 3 {
			_, err := Run(context.Background(), l.config, Options{Sources: sources(made(1, 400)), Out: l.run, Resume: ResumeRun})
			l.refuses(err, "is out")
			_, err = (&slice.Home{Dir: l.run}).Out(1, "")
			l.refuses(err, "is out")
			_, err = (&slice.Home{Dir: l.run}).Lost()
			check(t, err)
		}
		if r := l.finish(point); r.Steps != lentSteps-want+5 {
			t.Errorf("%s: %d steps", point, r.Steps)
		}
	}
}
