package train

import (
	"os"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// The noise of a run is its multiplier times the clip norm, and as much more as
// rounding can stretch that.
func TestNoiseCoversRounding(t *testing.T) {
	c := small()
	c.Clip, c.Epsilon, c.NoiseMultiplier = 0.5, nil, ptr(2.0)
	p, err := Resolve(c, Options{Sources: sources(made(1, 40))})
	if err != nil {
		t.Fatal(err)
	}
	if p.Capacity < mostRows(p.ExpectedBatch) {
		t.Errorf("a run takes %d records, a batch may have %d", p.Capacity, mostRows(p.ExpectedBatch))
	}
	testCovers(t, p, mostRows(p.ExpectedBatch))
}

// Equal lines of a table go to one side together: all of its records may be there to train on,
// whatever share of them is held out.
func TestNoiseCoversTheWholeTable(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 50, 0)
	schema := "columns: [{name: a, bounds: [0, 1]}, {name: b, categories: [p, q, r]}, {name: c, bounds: [-1, 1]}]\n" +
		"test_share: 0.9\nsplit_key: k\n" + tableSchemas["two"]
	if err := os.WriteFile("t.csv.schema.yaml", []byte(schema), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, batch := range []float64{2, 200} {
		c := tableConfig()
		c.Clip, c.NoiseMultiplier, c.Batch, c.PublicN = 0.5, ptr(2.0), ptr(batch), ptr(2009)
		p, err := Resolve(c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p.PublicN != 200 {
			t.Fatalf("%d records are said to train", p.PublicN)
		}
		testCovers(t, p, mostRows(p.SamplingRate*2009))
	}
}

// testCovers checks that the noise of multiplier 2 and clip norm ½ covers the rounding of so many rows.
func testCovers(t *testing.T, p *Plan, rows int) {
	t.Helper()
	d, err := OpenDevice("cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	net, err := d.Compile(p.Schedule, device.Options{Capacity: p.Capacity})
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "test"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.mechanism(noise, net)
	if err != nil {
		t.Fatal(err)
	}
	var in device.Inputs
	m.Set(&in)
	rounding := net.Rounding(rows)
	if want := 2 * 0.5 * (1 + rounding); !(rounding > 1e-5) || !(float64(in.Scalars[device.NoiseStd]) >= want) {
		t.Errorf("the noise has the deviation %v, want %v", in.Scalars[device.NoiseStd], want)
	}
}

// A net has the precision that was asked for. A run in another one is another run, one from before there were any is in float32.
func TestPrecisionReachesTheNet(t *testing.T) {
	prints := map[string]string{}
	for _, precision := range device.Precisions() {
		c := small()
		c.Precision, c.Device = precision, "reference"
		p, err := Resolve(c, Options{Sources: sources(made(1, 40))})
		if err != nil {
			t.Fatal(err)
		}
		noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "test"))
		if err != nil {
			t.Fatal(err)
		}
		d := &watched{Device: reference.Open()}
		data, err := Load(d, p.Set.Train, p.Network.Program.Loss, p.Set.Classes)
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Engine(d, data, noise)
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		if got := d.options.Precision.String(); got != precision {
			t.Errorf("a net in %s was asked for, and %s made", precision, got)
		}
		print, err := c.fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := prints[print]; ok {
			t.Errorf("%s and %s are the same run", precision, other)
		}
		prints[print] = precision
	}
	c := small()
	c.Precision = ""
	if print, err := c.fingerprint(); err != nil || prints[print] != "float32" {
		t.Errorf("a run from before there were precisions has another fingerprint (%v)", err)
	}
}

// watched keeps what a net was made with.
type watched struct {
	device.Device
	options device.Options
}

func (d *watched) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	d.options = o
	return d.Device.Compile(s, o)
}

func TestMemory(t *testing.T) {
	resolve := func(change func(*Config)) *Plan {
		c := small()
		change(&c)
		p, err := Resolve(c, Options{Sources: sources(made(1, 40))})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := resolve(func(*Config) {})
	if n, err := p.Config.memory(); err != nil || n != DefaultMemory(device.Info{}) || n < 64<<20 {
		t.Errorf("memory is %q by default: %d, %v", p.Config.Memory, n, err)
	}
	if p.Schedule.Chunk < 1 || p.Schedule.Chunk > p.Capacity {
		t.Errorf("%d records go through the network together in runs of %d", p.Schedule.Chunk, p.Capacity)
	}
	// A larger batch takes no more memory once a chunk is large enough.
	large := func(c *Config) { c.Batch, c.SamplingRate, c.PublicN = ptr(5000.0), nil, ptr(100000) }
	larger := func(c *Config) { c.Batch, c.SamplingRate, c.PublicN = ptr(50000.0), nil, ptr(100000) }
	if a, b := resolve(large).Schedule.Chunk, resolve(larger).Schedule.Chunk; a != b || a > 512 {
		t.Errorf("chunks of %d and %d records", a, b)
	}
	p = resolve(func(c *Config) { large(c); c.Memory = "256KiB" })
	if need := int64(p.Schedule.Chunk) * p.Schedule.ExampleBytes(p.costs.Passes); need > 256<<10 {
		t.Errorf("a chunk takes %d bytes of 256 KiB", need)
	}
	p = resolve(func(c *Config) { large(c); c.MaxPhysicalBatch = 3 })
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
