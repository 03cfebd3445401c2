package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/rundir"
)

var errCrash = errors.New("crashed on purpose")

// stopAt gives options that end a run before slot n: by cancelling, as Ctrl-C
// does, or by an error that saves nothing, as a crash would.
func stopAt(t *testing.T, o Options, n int, cancel bool) (context.Context, Options) {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	o.onRelease = func(slot int) error {
		if slot < n {
			return nil
		}
		if cancel {
			stop()
			return nil
		}
		return errCrash
	}
	return ctx, o
}

// ends makes a run that ends for a reason before it has finished.
func ends(ctx context.Context, t *testing.T, c Config, o Options, why error) {
	t.Helper()
	if _, err := Run(ctx, c, o); !errors.Is(err, why) {
		t.Fatal(err)
	}
}

// charges is what the ledger of a run directory holds.
func charges(t *testing.T, dir string) ledger.State {
	t.Helper()
	s, _, err := ledger.Read(filepath.Join(dir, rundir.Ledger))
	check(t, err)
	return s
}

// What goes with any optimizer resumes as exactly as the optimizers do.
func TestSeededResumeIsExact(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"noisy loss": func(c *Config) { c.TrainLossNoise = ptr(3.0) },
		"adaptive":   func(c *Config) { c.Clipping, c.TrainLossNoise = "adaptive", ptr(3.0) },
		"features":   func(c *Config) { c.Features, c.Whiten, c.LR = "scatter", "none", ptr(0.05) },
		"views":      withViews,
		"schedule":   func(c *Config) { c.LRSchedule, c.Warmup = "cosine", 7 },
		"average":    func(c *Config) { c.Optimizer, c.LR, c.Average = "dp-adam", ptr(0.01), 0.9 },
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			change(&c)
			testSeededResume(t, c)
		})
	}
}

func TestExactCrashStaysCharged(t *testing.T) {
	c := small()
	c.Noise = dpoptim.Exact
	testCrashStaysCharged(t, c)
}

// A clean stop gives unused reservations back.
func TestInterruptSettles(t *testing.T) {
	c := small()
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), block: 10}
	ctx, stop := stopAt(t, o, 12, true)
	if _, err := Run(ctx, c, stop); !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), "running your program again") {
		t.Fatalf("interrupted: %v", err)
	}
	s, _, err := ledger.Read(filepath.Join(o.Out, rundir.Ledger))
	if err != nil || s.Reserved != 13 {
		t.Errorf("the ledger charges %d steps after 13: %v", s.Reserved, err)
	}
	o.Resume = ResumeRun
	if r, err := Run(context.Background(), c, o); err != nil || r.Steps != *c.Steps {
		t.Errorf("resumed: %v", err)
	}
}

// A copy that goes on is warned of: the original may go on, too. A run that goes on where it was, that was begun by a version
// that noted no place, or that had finished, is not.
func TestResumeOfACopyWarns(t *testing.T) {
	c := small()
	resumed := func(o Options) string {
		t.Helper()
		var text bytes.Buffer
		o.Resume, o.Log = ResumeRun, slog.New(slog.NewTextHandler(&text, nil))
		finished(t, c, o)
		return text.String()
	}
	const want = "level=WARN"
	for name, prepare := range map[string]func(o *Options) (warns bool){
		"where it was": func(*Options) bool { return false },
		"a copy": func(o *Options) bool {
			from := o.Out
			o.Out = filepath.Join(t.TempDir(), "copy")
			check(t, os.CopyFS(o.Out, os.DirFS(from)))
			return true
		},
		"a copy of an earlier version's run": func(o *Options) bool {
			from := o.Out
			o.Out = filepath.Join(t.TempDir(), "copy")
			check(t, os.CopyFS(o.Out, os.DirFS(from)))
			check(t, os.Remove(filepath.Join(o.Out, rundir.Processes)))
			return false
		},
	} {
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), block: 5}
		ctx, stop := stopAt(t, o, 12, true)
		ends(ctx, t, c, stop, ErrInterrupted)
		warns := prepare(&o)
		if got := resumed(o); strings.Contains(got, want) != warns || warns && !strings.Contains(got, "paid for once and made twice") {
			t.Errorf("%s: %s", name, got)
		}
		if got := resumed(o); strings.Contains(got, want) { // it had finished
			t.Errorf("%s, finished: %s", name, got)
		}
	}
}

func TestResumeRefuses(t *testing.T) {
	start := func(t *testing.T) (Config, Options) {
		c := small()
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
		ctx, stop := stopAt(t, o, 12, true)
		ends(ctx, t, c, stop, ErrInterrupted)
		return c, o
	}
	refused := func(t *testing.T, c Config, o Options, want string) {
		t.Helper()
		before := files(t, o.Out)
		_, err := Run(context.Background(), c, o)
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a usage error with %q", err, want)
		}
		sameFiles(t, before, files(t, o.Out))
	}
	t.Run("other settings", func(t *testing.T) {
		c, o := start(t)
		c.NoiseMultiplier = ptr(1.5)
		refused(t, c, o, "noise_multiplier is 1.5, was 1")
	})
	t.Run("a directory that is not empty", func(t *testing.T) {
		c, o := start(t)
		o.Resume = ResumeNever
		refused(t, c, o, "is not empty")
	})
	t.Run("a foreign ledger", func(t *testing.T) {
		c, o := start(t)
		_, other := start(t)
		check(t, os.Rename(filepath.Join(other.Out, rundir.Ledger), filepath.Join(o.Out, rundir.Ledger)))
		refused(t, c, o, "different runs")
	})
	t.Run("an older ledger", func(t *testing.T) {
		c := small()
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
		ctx, stop := stopAt(t, o, 6, true)
		ends(ctx, t, c, stop, ErrInterrupted)
		old := read(t, o.Out, rundir.Ledger)
		ctx, stop = stopAt(t, o, 12, true)
		ends(ctx, t, c, stop, ErrInterrupted)
		check(t, os.WriteFile(filepath.Join(o.Out, rundir.Ledger), old, 0o600))
		refused(t, c, o, "older than its checkpoint")
	})
	t.Run("a truncated checkpoint", func(t *testing.T) {
		c, o := start(t)
		check(t, os.Truncate(rundir.Dir(o.Out).State(), 40))
		refused(t, c, o, "cannot be read")
	})
	t.Run("no checkpoint and no model", func(t *testing.T) {
		c, o := start(t)
		check(t, errors.Join(os.Remove(rundir.Dir(o.Out).State()), os.Remove(filepath.Join(o.Out, rundir.Model))))
		refused(t, c, o, "checkpoint to go on from is gone")
	})
	t.Run("a result that is none", func(t *testing.T) {
		c, o := start(t)
		for _, text := range []string{"null", "{}", `{"steps": 24}`, "", "[]"} {
			check(t, os.WriteFile(filepath.Join(o.Out, rundir.Result), []byte(text), 0o644))
			refused(t, c, o, rundir.Result)
		}
	})
	t.Run("a run in use", func(t *testing.T) {
		c, o := start(t)
		l, err := ledger.Open(filepath.Join(o.Out, rundir.Ledger), headerOf(t, o.Out))
		check(t, err)
		defer l.Close()
		_, err = Run(context.Background(), c, o)
		var u *UsageError
		if !errors.As(err, &u) || !errors.Is(err, ledger.ErrInUse) {
			t.Errorf("a directory in use: %v", err)
		}
	})
}

// Of two processes that begin in one directory, the one that has the ledger writes the
// settings; from a ledger that is all a killed process left, a run begins.
func TestSettingsFollowTheLock(t *testing.T) {
	c := small()
	o := Options{Sources: sources(made(1, 400)), Out: t.TempDir(), Resume: ResumeAuto}
	p := resolved(t, c, o)
	l, err := ledger.Open(filepath.Join(o.Out, rundir.Ledger), ledger.Header{RunID: strings.Repeat("0a", 16), Fingerprint: p.Fingerprint, Committed: p.Steps})
	check(t, err)
	other := c
	other.Seed++
	for _, c := range []Config{c, other} {
		if _, err := Run(context.Background(), c, o); !errors.Is(err, ledger.ErrInUse) {
			t.Errorf("while another process has the ledger: %v", err)
		}
	}
	check(t, l.Close())
	if _, err := Run(context.Background(), other, o); !errors.Is(err, ledger.ErrMismatch) {
		t.Errorf("another run's ledger: %v", err)
	}
	if rundir.Dir(o.Out).Has(rundir.Config) {
		t.Error("settings were written without the lock")
	}
	if r, err := Run(context.Background(), c, o); err != nil || r.Steps != 24 || headerOf(t, o.Out).RunID[:2] != "0a" {
		t.Errorf("from the ledger alone: %v", err)
	}
}

func headerOf(t *testing.T, dir string) ledger.Header {
	_, h, err := ledger.Read(filepath.Join(dir, rundir.Ledger))
	check(t, err)
	return h
}

// The child of TestKill: a run that puts the number of a slot into a witness file before
// its release. The second variable makes it seeded and adaptive.
const (
	killVariable   = "PRIVGRAD_TEST_KILL_DIR"
	seededVariable = "PRIVGRAD_TEST_KILL_SEEDED"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(killVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Run(context.Background(), killConfig(os.Getenv(seededVariable) != ""), witnessing(dir)); err != nil && !errors.Is(err, ErrSlice) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// witnessing resumes the run below dir and appends to its witness file.
func witnessing(dir string) Options {
	return Options{
		Sources: sources(made(1, 400)), Out: filepath.Join(dir, "run"), Resume: ResumeAuto, block: 3,
		onRelease: func(slot int) error {
			w, err := os.OpenFile(filepath.Join(dir, "witness"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			_, err = w.Write([]byte{byte(slot)})
			return errors.Join(err, w.Close())
		},
	}
}

func killConfig(seeded bool) Config {
	c := small()
	c.Steps, c.EvalEvery, c.TrainLossNoise, c.Accountant = ptr(90), 10, ptr(5.0), accountant.RDP // which prices in a moment
	if seeded {
		c.Noise, c.Clipping, c.Features, c.Whiten = dpoptim.Seeded, "adaptive", "scatter", "none"
	} else {
		withViews(&c)
	}
	return c
}

// killed runs the child and kills it after a time, unless that is 0.
func killed(t *testing.T, dir string, seeded bool, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killVariable+"="+dir)
	if seeded {
		cmd.Env = append(cmd.Env, seededVariable+"=1")
	}
	cmd.Stderr = os.Stderr
	check(t, cmd.Start())
	if after > 0 {
		time.Sleep(after)
		cmd.Process.Kill()
		cmd.Wait()
	} else if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Killed at any point, a seeded run with an adaptive clip norm, on features, goes on with
// the clip norm and all else that it would have had.
func TestKillSeededAdaptive(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	killed(t, dir, true, 0)
	whole := time.Since(began)
	want, err := rundir.Dir(filepath.Join(dir, "run")).ReadCheckpoint(81*2*2+1, nil)
	check(t, err)
	metrics := read(t, dir, "run", rundir.Metrics)
	if want.Clip == 1 {
		t.Fatal("the clip norm did not move")
	}
	for i := range 6 {
		dir := t.TempDir()
		killed(t, dir, true, whole*time.Duration(i+1)/7)
		finished(t, killConfig(true), Options{Sources: sources(made(1, 400)), Out: filepath.Join(dir, "run"), Resume: ResumeAuto, block: 3})
		got, err := rundir.Dir(filepath.Join(dir, "run")).ReadCheckpoint(81*2*2+1, nil)
		check(t, err)
		if got.Clip != want.Clip || got.Step != want.Step || !slices.Equal(got.Params, want.Params) {
			t.Errorf("kill %d: the clip norm ends at %v, want %v", i, got.Clip, want.Clip)
		}
		if !bytes.Equal(read(t, dir, "run", rundir.Metrics), metrics) {
			t.Errorf("kill %d: the metrics differ", i)
		}
	}
}

// Killed at any point, and killed again after it was resumed, a run resumes. It draws noise
// for no slot twice, its ledger never holds less than was released, and neither
// what a reader makes of the ledger nor what the run reports in the end is less than the ε of all
// releases of all its processes. PRIVGRAD_TEST_KILLS sets the number of runs.
func TestKill(t *testing.T) {
	runs := 16
	if v := os.Getenv("PRIVGRAD_TEST_KILLS"); v != "" {
		runs, _ = strconv.Atoi(v)
	}
	began := time.Now()
	killed(t, t.TempDir(), false, 0)
	whole := time.Since(began)
	p := resolved(t, killConfig(false), Options{Sources: sources(made(1, 400))})
	random := rand.New(rand.NewPCG(21, 22)) // the rest of the chance is the scheduler's
	kills, before, during := 0, 0, 0
	for i := range runs {
		dir := t.TempDir()
		path := filepath.Join(dir, "run", rundir.Ledger)
		released := func() int {
			witness, _ := os.ReadFile(filepath.Join(dir, "witness"))
			seen := map[byte]bool{}
			for _, slot := range witness {
				if seen[slot] {
					t.Fatalf("run %d: slot %d was released twice", i, slot)
				}
				seen[slot] = true
			}
			return len(witness)
		}
		times := 1 + random.IntN(3)
		for range times {
			killed(t, dir, false, 1+time.Duration(random.Int64N(int64(whole*3/4))))
			kills++
			n, charged := released(), 0
			if _, err := os.Stat(path); err == nil {
				s, _, err := ledger.Read(path)
				if err != nil {
					t.Fatalf("run %d: %v", i, err)
				}
				charged = s.Reserved
			}
			if charged < n || *p.EpsilonAt(charged) < *p.EpsilonAt(n) {
				t.Fatalf("run %d: %d steps were released, the ledger holds %d", i, n, charged)
			}
			switch {
			case n == 0:
				before++
			case charged < p.Steps:
				during++
			}
		}
		r, err := Run(context.Background(), killConfig(false), witnessing(dir))
		if err != nil {
			t.Fatalf("run %d after %d releases: %v", i, released(), err)
		}
		n := released()
		if lost := *r.Committed - r.Steps; lost < 0 || lost > 3*times || *r.EpsilonSoFar > *r.Epsilon {
			t.Fatalf("run %d: %d updates of %d after %d kills, ε so far %v of %v", i, r.Steps, *r.Committed, times, *r.EpsilonSoFar, *r.Epsilon)
		}
		if n > p.Steps || *r.EpsilonSoFar < *p.EpsilonAt(n) || *r.EpsilonSoFar != *p.EpsilonAt(p.Steps) {
			t.Fatalf("run %d: ε %v is reported after %d releases of ε %v", i, *r.EpsilonSoFar, n, *p.EpsilonAt(n))
		}
		lines := bytes.Split(bytes.TrimSpace(read(t, dir, "run", rundir.Metrics)), []byte("\n"))
		var last Measurement
		if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || *last.EpsilonSoFar != *r.EpsilonSoFar {
			t.Fatalf("run %d: the metrics end with %s, ε so far is %v: %v", i, lines[len(lines)-1], *r.EpsilonSoFar, err)
		}
	}
	t.Logf("%d kills: %d before the first release, %d during the schedule, the rest at its end", kills, before, during)
	// About half of the kills fall into the schedule: none of the 28 that the seed makes would with
	// probability 4e-9.
	if runs >= 16 && during == 0 {
		t.Error("no kill fell into the schedule; the test shows nothing")
	}
}

// A fault of the program ends a run as a crash does: with an error that quotes nothing,
// and a directory from which the run goes on.
func TestFaultIsACrash(t *testing.T) {
	c := small()
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), block: 5}
	bad := o
	bad.onRelease = func(slot int) error {
		if slot == 12 {
			return []error{nil}[slot]
		}
		return nil
	}
	_, err := Run(context.Background(), c, bad)
	var e *fault.Error
	var refused *UsageError
	if !errors.As(err, &e) || errors.As(err, &refused) || strings.Contains(err.Error(), "12") && !strings.Contains(e.Place, "12") || strings.Contains(err.Error(), "range") {
		t.Fatalf("the fault is %v", err)
	}
	o.Resume = ResumeRun
	r, err := Run(context.Background(), c, o)
	if err != nil || r.Steps != 24-5 { // the block in progress was charged
		t.Errorf("resumed: %v", err)
	}
}
