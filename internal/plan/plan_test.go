package plan

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
)

// The noise of a run is its multiplier times the clip norm, and as much more as
// rounding can stretch that.
func TestNoiseCoversRounding(t *testing.T) {
	c := small()
	c.Clip, c.Epsilon, c.NoiseMultiplier = 0.5, nil, ptr(2.0)
	p, err := Resolve(c, Options{Sources: sources(made(1, 40))})
	check(t, err)
	if p.Capacity < mostRows(p.ExpectedBatch) {
		t.Errorf("a run takes %d records, a batch may have %d", p.Capacity, mostRows(p.ExpectedBatch))
	}
	testCovers(t, p, mostRows(p.ExpectedBatch))
}

// Equal lines of a table go to one side together: all of its records may be there to train on,
// whatever share of them is held out.
func TestNoiseCoversTheWholeTable(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "test_share: 0.9\nsplit_key: k\n")
	for _, batch := range []float64{2, 200} {
		c := tableConfig()
		c.Clip, c.NoiseMultiplier, c.Batch, c.PublicN = 0.5, ptr(2.0), ptr(batch), ptr(2009)
		p, err := Resolve(c, Options{})
		check(t, err)
		if p.PublicN != 200 {
			t.Fatalf("%d records are said to train", p.PublicN)
		}
		testCovers(t, p, mostRows(p.SamplingRate*2009))
	}
}

// testCovers checks that the noise of multiplier 2 and clip norm ½ covers the rounding of so many rows.
func testCovers(t *testing.T, p *Plan, rows int) {
	t.Helper()
	host, err := devices.Open("cpu", 1)
	check(t, err)
	d := &watched{Device: host}
	e := opened(t, p, d)
	defer e.Close()
	_, err = e.Steps.Step()
	check(t, err)
	rounding := d.net.Rounding(rows)
	if want := 2 * 0.5 * (1 + rounding); !(rounding > 1e-5) || !(float64(d.deviation) >= want) {
		t.Errorf("the noise has the deviation %v, want %v", d.deviation, want)
	}
}

// opened is a plan's engine on a device, to draw noise from a seed and no records.
func opened(t *testing.T, p *Plan, d device.Device) *engine.Engine {
	t.Helper()
	data, err := p.Reader().Load(d, p.Set.Train)
	check(t, err)
	t.Cleanup(func() { data.Close() })
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "test"))
	check(t, err)
	e, err := p.Engine(d, tables.Records{Data: data}, noise, nil, &supply{})
	check(t, err)
	return e
}

// supply has everything admitted, of empty batches.
type supply struct{ draws uint64 }

func (*supply) Slot() int   { return 0 }
func (*supply) Update() int { return 1 }
func (s *supply) Batch(dpoptim.Question, bool, []int32) ([]int32, uint64) {
	s.draws++
	return nil, s.draws
}
func (*supply) Admit(...accountant.Mechanism) error { return nil }
func (*supply) Left() float64                       { return 1 }
func (*supply) Stopped() error                      { return nil }

// A net has the precision that was asked for. A run in another one is another run, one from before there were any is in float32.
func TestPrecisionReachesTheNet(t *testing.T) {
	prints := map[string]string{}
	for _, precision := range device.Precisions() {
		c := small()
		c.Precision, c.Device = precision, "reference"
		p, err := Resolve(c, Options{Sources: sources(made(1, 40))})
		check(t, err)
		d := &watched{Device: reference.Open()}
		opened(t, p, d).Close()
		if got := d.options.Precision.String(); got != precision {
			t.Errorf("a net in %s was asked for, and %s made", precision, got)
		}
		print, err := c.Fingerprint()
		check(t, err)
		if other, ok := prints[print]; ok {
			t.Errorf("%s and %s are the same run", precision, other)
		}
		prints[print] = precision
	}
	c := small()
	c.Precision = ""
	if print, err := c.Fingerprint(); err != nil || prints[print] != "float32" {
		t.Errorf("a run from before there were precisions has another fingerprint (%v)", err)
	}
}

// A run with exact noise has its net sum gradients in integers, any other does not.
func TestExactReachesTheNet(t *testing.T) {
	for _, noise := range []string{dpoptim.Secure, dpoptim.Exact, dpoptim.Seeded} {
		c := small()
		c.Noise, c.TrainLossNoise, c.Device = noise, ptr(1.0), "reference"
		p, err := Resolve(c, Options{Sources: sources(made(1, 40))})
		check(t, err)
		d := &watched{Device: reference.Open()}
		opened(t, p, d).Close()
		if d.options.Exact != (noise == dpoptim.Exact) {
			t.Errorf("%s: the net sums exactly: %v", noise, d.options.Exact)
		}
	}
}

// watched keeps the net, what it was made with, and the deviation of the noise of its last release.
type watched struct {
	device.Device
	options   device.Options
	net       device.Net
	deviation float32
}

func (d *watched) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	d.options, d.net = o, &watchedNet{n, d}
	return d.net, err
}

type watchedNet struct {
	device.Net
	d *watched
}

func (n *watchedNet) Record(body func(device.Queue)) (device.Step, error) {
	s, err := n.Net.Record(body)
	return watchedStep{s, n.d}, err
}

type watchedStep struct {
	device.Step
	d *watched
}

func (s watchedStep) Run(in *device.Inputs) error {
	s.d.deviation = in.Scalars[device.NoiseStd]
	return s.Step.Run(in)
}

func TestMemory(t *testing.T) {
	resolve := func(change func(*config.Config)) *Plan {
		c := small()
		change(&c)
		set := made(1, 40)
		set.PublicN, set.PerClass = 200000, []int{50000, 50000, 50000, 50000}
		p, err := Resolve(c, Options{Sources: sources(set)})
		check(t, err)
		return p
	}
	p := resolve(func(*config.Config) {})
	if n, err := devices.ParseMemory(p.Config.Memory); err != nil || n != devices.DefaultMemory(device.Info{}) || n < 64<<20 {
		t.Errorf("memory is %q by default: %d, %v", p.Config.Memory, n, err)
	}
	if p.Schedule.Chunk < 1 || p.Schedule.Chunk > p.Capacity {
		t.Errorf("%d records go through the network together in runs of %d", p.Schedule.Chunk, p.Capacity)
	}
	// A larger batch takes no more memory once a chunk is large enough.
	large := func(c *config.Config) { c.Batch, c.SamplingRate = ptr(5000.0), nil }
	larger := func(c *config.Config) { c.Batch, c.SamplingRate = ptr(50000.0), nil }
	if a, b := resolve(large).Schedule.Chunk, resolve(larger).Schedule.Chunk; a != b || a > 512 {
		t.Errorf("chunks of %d and %d records", a, b)
	}
	p = resolve(func(c *config.Config) { large(c); c.Memory = "256KiB" })
	if need := int64(p.Schedule.Chunk) * p.Schedule.ExampleBytes(p.costs.Passes); need > 256<<10 {
		t.Errorf("a chunk takes %d bytes of 256 KiB", need)
	}
	p = resolve(func(c *config.Config) { large(c); c.MaxPhysicalBatch = 3 })
	if p.Schedule.Chunk != 3 {
		t.Errorf("chunks of %d records where 3 are allowed", p.Schedule.Chunk)
	}
}

func TestStrategyOfALayer(t *testing.T) {
	for strategy, want := range map[string]string{"auto,fc9=store": "choose one of ", "auto,fc9=fast": "choose one of store, ghost, gram, recompute"} {
		c := small()
		c.Strategy = strategy
		if _, err := Resolve(c, Options{Sources: sources(made(1, 40))}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("strategy %s: %v, want %s", strategy, err, want)
		}
	}
}

// A model of numbers is not said to tell classes apart.
func TestRegressionOfClasses(t *testing.T) {
	c := small()
	c.Model = "huber-regression"
	_, err := Resolve(c, Options{Sources: sources(made(1, 160))})
	if err == nil || !strings.Contains(err.Error(), "predicts a number") || strings.Contains(err.Error(), "classes apart") {
		t.Error(err)
	}
}
