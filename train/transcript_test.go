package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"
	"testing/cryptotest"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/trained"
)

// transcript is a device that notes every released vector or, once it holds
// some, puts the noted ones in the place of its own: whatever a run does from
// then on can depend on private data only behind the mechanisms' back.
type transcript struct {
	device.Device
	released  [][]float32
	found     []int // by searches, whose indices are released too
	replay    bool
	next      int
	nextFind  int
	wrote     [][]float32 // into parameters by the host: where a run begins, and what fits and choices released
	nextWrite int
}

// complete reports whether something was released, and all of it replayed.
func (d *transcript) complete() bool {
	last := len(d.wrote) - 1
	released := d.next > 0 || last > 0 && !slices.Equal(d.wrote[0], d.wrote[last])
	return released && d.next == len(d.released) && d.nextFind == len(d.found) && d.nextWrite == len(d.wrote)
}

func (d *transcript) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return &transcriptNet{Net: n, d: d, sizes: map[device.Vector]int{}, params: s.Program.NumParams()}, err
}

type transcriptNet struct {
	device.Net
	d      *transcript
	sizes  map[device.Vector]int
	params int
}

func (n *transcriptNet) NewVector(width int) (device.Vector, error) {
	v, err := n.Net.NewVector(width)
	n.sizes[v] = width * n.params
	return v, err
}

func (n *transcriptNet) NewScalars(size int) (device.Vector, error) {
	v, err := n.Net.NewScalars(size)
	n.sizes[v] = size
	return v, err
}

func (n *transcriptNet) Write(v device.Vector, src []float32) error {
	if d := n.d; v != n.Params() {
		return n.Net.Write(v, src)
	} else if d.replay {
		src = d.wrote[d.nextWrite]
		d.nextWrite++
	} else {
		d.wrote = append(d.wrote, slices.Clone(src))
	}
	return n.Net.Write(v, src)
}

// Record cuts a step after its releases. Neighbouring ones stay together, as
// they share a noise position.
func (n *transcriptNet) Record(body func(device.Queue)) (device.Step, error) {
	q := &transcriptQueue{}
	body(q)
	s := &transcriptStep{net: n}
	for _, part := range q.parts {
		inner, err := n.Net.Record(func(q device.Queue) {
			for _, f := range part.work {
				f(q)
			}
		})
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, inner)
		s.releases = append(s.releases, part.releases)
	}
	return s, nil
}

type transcriptPart struct {
	work     []func(device.Queue)
	releases []device.Vector
}

type transcriptQueue struct{ parts []transcriptPart }

func (q *transcriptQueue) add(f func(device.Queue), released ...device.Vector) {
	if len(q.parts) == 0 || len(q.parts[len(q.parts)-1].releases) > 0 && len(released) == 0 {
		q.parts = append(q.parts, transcriptPart{})
	}
	last := &q.parts[len(q.parts)-1]
	last.work = append(last.work, f)
	last.releases = append(last.releases, released...)
}

func (q *transcriptQueue) ClippedSum(dst device.Sum, from device.Data) {
	q.add(func(q device.Queue) { q.ClippedSum(dst, from) })
}
func (q *transcriptQueue) CountedSum(dst, count device.Sum, from device.Data) {
	q.add(func(q device.Queue) { q.CountedSum(dst, count, from) })
}
func (q *transcriptQueue) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	q.add(func(q device.Queue) { q.Losses(dst, from, ask) })
}
func (q *transcriptQueue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	q.add(func(q device.Queue) { q.Release(dst, src, noise) }, dst)
}
func (q *transcriptQueue) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	q.add(func(q device.Queue) { q.Update(r, p, g, state...) })
}
func (q *transcriptQueue) Project(l device.LSTM, p, g, weights, state device.Vector) {
	q.add(func(q device.Queue) { q.Project(l, p, g, weights, state) })
}

// Combine stays with the release before it, as the release after it does.
func (q *transcriptQueue) Combine(s device.Sum, on device.Hidden, of device.Totals) {
	f := func(q device.Queue) { q.(device.Combiner).Combine(s, on, of) }
	if len(q.parts) == 0 {
		q.add(f)
		return
	}
	last := &q.parts[len(q.parts)-1]
	last.work = append(last.work, f)
}
func (q *transcriptQueue) CombinedNorm(dst, src device.Sum, on device.Hidden, of device.Totals) {
	q.add(func(q device.Queue) { q.(device.Combiner).CombinedNorm(dst, src, on, of) })
}
func (q *transcriptQueue) Norm(dst, src device.Sum) {
	q.add(func(q device.Queue) { q.Norm(dst, src) })
}
func (q *transcriptQueue) Axpy(y device.Vector, a device.Slot, x device.Vector) {
	q.add(func(q device.Queue) { q.Axpy(y, a, x) })
}
func (q *transcriptQueue) Dot(x, y device.Vector) {
	q.add(func(q device.Queue) { q.Dot(x, y) })
}
func (q *transcriptQueue) AboveThreshold(src device.Sum, s device.Search) {
	q.add(func(q device.Queue) { q.AboveThreshold(src, s) })
}
func (q *transcriptQueue) ArgMin(src device.Sum, m device.Minimum) {
	q.add(func(q device.Queue) { q.ArgMin(src, m) })
}
func (q *transcriptQueue) Score(at device.Vector, public device.Data) {
	q.add(func(q device.Queue) { q.Score(at, public) })
}

type transcriptStep struct {
	net      *transcriptNet
	parts    []device.Step
	releases [][]device.Vector
}

func (s *transcriptStep) Run(in *device.Inputs) error {
	if s.net.d.replay {
		// No search of these records may end one of the others'.
		other := *in
		for i := range other.Biases {
			other.Biases[i] = math.Inf(1)
		}
		in = &other
	}
	for i, p := range s.parts {
		if err := p.Run(in); err != nil {
			return err
		}
		for _, v := range s.releases[i] {
			if err := s.net.exchange(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *transcriptNet) exchange(v device.Vector) error {
	if n.d.replay {
		x := n.d.released[n.d.next]
		n.d.next++
		return n.Net.Write(v, x)
	}
	x := make([]float32, n.sizes[v])
	n.d.released = append(n.d.released, x)
	if err := n.Net.Read(v, x); err != nil {
		return err
	}
	return n.Net.Write(v, x) // what is noted, also where a device computes in double precision
}

func (s *transcriptStep) Wait() (device.Outputs, error) {
	var all device.Outputs
	for _, p := range s.parts {
		out, err := p.Wait()
		if err != nil {
			return all, err
		}
		all.Scores = append(all.Scores, out.Scores...)
		all.Dots = append(all.Dots, out.Dots...)
		for _, i := range out.Found {
			if d := s.net.d; d.replay {
				i = d.found[d.nextFind]
				d.nextFind++
			} else {
				d.found = append(d.found, i)
			}
			all.Found = append(all.Found, i)
		}
	}
	return all, nil
}

// screen notes what a run shows while it goes.
type screen struct{ bytes.Buffer }

func (s *screen) Features(work string, percent int) { fmt.Fprintln(s, work, percent) }
func (s *screen) Start(total int)                   { fmt.Fprintln(s, "start", total) }
func (s *screen) Step(done int, epsilon, accuracy *float64) {
	show := func(x *float64) float64 {
		if x == nil {
			return math.NaN()
		}
		return *x
	}
	fmt.Fprintln(s, done, show(epsilon), show(accuracy))
}
func (s *screen) Finish() { fmt.Fprintln(s, "finish") }

// log is for all that is logged, but for the time.
func (s *screen) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// Two training sets that differ in every record, in their number and in how
// many are malformed, replayed against one transcript of mechanism outputs,
// must leave the same bytes everywhere: what a run writes and shows is a
// function of public values and releases. These are the settings; TestOptimizers does
// so with every optimizer.
func TestTranscript(t *testing.T) {
	configs := map[string]func(*Config){
		"other classes":    func(c *Config) { c.Classes = []int{2, 3} },
		"epsilon":          func(c *Config) { c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0) },
		"noisy loss":       func(c *Config) { c.TrainLossNoise = ptr(4.0) },
		"replace-one":      func(c *Config) { c.Neighbouring = "replace-one" },
		"physical batches": func(c *Config) { c.MaxPhysicalBatch = 7 },
		"materialise":      func(c *Config) { c.Strategy = "materialise" },
		"per-layer":        func(c *Config) { c.Clipping = "per-layer" },
		"automatic":        func(c *Config) { c.Clipping = "automatic" },
		"adaptive":         func(c *Config) { c.Clipping = "adaptive" },
		"adaptive, all on": func(c *Config) {
			c.Clipping, c.TrainLossNoise, c.PrivateDiagnostics, c.MaxPhysicalBatch = "adaptive", ptr(4.0), true, 7
			c.Average, c.LRSchedule, c.Warmup = 0.9, "cosine", 3
		},
		"features": func(c *Config) { c.Features, c.Whiten, c.Mirror, c.Deskew = "scatter", "pink", true, true },
		"norm":     func(c *Config) { c.Features, c.Whiten, c.FeatureNorm = "scatter", "none", ptr(1.0) },
		"average":  func(c *Config) { c.Average = 0.9 },
		"users": func(c *Config) {
			c.Users, c.RecordsPerUser, c.PublicN, c.Delta = usersFile(t, 200, 17), 3, ptr(60), ptr(1e-4)
			c.PrivateDiagnostics = true
		},
		"canaries":    func(c *Config) { c.Canaries = 20 },
		"schedule":    func(c *Config) { c.LRSchedule, c.Warmup = "cosine", 3 },
		"diagnostics": func(c *Config) { c.PrivateDiagnostics = true },
		"exact":       func(c *Config) { c.Noise = dpoptim.Exact; c.TrainLossNoise = ptr(4.0) },
	}
	for name, change := range configs {
		t.Run(name, func(t *testing.T) {
			c := small()
			change(&c)
			d, err := cpu.Open(1)
			check(t, err)
			replayed(t, c, d)
		})
	}
}

// replayed runs a configuration on both training sets, the second against the
// first one's transcript.
func replayed(t *testing.T, c Config, d device.Device) {
	t.Helper()
	replayedBy(t, c, []device.Device{d}, func(o Options, devices []*transcript) (*Result, error) {
		o.Device = devices[0]
		return Run(context.Background(), c, o)
	})
}

// replayedByRanks is replayed with several processes, which have a device each. The two training sets give every rank another
// number of records.
func replayedByRanks(t *testing.T, c Config, ranks int) {
	t.Helper()
	var all []device.Device
	for range ranks {
		d, err := cpu.Open(1)
		check(t, err)
		all = append(all, d)
	}
	replayedBy(t, c, all, func(o Options, devices []*transcript) (*Result, error) {
		o.keys = injected(11) // a drawn key makes one stream in a process, and these ranks are in one
		results, errs := ranked(context.Background(), local.New(ranks, local.Options{}), func(rank int) (Config, Options) {
			o := o
			o.Device = devices[rank]
			return c, o
		})
		return results[0], errors.Join(errs...)
	})
}

func replayedBy(t *testing.T, c Config, devices []device.Device, run func(Options, []*transcript) (*Result, error)) {
	t.Helper()
	// The class of a label byte of 200 does not exist: a bad record.
	first, second := made(1, 160), made(2, 143)
	for i := range 31 {
		second.Train.Labels[i] = 200
	}
	var records []*transcript
	for _, d := range devices {
		records = append(records, &transcript{Device: d})
	}
	// Reports are pictures for the most part, which take long, and are made alike beside any device.
	attach, attached := func(o Options) Options { return reported(&c, o) }, reports
	if devices[0].Info().Name == reference.Open().Info().Name {
		attach, attached = func(o Options) Options { return o }, nil
	}
	var shown [2]string
	var wrote [2]map[string]string
	for i, set := range []map[string]Source{sources(first), sources(second)} {
		t.Chdir(t.TempDir())
		for _, record := range records {
			record.replay = i == 1
		}
		s := &screen{}
		if c.Optimizer == "rrpsgd" { // by which the number of rounds is the same, and no key
			cryptotest.SetGlobalRandom(t, sameRounds[i])
		}
		r, err := run(attach(Options{
			Sources: set, Out: "run", RunID: "00112233445566778899aabbccddeeff", block: 7,
			Progress: s, Log: s.log(),
		}), records)
		check(t, err)
		if r.Guarantee != (len(devices) == 1) { // given keys guarantee nothing
			t.Errorf("guarantee is %v, because %v", r.Guarantee, r.NoGuarantee)
		}
		shown[i], wrote[i] = s.String(), files(t, "run")
		maps.Copy(wrote[i], used(t, "run", first.Test.Features))
	}
	for _, record := range records {
		if !record.complete() {
			t.Fatalf("%d releases were recorded and %d written, %d and %d replayed", len(record.released), len(record.wrote), record.next, record.nextWrite)
		}
	}
	if shown[0] != shown[1] {
		t.Errorf("what was shown depends on the training set:\n%s\n%s", shown[0], shown[1])
	}
	sameFiles(t, wrote[0], wrote[1])
	want := append([]string{rundir.Config, rundir.Ledger, rundir.Metrics, rundir.Result, rundir.Model, stateFile}, attached...)
	if c.Average != 0 {
		want = append(want, rundir.Average)
	}
	if c.Features != "" {
		want = append(want, rundir.Features)
	}
	for _, name := range want {
		if _, ok := wrote[0][name]; !ok {
			t.Errorf("the run wrote no %s", name)
		}
	}
}

// What several processes write and show follows from releases, too: nothing tells how many records a rank has, or what is
// in them. Searches are among the questions that they answer together.
func TestTranscriptOfRanks(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"sums":     func(*Config) {},
		"exact":    func(c *Config) { c.Noise = dpoptim.Exact },
		"adaptive": func(c *Config) { c.Clipping, c.TrainLossNoise = "adaptive", ptr(4.0) },
		"searches": searchedBy("dp-blsgd", 0.5, Search{Budget: budgetFixed, Every: ptr(2)}),
		"features": func(c *Config) { c.Features, c.Whiten, c.FeatureNorm = "scatter", "none", ptr(1.0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			change(&c)
			replayedByRanks(t, c, 2)
		})
	}
}

// AttachReport is report.Attach, which imports this package.
var AttachReport func(Config, *Options)

// reports are the files that it adds.
var reports = []string{"report.html", "model-card.md", "accuracy.png", "events.out.tfevents.0.privgrad"}

// reported adds all that a run can report to its options.
func reported(c *Config, o Options) Options {
	c.TensorBoard = true
	AttachReport(*c, &o)
	return o
}

// used is what the commands that use a run's model make of the directory and of public images.
func used(t *testing.T, dir string, images []uint8) map[string]string {
	t.Helper()
	m, err := trained.Open(dir, trained.Options{Threads: 1})
	check(t, err)
	predictions, err := m.Predict(features.Images{Bytes: images})
	check(t, err)
	var model bytes.Buffer
	check(t, m.ExportONNX(&model))
	return map[string]string{"predictions": fmt.Sprintf("%+v", predictions), "model.onnx": model.String()}
}

// The transcript test must be able to fail: with the data declared public the
// training loss is shown, and the files differ.
func TestTranscriptSeesALeak(t *testing.T) {
	d, err := cpu.Open(1)
	check(t, err)
	record := &transcript{Device: d}
	c := small()
	c.DataIsPublic = true
	var wrote [2]map[string]string
	for i, seed := range []uint64{1, 2} {
		t.Chdir(t.TempDir())
		record.replay = i == 1
		r := finished(t, c, Options{Sources: sources(made(seed, 400)), Out: "run", Device: record, RunID: "00112233445566778899aabbccddeeff"})
		if r.Guarantee || !slices.Contains(r.NoGuarantee, "un-noised training statistics shown") {
			t.Errorf("guarantee is %v because %v", r.Guarantee, r.NoGuarantee)
		}
		wrote[i] = files(t, "run")
	}
	if wrote[0][rundir.Model] != wrote[1][rundir.Model] {
		t.Error("the model depends on the training set behind the transcript")
	}
	if wrote[0][rundir.Metrics] == wrote[1][rundir.Metrics] {
		t.Error("the test does not see an un-noised training loss")
	}
}
