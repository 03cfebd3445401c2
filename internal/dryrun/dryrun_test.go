package dryrun

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/nn"
)

// Records that stay in files take no memory, but for their labels.
func TestMemory(t *testing.T) {
	const n, width = 2_000_000, 100
	of := func(mapped bool) int64 {
		c := config.Default()
		c.Data, c.Model, c.Device = "made", "logistic", "cpu"
		c.Batch, c.Steps, c.Delta, c.NoiseMultiplier = new(64.0), new(20), new(1e-7), new(1.0)
		set := func() *datasets.Set {
			return &datasets.Set{Name: "made", Classes: 2, ClassNames: []string{"a", "b"}, PublicN: n,
				Train: datasets.Split{Shape: [3]int{1, 1, width}, Unit: true, Mapped: mapped}}
		}
		e, err := Run(c, plan.Options{Sources: map[string]source.Source{"made": {BuiltIn: true, Facts: set}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.Memory
	}
	inFiles, inMemory := of(true), of(false)        // the first one's peak is in the second one, too
	const want, slack = 3 * 4 * width * n, 64 << 20 // a file takes three times its records while it is read
	if more := inMemory - inFiles; more < want-slack || more > want+slack {
		t.Errorf("%d bytes in memory, %d in files: %d more, want %d", inMemory, inFiles, more, int64(want))
	}
}

// A dry run on images of a size that no constants come for makes none, and says so of the time.
func TestNewSize(t *testing.T) {
	c := config.Default()
	c.Data, c.Model, c.Device, c.Features, c.Whiten = "made", "logistic", "cpu", "scatter", "leaves"
	c.Batch, c.Steps, c.Delta, c.NoiseMultiplier = new(100.0), new(20), new(1e-4), new(1.0)
	set := func() *datasets.Set {
		return &datasets.Set{Name: "made", Classes: 2, ClassNames: []string{"a", "b"}, PublicN: 1000, Train: datasets.Split{Shape: [3]int{1, 12, 20}}}
	}
	e, err := Run(c, plan.Options{
		Sources:       map[string]source.Source{"made": {BuiltIn: true, Facts: set}},
		FrontProgress: func(percent int) { t.Errorf("%d%% of the constants are made", percent) },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.Parameters != 81*3*5+1 || e.Seconds == nil || !(e.Fitting > 0) || *e.Seconds < e.Fitting {
		t.Errorf("%d parameters, %v s, %v s of them for constants", e.Parameters, e.Seconds, e.Fitting)
	}
}

// Records beyond those that are made are the same again.
func TestCycle(t *testing.T) {
	if got := cycle([]int{1, 2, 3}, 7); !slices.Equal(got, []int{1, 2, 3, 1, 2, 3, 1}) {
		t.Errorf("got %v", got)
	}
	if got := cycle([]int{}, 0); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// mapper counts the records that it maps.
type mapper struct {
	reference.Device
	records *int
}

func (m mapper) Map(f device.Front, from device.Data, o device.MapOptions) (device.Data, error) {
	*m.records += from.(*host.Table).Count
	return m.Device.Map(f, from, o)
}

// Features are made, and so timed, by the device that makes them in the run; where a norm bounds them, by the CPU.
func TestFeaturesOfDevice(t *testing.T) {
	front, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Shape: [3]int{1, 8, 8}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5
	norm := 1.0
	for _, c := range []struct {
		norm *float64
		want int
	}{{nil, n}, {&norm, 0}} {
		set := &datasets.Set{Classes: 2, Train: datasets.Split{Shape: [3]int{1, 8, 8}}}
		p := &plan.Plan{Front: front, Set: set, Network: &nn.Network{Program: &ir.Program{Loss: ir.Logistic}}}
		p.Config.FeatureNorm = c.norm
		mapped := 0
		tr := trial{plan: p, device: mapper{records: &mapped}, records: random(set, n)}
		_, rows, values, err := tr.table()
		if err != nil {
			t.Fatal(err)
		}
		if mapped != c.want || rows.Count != n || len(rows.Targets) != n || values.Len() != n*front.Width() {
			t.Errorf("the device maps %d records, want %d; the table has %d, and %d values", mapped, c.want, rows.Count, values.Len())
		}
	}
}

// Of a batch that takes a minute or more a part is tried, and its time is that of the batch; of others the whole.
func TestPartsOfLongSteps(t *testing.T) {
	set := func() *datasets.Set {
		return &datasets.Set{Name: "made", Classes: 10, PublicN: 50_000, Train: datasets.Split{Shape: [3]int{3, 32, 32}}}
	}
	of := func(views int, batch float64) (*trial, int) {
		t.Helper()
		c := config.Default()
		c.Data, c.Model, c.Device, c.Recipe = "made", "resnet-small", "cpu", "none"
		c.Batch, c.Steps, c.Delta, c.NoiseMultiplier, c.Views = &batch, new(20), new(1e-6), new(1.0), views
		if views > 1 {
			c.Augment = []string{"crop"}
		}
		c.ClassNames, c.Threads = nil, 1
		p, d, err := plan.Open(c, plan.Options{Facts: true, Sources: map[string]source.Source{"made": {BuiltIn: true, Facts: set}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		x := &trial{plan: p, device: d}
		return x, x.cut(int(batch))
	}
	x, some := of(16, 40_000) // 63 TFLOP
	each := 16 * float64(x.plan.Network.Program.StepFLOPs())
	if seconds := float64(some) * each / x.device.Info().Costs.GEMM; some < 1 || seconds > 2 {
		t.Errorf("%d records, which take %v s", some, seconds)
	}
	if want := int64(x.plan.Schedule.Chunk-some) * x.plan.ExampleBytes(); x.untouched != max(want, 0) {
		t.Errorf("%d bytes are left out, want %d", x.untouched, want)
	}
	if x, some = of(0, 1024); some != 1024 || x.untouched != 0 {
		t.Errorf("%d of 1024 records, %d bytes left out", some, x.untouched)
	}
}
