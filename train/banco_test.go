package train

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/dpoptim/local"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/stream"
)

// reporting is a run of local reports on the made set, in which 24 of 400 places report.
func reporting() Config {
	c := small()
	c.Optimizer, c.Batch, c.LR, c.NoiseMultiplier, c.Epsilon, c.Steps = local.Banco, nil, nil, nil, ptr(4.0), ptr(24)
	c.Classes, c.Positive = nil, "a"
	return c
}

// Banco keeps what the suite of optimizers asks of private runs, with either noise.
func TestBanco(t *testing.T) {
	c := reporting()
	for _, noise := range local.Noises() {
		c.Local.Noise = noise
		t.Run(noise, func(t *testing.T) {
			t.Run("bad records", func(t *testing.T) { testBadReports(t, c) })
			t.Run("places", func(t *testing.T) { testPlaces(t, c) })
			t.Run("crash", func(t *testing.T) { testCrashStaysCharged(t, c) })
			t.Run("missing records", func(t *testing.T) {
				r, params := trainedOn(t, c, made(1, 0), Options{})
				if r.Steps != 24 || *r.Epsilon != 4 || rms(params) == 0 {
					t.Errorf("without records %d steps at ε %v lead to %v", r.Steps, *r.Epsilon, params)
				}
			})
		})
	}
}

// testPlaces: records past the public number never report, in any pass.
func testPlaces(t *testing.T, c Config) {
	c.Noise, c.Steps = dpoptim.Seeded, ptr(450)   // the second pass begins after 400
	flipped := func(from, to int) *datasets.Set { // of those records, the class and its opposite change places
		set := made(1, 443)
		for i := from; i < to; i++ {
			set.Train.Labels[i] = uint8(1) - min(set.Train.Labels[i], 1)
		}
		return set
	}
	_, want := trainedOn(t, c, made(1, 400), Options{})
	_, got := trainedOn(t, c, flipped(400, 443), Options{})
	_, changed := trainedOn(t, c, flipped(399, 400), Options{})
	if !slices.Equal(got, want) || slices.Equal(changed, want) {
		t.Error("records past the public number change the model, or the last one before it does not")
	}
}

// testBadReports: a record that does not count reports noise alone, as one that is missing does.
func testBadReports(t *testing.T, c Config) {
	c.Noise, c.Steps = dpoptim.Seeded, ptr(190)
	bad := made(1, 160)
	for i := 150; i < 160; i++ {
		bad.Train.Labels[i] = 200
	}
	_, missing := trainedOn(t, c, made(1, 150), Options{})
	_, got := trainedOn(t, c, bad, Options{})
	_, other := trainedOn(t, c, made(1, 160), Options{})
	if !slices.Equal(got, missing) || slices.Equal(got, other) {
		t.Error("records of classes that do not exist do not count as missing ones, or good ones do")
	}
}

func TestLongBancoResumes(t *testing.T) { testSeededResume(t, reporting()) }

// noted is a method whose reports are noted, or replaced by what was noted before.
type noted struct {
	dpoptim.Method
	reports [][]float64
	replay  bool
	next    int
	slots   []int
}

func (n *noted) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	return n.Method.Open(notedEngine{e, n})
}

type notedEngine struct {
	dpoptim.Engine
	noted *noted
}

func (e notedEngine) Report(point []float64) ([]float64, error) {
	n := e.noted
	report, err := e.Engine.Report(point)
	switch {
	case err != nil:
		return nil, err
	case n.replay:
		report = n.reports[n.next]
		n.next++
	default:
		n.reports, n.slots = append(n.reports, slices.Clone(report)), append(n.slots, e.Slot())
	}
	return report, nil
}

// Two training sets that differ in every record, in their number and in how many are malformed, leave the same bytes
// and show the same behind the same reports. The second one is larger than it may be.
func TestBancoTranscript(t *testing.T) {
	c := reporting()
	c.Steps = ptr(50)
	n := &noted{Method: local.New(local.Settings{})}
	var shown [2]string
	var wrote [2]map[string]string
	first, second := made(1, 160), made(2, 443)
	for i := range 31 {
		second.Train.Labels[i] = 200
	}
	for i, set := range []map[string]Source{sources(first), sources(second)} {
		t.Chdir(t.TempDir())
		n.replay = i == 1
		s := &screen{}
		r := finished(t, c, reported(&c, Options{Sources: set, Out: "run", Method: n, RunID: "00112233445566778899aabbccddeeff", block: 7, Progress: s}))
		if !r.Guarantee || r.PrivacyUnit != "one record, local" || r.ModelIs == nil || *r.ModelIs != "the average of the iterates" || *r.Delta != 0 {
			t.Errorf("the result says %+v", r)
		}
		shown[i], wrote[i] = s.String(), files(t, "run")
		maps.Copy(wrote[i], used(t, "run", first.Test.Features))
	}
	if n.next != 50 || len(n.reports) != 50 {
		t.Fatalf("%d reports were noted, %d replayed", len(n.reports), n.next)
	}
	if shown[0] != shown[1] {
		t.Errorf("what was shown depends on the training set:\n%s\n%s", shown[0], shown[1])
	}
	sameFiles(t, wrote[0], wrote[1])
}

// The model is the server's average, of reports on the logistic gradients of records at their public places, features
// at a norm of 1, under the run's own noise; a place without a record, and one with a record that does not count,
// report zero.
func TestBancoFollowsTheAlgorithm(t *testing.T) {
	for _, noise := range local.Noises() {
		c := reporting()
		c.Noise, c.Local.Noise, c.Steps = dpoptim.Seeded, noise, ptr(410)
		const passes = 2 // of 400 places, the last one in part
		set := made(1, 300)
		r, got := trainedOn(t, c, set, Options{})
		p := resolved(t, c, Options{Sources: sources(set)})
		if *r.EpsilonSoFar != 4 || *r.Epsilon != 4 {
			t.Errorf("ε %v, so far %v", *r.Epsilon, *r.EpsilonSoFar)
		}
		const bound = math.Sqrt2 // of features of norm 1 and an intercept
		params, err := banco.New(4./passes*(1-0x1p-50), p.Facts.Clip, 65)
		check(t, err)
		if noise == local.Hemisphere {
			params = params.OnSphere()
		}
		if math.Abs(params.Bound()-bound) > 1e-12 {
			t.Fatalf("gradients up to %v", params.Bound())
		}
		s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(c.Seed, "noise"))
		check(t, err)
		m, err := mechanism.NewLocal(accountant.Pure{Epsilon: params.Epsilon() / 2}, params.Bound(), params.Radius(), 65, s, 0)
		check(t, err)
		server, im := banco.NewServer(params), p.Set.Train
		for slot := range 410 {
			g, place := make([]float64, 65), slot%400
			if place < im.Len() && im.Labels[place] < 2 {
				square := 0.0
				for j, b := range im.Features[64*place:][:64] {
					g[j] = float64(float32(float64(b)/127.5 - 1))
					square += g[j] * g[j]
				}
				y := 2*float64(im.Labels[place]) - 1
				w, z := server.Point(), 0.0
				for j := range 64 {
					g[j] /= math.Sqrt(square)
					z += g[j] * w[j]
				}
				g[64] = 1
				slope := -y / (1 + math.Exp(y*(z+w[64])))
				for j := range g {
					g[j] *= slope
				}
			}
			check(t, m.Report(g, 3*uint64(slot)+1))
			check(t, server.Update(g))
		}
		for j, v := range server.Average() {
			// A rounding of a gradient may move a report by a step of its grid.
			if math.Abs(float64(got[j])-v) > 1e-5*max(1, math.Abs(v)) {
				t.Errorf("%s: parameter %d is %v, want %v", noise, j, got[j], v)
			}
		}
	}
}

// Where nothing is said, reports have the noise with the smaller bound: Gamma noise in few dimensions and for a large ε.
func TestBancoNoise(t *testing.T) {
	for epsilon, sphere := range map[float64]bool{1: true, 4: true, 100: false} {
		c := reporting()
		c.Steps, c.Epsilon = ptr(400), &epsilon
		p := resolved(t, c, Options{Sources: sources(made(1, 200))})
		r, err := p.Declaration.Asks[0].Release(0)
		if check(t, err); (r.Radius > 0) != sphere {
			t.Errorf("at ε = %v the sphere's radius is %v", epsilon, r.Radius)
		}
	}
}

// A record costs ε a pass over the number of passes: reports of different records do not add up, those of two passes do;
// the price of what is released is the run's ε.
func TestBancoPrice(t *testing.T) {
	for steps, passes := range map[int]int{24: 1, 400: 1, 401: 2, 1200: 3} {
		c := reporting()
		c.Steps = ptr(steps)
		p := resolved(t, c, Options{Sources: sources(made(1, 200))})
		events, err := p.Events()
		check(t, err)
		if len(events) != 1 || events[0].Count != passes {
			t.Fatalf("%d steps are the events %v", steps, events)
		}
		pure := 2 * float64(passes) * events[0].Mechanisms[0].(accountant.Pure).Epsilon
		if math.Abs(pure-4) > 1e-12 || pure > 4 || *p.Epsilon != 4 {
			t.Errorf("%d steps cost ε %v, the run says %v", steps, pure, *p.Epsilon)
		}
		for slots, want := range map[int]float64{0: 0, 1: 4 / float64(passes), min(steps, 400): 4 / float64(passes), steps: 4} {
			if got := p.EpsilonAt(slots); math.Abs(*got-want) > 1e-12 {
				t.Errorf("%d of %d steps cost ε %v, want %v", slots, steps, *got, want)
			}
		}
		if p.Block < 100 {
			t.Errorf("the ledger reserves %d places at a time", p.Block)
		}
	}
	// Without --steps it is one pass, and --epochs are so many.
	for epochs, want := range map[float64]int{0: 400, 1: 400, 2: 800} {
		c := reporting()
		if c.Steps = nil; epochs > 0 {
			c.Epochs = &epochs
		}
		p, err := resolve(c, Options{Sources: sources(made(1, 200))})
		if check(t, err); p.Steps != want {
			t.Errorf("%v epochs are %d reports", epochs, p.Steps)
		}
	}
}

// A process that dies, at any report, leaves every place of its block charged: no place reports twice in a pass, though
// the noise is fresh. Ctrl-C gives back what was not asked.
func TestBancoNeverAsksTwice(t *testing.T) {
	c := reporting()
	n := &noted{Method: local.New(local.Settings{})}
	o := Options{Sources: sources(made(1, 200)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, Method: n, block: 5}
	for _, stop := range []struct {
		slot   int
		cancel bool
	}{{0, false}, {7, false}, {12, true}, {15, false}} {
		ctx, o := stopAt(t, o, stop.slot, stop.cancel)
		if _, err := Run(ctx, c, o); !errors.Is(err, errCrash) && !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
	}
	r := finished(t, c, o)
	if !slices.IsSorted(n.slots) || len(slices.Compact(slices.Clone(n.slots))) != len(n.slots) || n.slots[len(n.slots)-1] != 23 {
		t.Errorf("the places %v report", n.slots)
	}
	if r.Steps >= 24 || r.Steps < 8 || *r.Committed != 24 {
		t.Errorf("%d of %d reports went into the model", r.Steps, *r.Committed)
	}
	s := charges(t, o.Out)
	if s.Reserved != 24 {
		t.Errorf("%d slots are charged", s.Reserved)
	}
	if _, err := os.Stat(filepath.Join(o.Out, rundir.Model)); err != nil {
		t.Error(err)
	}
}

// asksTwice asks for two reports in a step.
type asksTwice struct{ dpoptim.Engine }

func (e asksTwice) Report(point []float64) ([]float64, error) {
	if _, err := e.Engine.Report(point); err != nil {
		return nil, err
	}
	return e.Engine.Report(point)
}

type twice struct{ dpoptim.Method }

func (m twice) Open(e dpoptim.Engine) (dpoptim.Steps, error) { return m.Method.Open(asksTwice{e}) }

// A method gets one report of a place.
func TestBancoReportsOnce(t *testing.T) {
	o := Options{Sources: sources(made(1, 200)), Out: filepath.Join(t.TempDir(), "run"), Method: twice{local.New(local.Settings{})}}
	if _, err := Run(context.Background(), reporting(), o); err == nil || !strings.Contains(err.Error(), "more often than it has declared") {
		t.Errorf("two reports of a place: %v", err)
	}
}

// A record whose line of a table is no record any more leaves all others at their places: only its own report changes.
func TestBancoPlaces(t *testing.T) {
	dir := t.TempDir()
	schema := "header: optional\ncomment: \"#\"\ncolumns: [{name: a, bounds: [0, 1]}, {name: y}]\nlabel: {column: y, classes: [y, n]}\n"
	check(t, os.WriteFile(filepath.Join(dir, "t.csv.schema.yaml"), []byte(schema), 0o600))
	trained := func(line string) []float32 {
		check(t, os.WriteFile(filepath.Join(dir, "t.csv"), []byte("0.5,y\n"+line+"\n1,n\n0.25,y\n0.75,n\n"), 0o600))
		c := reporting()
		c.Data, c.Positive, c.Steps, c.Noise = "csv:"+filepath.Join(dir, "t.csv"), "", ptr(5), dpoptim.Seeded
		c.PublicN, c.Epsilon, c.Delta = ptr(5), ptr(400.), nil
		_, params := trainedOn(t, c, nil, Options{})
		return params
	}
	want := trained("malformed")
	if slices.Equal(want, trained("1,y")) {
		t.Fatal("a record makes no difference")
	}
	for _, line := range []string{"", "# 1,y", "a,y"} {
		if got := trained(line); !slices.Equal(got, want) {
			t.Errorf("with the line %q the model is %v, and with a malformed one %v", line, got, want)
		}
	}
}

func TestBancoRefuses(t *testing.T) {
	images := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(images, "train"), 0o700))
	for want, change := range map[string]func(*Config){
		"optimizer banco is for linear models":               func(c *Config) { c.Model = "svm" },
		"optimizer banco has no learning rate":               func(c *Config) { c.LR = ptr(0.1) },
		"average of its iterates already":                    func(c *Config) { c.Average = 0.9 },
		"l2 0.1: the steps":                                  func(c *Config) { c.L2 = 0.1 },
		"takes one report after the other":                   func(c *Config) { c.Batch = ptr(10.0) },
		"noise multiplier 1: the noise of optimizer banco":   func(c *Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.0) },
		"train-loss-noise 2: records that report":            func(c *Config) { c.TrainLossNoise = ptr(2.0) },
		"noise exact: optimizer banco":                       func(c *Config) { c.Noise = dpoptim.Exact },
		"clipping adaptive: the gradients":                   func(c *Config) { c.Clipping = "adaptive" },
		"optimizer banco makes whole passes":                 func(c *Config) { c.Steps, c.Epochs = nil, ptr(1.5) },
		"optimizer banco has records report at their places": func(c *Config) { c.Positive, c.Classes = "", []int{0, 1} },
		"npz:PATH instead of dir:PATH": func(c *Config) {
			c.Data, c.ClassNames, c.ImageSize, c.Positive, c.PublicN = "dir:"+images, []string{"a", "b"}, "8x8", "", ptr(9)
		},
		"epsilon 1e-150 of a report":                   func(c *Config) { c.Epsilon = ptr(1e-150) },
		"clip norm 2: optimizer banco":                 func(c *Config) { c.Clip = 2 },
		"neighbouring add-remove: local privacy":       func(c *Config) { c.Relate(accountant.AddRemove) },
		"local_noise gamma: optimizer dp-sgd does not": func(c *Config) { c.Optimizer, c.Local.Noise = "dp-sgd", local.Gamma },
		"radius 1: optimizer banco does not read it":   func(c *Config) { c.Radius = ptr(1.0) },
		"init nowhere: optimizer banco begins at zero": func(c *Config) { c.Init = "nowhere" },
	} {
		c := reporting()
		change(&c)
		refusedBefore(t, c, Options{Sources: sources(made(1, 400))}, want)
	}
}
