package train

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/plan"
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
	if steps := *l.config.Steps; l.sound(when) != steps || r.Steps > steps || len(l.released) < r.Steps || *r.EpsilonSoFar > *r.Epsilon {
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

// A seeded run that is made in slices has the bytes of one that is made at once: parameters, their average, the method's state,
// the moving clip norm and all evaluations. Its records have views.
func TestSlicesAreTheRun(t *testing.T) {
	change := func(c *Config) {
		c.Noise, c.Clipping, c.Momentum, c.Average = dpoptim.Seeded, "adaptive", 0.9, 0.9
		withViews(c)
	}
	l := lent(t, change)
	slots := []int{1, 7, 4, lentSteps - 5 - 12}
	for i, n := range slots {
		went, err := (&slice.Home{Dir: l.run}).Out(n, "")
		check(t, err)
		l.goOn(went.Folder, ResumeRun, func(int) error { return nil }, -1, ErrSlice)
		if _, err := os.Stat(filepath.Join(went.Folder, rundir.Model)); err == nil {
			t.Error("a slice carries the model twice")
		}
		in, err := (&slice.Home{Dir: l.run}).In(went.Folder)
		check(t, err)
		if in.NotPrivate != plan.SeededLabel || went.NotPrivate != plan.SeededLabel {
			t.Errorf("slices of a seeded run say %q and %q", went.NotPrivate, in.NotPrivate)
		}
		if want := (slice.Incoming{Run: l.run, Number: i + 1, Updates: n, Step: in.Charged, Committed: lentSteps, Charged: went.Charged, NotPrivate: plan.SeededLabel}); *in != want {
			t.Errorf("slice %d is in as %+v, want %+v", i+1, *in, want)
		}
		params, _, err := rundir.ReadModel(filepath.Join(l.run, rundir.Model), resolved(t, l.config, Options{Sources: sources(made(1, 400))}).Network.Program)
		check(t, err)
		stored, err := rundir.Dir(l.run).ReadCheckpoint(len(params), []int{1})
		check(t, err)
		if !slices.Equal(stored.Params, params) {
			t.Errorf("slice %d: the model is not that of the checkpoint", i+1)
		}
	}
	l.finish("slices")
	at := &lending{T: t, config: l.config, run: filepath.Join(t.TempDir(), "run")}
	at.goOn(at.run, ResumeNever, func(int) error { return nil }, -1, nil)
	var ends [2]*rundir.Checkpoint
	for i, run := range []string{l.run, at.run} {
		var err error
		ends[i], err = rundir.Dir(run).ReadCheckpoint(65, []int{1})
		check(t, err)
		ends[i].RunID = ""
	}
	if !reflect.DeepEqual(ends[0], ends[1]) || ends[0].Clip == 1 {
		t.Error("the checkpoint is another than that of a run that was made at once")
	}
	for _, name := range []string{rundir.Model, rundir.Average, rundir.Metrics} {
		if !slices.Equal(read(t, l.run, name), read(t, at.run, name)) {
			t.Errorf("%s is another than that of a run that was made at once", name)
		}
	}
	// A seeded slice that is lost is made again, the same.
	again := lent(t, change)
	went, err := (&slice.Home{Dir: again.run}).Out(lentSlots, "")
	check(t, err)
	again.made(went.Folder, ending{"crash", 4})
	gone, err := (&slice.Home{Dir: again.run}).Lost()
	if check(t, err); !gone.Lost || gone.Skipped != 0 {
		t.Errorf("a seeded slice is lost as %+v", gone)
	}
	again.finish("lost and seeded")
	if !slices.Equal(read(t, again.run, rundir.Model), read(t, at.run, rundir.Model)) {
		t.Error("a seeded run that lost a slice ends with another model")
	}
}

// Two slices are never out together, and a folder that is not what the run is waiting for is refused.
func TestSlicesAreRefused(t *testing.T) {
	start := lent(t, nil)
	home := func(l *lending) *slice.Home { return &slice.Home{Dir: l.run} }
	out := func(l *lending, slots int) string {
		went, err := home(l).Out(slots, "")
		check(t, err)
		return went.Folder
	}
	none := func(int) error { return nil }

	l := start.copied()
	for _, slots := range []int{-1, 0, lentSteps - 4} {
		_, err := home(l).Out(slots, "")
		l.refuses(err, "19 steps left of 24")
	}
	_, err := home(l).Out(1, filepath.Dir(l.run))
	l.refuses(err, "exists already")
	_, err = home(l).Lost()
	l.refuses(err, "no slice of")
	_, err = (&slice.Home{Dir: t.TempDir()}).Out(1, "")
	l.refuses(err, "no run to slice")
	if l.sound("refused") != 5 {
		t.Error("what is refused is charged")
	}

	folder := out(l, 4)
	_, err = home(l).Out(4, "")
	l.refuses(err, "is out")
	_, err = home(l).In(folder)
	l.refuses(err, "was not started")
	_, err = home(l).In(l.run)
	l.refuses(err, "is no slice")
	_, err = (&slice.Home{Dir: folder}).Out(1, "")
	l.refuses(err, "itself a slice")
	_, err = home(start.copied()).In(folder)
	l.refuses(err, "not started")
	l.goOn(folder, ResumeRun, none, -1, ErrSlice)
	_, err = home(start.copied()).In(folder)
	l.refuses(err, "is no slice of")

	// Files of different moments.
	mixed := folder + ".mixed"
	check(t, os.CopyFS(mixed, os.DirFS(folder)))
	lines := strings.SplitAfter(string(read(t, folder, rundir.Slice)), "\n")
	check(t, os.WriteFile(filepath.Join(mixed, rundir.Slice), []byte(lines[0]+lines[1]+strings.Replace(lines[2], `"state":"`, `"state":"0`, 1)), 0o644))
	_, err = home(l).In(mixed)
	l.refuses(err, "do not go together")
	check(t, os.WriteFile(filepath.Join(mixed, rundir.Slice), []byte(lines[0]+lines[1]), 0o644))
	parts, err := filepath.Glob(filepath.Join(mixed, rundir.StateFile+".*-000"))
	check(t, err)
	b := read(t, parts[0])
	b[len(b)-3] ^= 1
	check(t, os.WriteFile(parts[0], b, 0o644))
	_, err = home(l).In(mixed)
	l.refuses(err, "is damaged or of another moment")
	b[len(b)-3] ^= 1
	check(t, os.WriteFile(parts[0], b, 0o644))
	before := read(t, l.run, rundir.StateFile)

	// The folder as it went out stays behind where a copy was made of it; taking that in, the run makes sure of the other.
	beside := start.copied()
	stays := out(beside, 4)
	check(t, os.CopyFS(stays+".copy", os.DirFS(stays)))
	beside.goOn(stays+".copy", ResumeRun, none, -1, ErrSlice)
	_, err = home(beside).In(stays + ".copy")
	check(t, err)
	_, err = Run(context.Background(), l.config, Options{Sources: sources(made(1, 400)), Out: stays, Resume: ResumeRun})
	l.refuses(err, "starts once")

	// One slice of two that were made of one state is taken in: the first is given up, and comes back.
	_, err = home(l).Lost()
	check(t, err)
	second := out(l, 4)
	l.goOn(second, ResumeRun, none, -1, ErrSlice)
	for _, late := range []string{folder, mixed} {
		_, err = home(l).In(late)
		l.refuses(err, "given up")
	}
	if !slices.Equal(before, read(t, l.run, rundir.StateFile)) {
		t.Error("what is refused has changed the run")
	}
	in, err := home(l).In(second)
	check(t, err)
	if in.Charged != 5+4+4 || in.Step != 5+4 || in.Skipped != 0 {
		t.Errorf("the second slice is in as %+v", in)
	}

	// A version that knows no slices goes on with the run: what it skips stays charged, and the slice fits no longer.
	third := out(l, 3)
	hidden := read(t, l.run, rundir.Slices)
	check(t, os.Remove(filepath.Join(l.run, rundir.Slices)))
	l.goOn(l.run, ResumeRun, none, 2, ErrInterrupted)
	check(t, os.WriteFile(filepath.Join(l.run, rundir.Slices), hidden, 0o644))
	l.goOn(third, ResumeRun, none, -1, ErrSlice)
	_, err = home(l).In(third)
	l.refuses(err, "has gone on")
	_, err = home(l).Lost()
	check(t, err)
	if r := l.finish("an older version"); r.Steps != lentSteps-4-3 {
		t.Errorf("%d steps", r.Steps)
	}
	_, err = home(l).Out(1, "")
	l.refuses(err, "has finished")
}

// Runs that are not paid for by slots have no slices, and are told what to do.
func TestSliceable(t *testing.T) {
	for words, change := range map[string]func(*Config){
		"without noise": func(c *Config) { c.NoiseMultiplier = ptr(0.0) },
		"chooses its noise": func(c *Config) {
			c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.Accountant = "dp-blsgd-ac", nil, ptr(3.0), "rdp"
		},
		"canaries":             func(c *Config) { c.Canaries = 10 },
		"private diagnostics":  func(c *Config) { c.PrivateDiagnostics = true },
		"makes its model in o": func(c *Config) { c.Optimizer = "objpert" },
	} {
		t.Run(words, func(t *testing.T) {
			l := lent(t, nil)
			c := l.config
			if change(&c); words == "makes its model in o" { // which is never stopped half way
				text, err := c.YAML()
				check(t, err)
				check(t, os.WriteFile(filepath.Join(l.run, ConfigFile), text, 0o644))
			} else {
				l.config, l.run = c, l.run+"-other"
				ctx, stop := context.WithCancel(context.Background())
				n := 0
				_, err := Run(ctx, c, Options{Sources: sources(made(1, 400)), Out: l.run, onRelease: func(int) error {
					if n++; n == 3 {
						stop()
					}
					return nil
				}})
				if !errors.Is(err, ErrInterrupted) {
					t.Fatal(err)
				}
			}
			was := read(t, l.run, rundir.Ledger)
			_, err := (&slice.Home{Dir: l.run}).Out(1, "")
			l.refuses(err, words)
			if !slices.Equal(was, read(t, l.run, rundir.Ledger)) {
				t.Error("what is refused has changed the ledger")
			}
		})
	}
}

// A method that ends before its schedule charges what is left of the slice, and the run what is left of the schedule.
func TestSliceOfFinisher(t *testing.T) {
	for seed := range uint64(40) {
		c := small()
		c.Optimizer, c.Batch, c.Noise, c.Seed = "rrpsgd", nil, dpoptim.Seeded, seed
		c.NoiseMultiplier, c.Epsilon, c.LR = nil, ptr(3.0), nil
		l := &lending{T: t, config: c, run: filepath.Join(t.TempDir(), "run")}
		ctx, cancel := context.WithCancel(context.Background())
		_, err := Run(ctx, c, Options{Sources: sources(made(1, 400)), Out: l.run, block: lentBlock, onRelease: func(slot int) error { cancel(); return nil }})
		if err == nil {
			continue // it was one round
		}
		if !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		went, err := (&slice.Home{Dir: l.run}).Out(lentSteps-4, "")
		check(t, err)
		var inSlice, atHome []int
		note := func(to *[]int) func(int) error {
			return func(slot int) error { *to = append(*to, slot); return nil }
		}
		_, err = Run(context.Background(), c, Options{Sources: sources(made(1, 400)), Out: went.Folder, Resume: ResumeRun, block: lentBlock, onRelease: note(&inSlice)})
		if !errors.Is(err, ErrSlice) {
			t.Fatal(err)
		}
		_, err = (&slice.Home{Dir: l.run}).In(went.Folder)
		check(t, err)
		r, err := Run(context.Background(), c, Options{Sources: sources(made(1, 400)), Out: l.run, Resume: ResumeRun, block: lentBlock, onRelease: note(&atHome)})
		check(t, err)
		if r.Steps != *r.Rounds || *r.EpsilonSoFar != *r.Epsilon || 1+len(inSlice)+len(atHome) != r.Steps {
			t.Errorf("seed %d: %d updates of %d rounds, ε %v of %v", seed, r.Steps, *r.Rounds, *r.EpsilonSoFar, *r.Epsilon)
		}
		if len(inSlice) < lentSteps-4 { // it ended within the slice: the test has seen it
			return
		}
	}
	t.Error("no run ended within its slice")
}

// The count of usable records is made by the process that makes the first step, and comes home with it.
func TestSliceCounts(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 950, 0)
	ctx, stop := context.WithCancel(context.Background())
	ends(ctx, t, counting(), Options{Out: "run", Progress: &stopper{stop: stop}}, ErrInterrupted)
	h := &slice.Home{Dir: "run"}
	went, err := h.Out(2, "")
	check(t, err)
	if _, err := Run(context.Background(), counting(), Options{Out: went.Folder, Resume: ResumeRun}); !errors.Is(err, ErrSlice) {
		t.Fatal(err)
	}
	in, err := h.In(went.Folder)
	check(t, err)
	r, err := Run(context.Background(), counting(), Options{Out: "run", Resume: ResumeRun})
	if check(t, err); in.Step != 2 || r.Counted == nil || r.Steps != *r.Committed {
		t.Errorf("the slice came with %d updates and the count %v, the run made %d", in.Step, show(r.Counted), r.Steps)
	}
}

// A slice is made by one process.
func TestSliceIsMadeByOne(t *testing.T) {
	l := lent(t, nil)
	went, err := (&slice.Home{Dir: l.run}).Out(3, "")
	check(t, err)
	for _, err := range ranks(context.Background(), local.New(2, local.Options{}), l.config, Options{Sources: sources(made(1, 400)), Out: went.Folder, Resume: ResumeRun}) {
		if err == nil || !strings.Contains(err.Error(), "one process") {
			t.Errorf("a rank of a slice: %v", err)
		}
	}
	l.goOn(went.Folder, ResumeRun, func(int) error { return nil }, -1, ErrSlice) // it was not started
}

// killSlices has runs made in slices by processes that are killed at any moment, and takes in what they leave: one of four at a
// time from its start, the others when they have made some of their steps.
func killSlices(t *testing.T, runs int) {
	began := time.Now()
	killed(t, t.TempDir(), false, 0)
	whole := time.Since(began)
	random := rand.New(rand.NewPCG(23, 24))
	lost, cut, ended := 0, 0, 0
	for range runs {
		dir := t.TempDir()
		folder, witness := filepath.Join(dir, "run"), filepath.Join(dir, "witness") // where the child works
		l := &lending{T: t, config: killConfig(false), run: filepath.Join(dir, "home")}
		l.goOn(l.run, ResumeNever, func(int) error { return nil }, 5, ErrInterrupted)
		atHome := slices.Clone(l.released)
		for charged := 5; charged < *l.config.Steps; {
			check(t, os.RemoveAll(folder))
			slots := min(20, *l.config.Steps-charged)
			_, err := (&slice.Home{Dir: l.run}).Out(slots, folder)
			check(t, err)
			if random.IntN(4) == 0 {
				killed(t, dir, false, 1+time.Duration(random.Int64N(int64(whole))))
			} else {
				before, _ := os.ReadFile(witness)
				killedAfter(t, dir, len(before)+1+random.IntN(slots))
			}
			seen, _ := os.ReadFile(witness)
			l.released = slices.Clone(atHome)
			for _, slot := range seen {
				l.released = append(l.released, int(slot))
			}
			l.sound("killed")
			in, err := (&slice.Home{Dir: l.run}).In(folder)
			switch {
			case err != nil:
				l.refuses(err, "was not started")
				_, err = (&slice.Home{Dir: l.run}).Lost()
				check(t, err)
				lost++
			case in.Skipped > 0:
				cut++
			default:
				ended++
			}
			charged = l.sound("taken in")
		}
		l.finish("killed")
	}
	t.Logf("%d slices ended, %d were cut, %d were killed before their first step", ended, cut, lost)
	// Whatever the load, some of the more than 100 that are killed while they work die before they are saved whole: a block of three is
	// saved when its last step is made, so that two kills of three fall within one.
	if runs >= 40 && cut == 0 {
		t.Error("no kill fell into a slice; the test shows nothing")
	}
}

// killedAfter kills the child when it has witnessed so many releases.
func killedAfter(t *testing.T, dir string, releases int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killVariable+"="+dir)
	check(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case <-done:
			return
		default:
		}
		if i, err := os.Stat(filepath.Join(dir, "witness")); err == nil && i.Size() >= int64(releases) {
			cmd.Process.Kill()
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// Killed at any moment, a slice is charged for all that it released, and what it saved is taken in.
func TestKillSlices(t *testing.T)     { killSlices(t, 2) }
func TestLongKillSlices(t *testing.T) { killSlices(t, 40) }

// Every method whose steps are charged in advance is made in slices, and ends with the updates and the ε of a run that is interrupted
// there; others are refused before anything is charged.
func TestSlicesAndMethods(t *testing.T) {
	lentOut, refused := 0, 0
	for _, m := range methods {
		if m.variant {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			c := small()
			m.set(&c)
			o := Options{Sources: sources(made(1, 390)), Out: filepath.Join(t.TempDir(), "run")}
			p, err := resolve(c, o)
			check(t, err)
			ctx, stop := context.WithCancel(context.Background())
			interrupted := o
			interrupted.onRelease = func(int) error { stop(); return nil }
			if _, err = Run(ctx, c, interrupted); p.Method.Traits().Once || err == nil || !p.Method.Traits().Private {
				refused++ // it has no second step, or no ledger
				return
			}
			if !errors.Is(err, ErrInterrupted) {
				t.Fatal(err)
			}
			h := &slice.Home{Dir: o.Out}
			before := read(t, o.Out, rundir.Ledger)
			went, err := h.Out(5, "")
			if p.Filtered() || p.Sigma == 0 && p.Config.NoiseMultiplier != nil {
				var misuse *UsageError
				if refused++; !errors.As(err, &misuse) || !slices.Equal(before, read(t, o.Out, rundir.Ledger)) {
					t.Errorf("a method without slots: %v", err)
				}
				return
			}
			check(t, err)
			lentOut++
			o.Resume = ResumeRun
			away := o
			away.Out = went.Folder
			if _, err := Run(context.Background(), c, away); !errors.Is(err, ErrSlice) {
				t.Fatal(err)
			}
			in, err := h.In(went.Folder)
			check(t, err)
			r, err := Run(context.Background(), c, o)
			check(t, err)
			want := *r.Committed
			if r.Rounds != nil {
				want = *r.Rounds
			}
			if in.Skipped != 0 || r.Steps != want || *r.EpsilonSoFar > *r.Epsilon {
				t.Errorf("%d updates of %d, ε %v of %v", r.Steps, want, *r.EpsilonSoFar, *r.Epsilon)
			}
		})
	}
	if lentOut < 6 || refused < 6 {
		t.Errorf("%d methods were made in slices, %d refused", lentOut, refused)
	}
}
