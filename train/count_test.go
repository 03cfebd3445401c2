package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/stream"
)

// counting is a run on arrays whose usable records are counted with a deviation of 50.
func counting() Config {
	c := ownData("npz:a.npz")
	c.PublicN, c.ClassNames = ptr(1000), []string{"no", "yes"}
	return c
}

// A budget that adapts has the price of the count spent before the ledger charges anything. A process that ends before that has
// released nothing, and the next one begins with the count.
func TestCountAfterAnEarlyEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 950, 0)
	c := counting()
	c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.Accountant = "dp-blsgd-ac", nil, ptr(3.0), "rdp"
	ctx, stop := context.WithCancel(context.Background())
	o := Options{Out: "run", Progress: &stopper{stop: stop}}
	ends(ctx, t, c, o, ErrInterrupted)
	if s, _, err := ledger.Read(filepath.Join("run", rundir.Ledger)); err != nil || s.Reserved != 0 {
		t.Fatalf("the ledger charges %d: %v", s.Reserved, err)
	}
	r, err := Run(context.Background(), c, Options{Out: "run", Resume: ResumeRun})
	if check(t, err); r.Counted == nil || r.Steps == 0 {
		t.Errorf("counted %v, made %d steps", show(r.Counted), r.Steps)
	}
}

// stopper interrupts a run before its first step.
type stopper struct{ stop func() }

func (s *stopper) Start(int)                  { s.stop() }
func (*stopper) Step(int, *float64, *float64) {}
func (*stopper) Finish()                      {}

// A run whose files hold no usable record ends before its first step, keeps what it was told, and says it again. Of 1000
// records that are not there a noisy count of deviation 50 is 250 or more with a probability of 3e-7, and the keys are given.
func TestFewRecordsEndARun(t *testing.T) {
	for name, c := range map[string]struct {
		damaged float64 // -1: the classes are others
		set     func(*Config)
	}{
		"labels that are no class": {1, func(*Config) {}},
		"a budget that adapts": {1, func(c *Config) {
			c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.Accountant = "dp-blsgd-ac", nil, ptr(3.0), "rdp"
		}},
		"no folder of any class": {-1, func(c *Config) { c.Data, c.ClassNames = "dir:p", []string{"cat", "dog"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			config := counting()
			if c.damaged < 0 {
				makeFolders(t, 1, 100, 0)
			} else {
				makeArrays(t, 1, 100, c.damaged)
			}
			c.set(&config)
			o := Options{Out: "run", keys: injected(3)}
			_, err := Run(context.Background(), config, o)
			var misuse *UsageError
			if err == nil || errors.As(err, &misuse) || !strings.Contains(err.Error(), "noisy count") || !strings.Contains(err.Error(), "privgrad data verify "+config.Data) || !strings.Contains(err.Error(), "all that was released, and costs ε = 0.0") {
				t.Fatalf("the run ended by: %v", err)
			}
			s, _, lerr := ledger.Read(filepath.Join("run", rundir.Ledger))
			if check(t, lerr); s.Reserved < 1 || s.Settled != s.Reserved {
				t.Errorf("the ledger charges %d slots and has settled %d", s.Reserved, s.Settled)
			}
			if unfinished := rundir.Dir("run").Unfinished(rundir.Result); !strings.Contains(unfinished.Error(), err.Error()) {
				t.Errorf("those who read the run are told: %v", unfinished)
			}
			if rundir.Dir("run").Has(rundir.Model) {
				t.Error("a model was written")
			}
			o.Resume, o.keys = ResumeRun, injected(4)
			if _, again := Run(context.Background(), config, o); again == nil || again.Error() != err.Error() {
				t.Errorf("resumed, the run ended by: %v", again)
			}
			if now, _, err := ledger.Read(filepath.Join("run", rundir.Ledger)); err != nil || now.Reserved != s.Reserved {
				t.Errorf("the second process charged %d slots more: %v", now.Reserved-s.Reserved, err)
			}
		})
	}
}

// A count far above the public number says that the guarantee is for fewer records than there are: no step is made. One that the noise may
// have raised as much says nothing.
func TestManyRecordsEndARun(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 100, 0)
	_, err := Run(context.Background(), counting(), Options{Out: "run", counted: ptr(1201.0)}) // σ is 50
	var misuse *UsageError
	if err == nil || errors.As(err, &misuse) || !strings.Contains(err.Error(), "--public-n must be larger") || rundir.Dir("run").Has(rundir.Model) {
		t.Errorf("the run ended by: %v", err)
	}
	if r, err := Run(context.Background(), counting(), Options{Out: "another", counted: ptr(1200.0)}); err != nil || *r.Counted != 1200 {
		t.Errorf("a count that may be right: %v", err)
	}
}

// The count is one of the releases whose price the run states, and its noise is what was priced.
func TestCountIsPriced(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 950, 0)
	c := counting()
	c.TrainLossNoise = ptr(4.0)
	r := finished(t, c, Options{Out: "run", keys: injected(3)})
	if r.Counted == nil || math.Abs(*r.Counted-950) > 6*50 || *r.Counted != math.Round(*r.Counted) {
		t.Errorf("%v records were counted, and there are 950", show(r.Counted))
	}
	want := []accountant.Event{
		accountant.PoissonBatch(0.06, 25, accountant.Gaussian{NoiseMultiplier: 1}),
		accountant.PoissonBatch(0.06, 2, accountant.Gaussian{NoiseMultiplier: 4}),
		{Mechanisms: []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: 50}}, Count: 1},
	}
	got, err := json.Marshal(r.Events)
	check(t, err)
	if text, err := json.Marshal(want); err != nil || string(got) != string(text) {
		t.Errorf("the run released %s, and should have %s", got, text)
	}
	cost, err := accountant.Account(want, accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: *c.Delta})
	if check(t, err); *r.Epsilon != cost.Epsilon || *r.EpsilonSoFar != cost.Epsilon {
		t.Errorf("the run costs %v, so far %v; its releases %v", *r.Epsilon, *r.EpsilonSoFar, cost.Epsilon)
	}
	first := resolved(t, c, Options{})
	if one, none := first.EpsilonAt(1), first.EpsilonAt(0); *none != 0 || *one < 0.05 {
		t.Errorf("nothing costs %v, the first slot %v", *none, *one)
	}
}

// The filter of a budget that adapts has paid for the count before anything else.
func TestFilterPaysForTheCount(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 950, 0)
	c := counting()
	c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.Accountant = "dp-blsgd-ac", nil, ptr(3.0), "rdp"
	p := resolved(t, c, Options{})
	b, err := p.NewBudget()
	check(t, err)
	f := b.(*accountant.Filter)
	// The divergence of a Gaussian at order α is α/2σ².
	if spent, want := b.Spent()[0], f.Order()/(2*50*50); math.Abs(spent/want-1) > 1e-9 {
		t.Errorf("a new budget has spent %v, the count costs %v", spent, want)
	}
	r, err := Run(context.Background(), c, Options{Out: "run", keys: injected(3)})
	if check(t, err); r.Counted == nil || r.Steps == 0 {
		t.Errorf("counted %v, made %d steps", show(r.Counted), r.Steps)
	}
}

// What the count adds to the noise, and to what a filter admits, is next to nothing from 500 records on.
func TestCountCostsLittle(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 10, 0)
	sigma := map[bool]float64{}
	for _, counts := range []bool{false, true} {
		c := counting()
		c.PublicN, c.NoiseMultiplier, c.Epsilon, c.CountRecords = ptr(500), nil, ptr(1.0), &counts
		p := resolved(t, c, Options{})
		if sigma[counts] = p.Sigma; (p.Count != nil) != counts {
			t.Errorf("asked for a count: %v; made: %v", counts, p.Count != nil)
		}
	}
	if more := sigma[true] / sigma[false]; more < 1 || more > 1.01 {
		t.Errorf("the count of 500 records has the noise grow by a factor of %v", more)
	}
}

// unbatched is by a method that has its own say of batches, steps and rates.
func unbatched(optimizer string) func(*Config) {
	return func(c *Config) {
		c.Optimizer, c.Epsilon = optimizer, ptr(1.0)
		c.NoiseMultiplier, c.Batch, c.Steps, c.LR = nil, nil, nil, nil
	}
}

// Where nothing would pay for a count, or no private file is read, none is made, and settings are those of before.
func TestNothingToCount(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 100, 0)
	for name, set := range map[string]func(*Config){
		"few records":       func(c *Config) { c.PublicN = ptr(499) },
		"no noise":          func(c *Config) { c.NoiseMultiplier = ptr(0.0) },
		"public data":       func(c *Config) { c.DataIsPublic = true },
		"no privacy":        func(c *Config) { c.Optimizer, c.NoiseMultiplier = "sgd", nil },
		"pure":              unbatched(majority),
		"one release":       unbatched("objpert"),
		"local":             unbatched("banco"),
		"noise of a method": unbatched("pur-a"),
		"papers":            func(c *Config) { c.Accountant = "paper" },
		"built in":          func(c *Config) { *c = small() },
		"declined":          func(c *Config) { c.CountRecords = ptr(false) },
	} {
		c := counting()
		c.TestIsPublic = false
		set(&c)
		p, err := resolve(c, Options{Sources: sources(made(1, 10))})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if asked := p.Config.CountRecords; p.Count != nil || asked != nil && *asked {
			t.Errorf("%s: a count is made", name)
		}
	}
}

// A run that was interrupted goes on with the count that it has, and a seeded one ends as if it had not been.
func TestCountIsMadeOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 950, 0)
	for _, noise := range []string{"secure", "seeded"} {
		c := counting()
		c.Noise = noise
		_, o := stopAt(t, Options{Out: noise, block: 5}, 12, false)
		ends(context.Background(), t, c, o, errCrash)
		saved, err := rundir.Dir(noise).ReadCheckpoint(65, nil)
		if err != nil || saved.Counted == nil {
			t.Fatalf("the checkpoint has no count: %v", err)
		}
		r, err := Run(context.Background(), c, Options{Out: noise, Resume: ResumeRun})
		if check(t, err); r.Counted == nil || *r.Counted != *saved.Counted {
			t.Errorf("%s: counted %v, and %v after the resume", noise, *saved.Counted, show(r.Counted))
		}
		if noise == "seeded" {
			whole, err := Run(context.Background(), c, Options{Out: "whole", block: 5})
			if check(t, err); *whole.Counted != *r.Counted || whole.Digests[rundir.Model] != r.Digests[rundir.Model] {
				t.Error("a seeded run that was resumed differs from one that was not")
			}
		}
	}
	// One that died between the charge and the count has lost it, as it may have drawn its noise.
	_, o := stopAt(t, Options{Out: "lost", block: 5}, 0, false)
	ends(context.Background(), t, counting(), o, errCrash)
	screen := &screen{}
	r, err := Run(context.Background(), counting(), Options{Out: "lost", Resume: ResumeRun, Log: slog.New(slog.NewTextHandler(screen, nil))})
	if check(t, err); !strings.Contains(screen.String(), "the count of usable records was lost") {
		t.Errorf("the process that goes on says %s", screen)
	}
	if r.Counted != nil || r.Steps != 20 {
		t.Errorf("a count that was charged and lost is %v after %d steps", show(r.Counted), r.Steps)
	}
}

// A run from before there were counts goes on without one.
func TestOlderRunsCountNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 950, 0)
	c := counting()
	c.CountRecords = ptr(false)
	_, o := stopAt(t, Options{Out: "run", block: 5}, 12, false)
	ends(context.Background(), t, c, o, errCrash)
	file := filepath.Join("run", rundir.Config)
	text := strings.Replace(string(read(t, file)), "count_records: false\n", "", 1)
	check(t, os.WriteFile(file, []byte(text), 0o644))
	c = Default()
	check(t, ReadRun(nil, "run", &c))
	r, err := Run(context.Background(), c, Options{Out: "run", Resume: ResumeRun})
	if check(t, err); r.Counted != nil || r.Steps < 10 {
		t.Errorf("counted %v, %d steps", show(r.Counted), r.Steps)
	}
	if strings.Contains(text, "count_records") || len(r.Events) != 1 {
		t.Errorf("an older run releases %v", r.Events)
	}
}

// Several processes count all records together, with the noise that one has: the keys are given.
func TestRanksCountTogether(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 950, 0.2)
	alone := 0.0
	for _, n := range []int{1, 3} {
		o := Options{Out: filepath.Join(t.TempDir(), "run"), keys: injected(3)}
		c := counting()
		c.Noise = "exact"
		results, errs := ranked(context.Background(), local.New(n, local.Options{}), func(int) (Config, Options) { return c, o })
		check(t, errors.Join(errs...))
		if results[0].Counted == nil {
			t.Fatal("no count")
		}
		if n == 1 {
			alone = *results[0].Counted
		} else if *results[0].Counted != alone {
			t.Errorf("%d ranks counted %v, one counted %v", n, *results[0].Counted, alone)
		}
	}
}

// A front end leaves some rows of a user unusable. Several processes then count the units that one counts: what is left
// of a unit on each is put together before it is rounded down.
func TestRanksCountUsersTogether(t *testing.T) {
	set := made(1, 1200)
	size := 64
	for i := 0; i < set.Train.Len(); i += 7 { // of 400 rows on each of three ranks 58, 57 and 57
		for k := range size {
			set.Train.Features[i*size+k] = 255
		}
	}
	front, err := features.Own("no white", set.Train.Shape, set.Train.Shape, func(dst, image []float32) {
		copy(dst, image)
		if slices.Min(image) == 1 {
			dst[0] = float32(math.NaN())
		}
	})
	check(t, err)
	var users strings.Builder
	for i := range set.Train.Len() {
		fmt.Fprintln(&users, i/2)
	}
	c := small()
	c.Users, c.RecordsPerUser, c.PublicN, c.Delta = filepath.Join(t.TempDir(), "users.txt"), 2, ptr(600), ptr(1e-5)
	c.Classes, c.Noise, c.Steps = nil, "exact", ptr(1)
	check(t, os.WriteFile(c.Users, []byte(users.String()), 0o644))
	counted := map[int]float64{}
	for _, n := range []int{1, 3} {
		o := Options{Sources: sources(set), Features: front, Out: filepath.Join(t.TempDir(), "run"), keys: injected(3)}
		results, errs := ranked(context.Background(), local.New(n, local.Options{}), func(int) (Config, Options) { return c, o })
		check(t, errors.Join(errs...))
		if results[0].Counted == nil {
			t.Fatal("no count")
		}
		counted[n] = *results[0].Counted
	}
	noise, err := stream.New(stream.ChaCha20, injected(3).Noise)
	check(t, err)
	want, err := engine.Count((1200-172)/2, accountant.Gaussian{NoiseMultiplier: 30}, noise, 1)
	if check(t, err); counted[1] != counted[3] {
		t.Errorf("one rank counted %v, three counted %v; %v", counted[1], counted[3], want)
	}
}

// Two training sets behind one count and one transcript of releases leave the same bytes.
func TestCountTranscript(t *testing.T) {
	shown, _ := dataReplayed(t, counting(), func(i int, damaged float64) { makeArrays(t, uint64(i), 1000-300*i, 3*damaged) }, func(*Result) {}, func(o *Options) { o.counted = ptr(970.0) })
	if !strings.Contains(shown, "privgrad data verify npz:a.npz --class-names no,yes --image-size 1x8x8") {
		t.Errorf("what was shown:\n%s", shown)
	}
}

// The noise of a count is the normal one that was asked for. With given keys the test is the same each time; with others
// it would reject truth with a probability below 1e-9 (6.1 deviations of mean and variance).
func TestCountNoise(t *testing.T) {
	const n, records, deviation = 4000, 700, 50.0
	sum, squares := 0.0, 0.0
	for i := range n {
		s, err := stream.New(stream.ChaCha20, plan.Keys(*injected(uint64(1000 + i))).Noise)
		check(t, err)
		counted, err := engine.Count(records, accountant.Gaussian{NoiseMultiplier: deviation}, s, 1)
		check(t, err)
		sum, squares = sum+counted-records, squares+(counted-records)*(counted-records)
	}
	if mean := sum / n; math.Abs(mean) > 6.1*deviation/math.Sqrt(n) {
		t.Errorf("the noise has mean %v", mean)
	}
	if variance := squares / n / (deviation * deviation); math.Abs(variance-1) > 6.1*math.Sqrt(2./n) {
		t.Errorf("the noise has %v of the variance that was priced", variance)
	}
}

// Of very many public records the count costs less than the ledger can tell from nothing. It counts as something all the
// same, so that no process makes it again.
func TestCountOfVeryMany(t *testing.T) {
	t.Chdir(t.TempDir())
	makeArrays(t, 1, 100, 0)
	c := counting()
	c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.Accountant = "dp-blsgd-ac", nil, ptr(3.0), "rdp"
	c.PublicN, c.Delta, c.Batch = ptr(8_000_000_000), ptr(1e-12), ptr(60.0)
	_, o := stopAt(t, Options{Out: "run", counted: ptr(7.9e9)}, 0, false) // as the count is about to be drawn
	ends(context.Background(), t, c, o, errCrash)
	if s, _, err := ledger.Read(filepath.Join("run", rundir.Ledger)); err != nil || s.Reserved < 1 {
		t.Fatalf("the ledger charges %d for the count: %v", s.Reserved, err)
	}
	r, err := Run(context.Background(), c, Options{Out: "run", Resume: ResumeRun})
	if check(t, err); r.Counted != nil {
		t.Errorf("a count that may have been drawn was made again: %v", *r.Counted)
	}
}
