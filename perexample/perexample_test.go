package perexample_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

func TestSchedulesAreValid(t *testing.T) {
	for _, p := range devicetest.Programs() {
		for _, strategy := range perexample.Strategies() {
			for _, clipping := range []ir.Clipping{ir.Flat, ir.PerLayer, ir.Automatic} {
				s, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: clipping})
				if err != nil {
					t.Fatalf("%s %s: %v", p.Name, strategy, err)
				}
				if !s.Private() || s.Clipping != clipping || s.Program != p {
					t.Errorf("%s %s: the schedule is %s over %s", p.Name, strategy, s.Clipping, s.Program.Name)
				}
				if err := s.Validate(); err != nil {
					t.Error(err)
				}
			}
		}
		s, err := perexample.Plain(p)
		if err != nil {
			t.Fatalf("%s plain: %v", p.Name, err)
		}
		if s.Private() || s.Stored() != 0 || slices.ContainsFunc(s.Steps, func(st ir.Step) bool { return st.Kind.Measures() }) {
			t.Errorf("%s: the plain schedule is %s, measures or keeps %d values", p.Name, s.Clipping, s.Stored())
		}
	}
}

func TestWhatStrategiesKeep(t *testing.T) {
	p := devicetest.LeNet("lenet", 16, 3, 4, 12, 8)
	const first, conv = 3*25 + 3, 3*25 + 3 + 4*3*25 + 4 // the second has 2·2 output positions and 300 weights
	for strategy, want := range map[perexample.Strategy]struct{ stored, chunk int }{
		perexample.Auto:        {conv, 0},
		perexample.Ghost:       {first, 0},
		perexample.Bookkeeping: {conv, 0},
		perexample.Materialise: {p.NumParams(), 0},
		perexample.Microbatch:  {p.NumParams(), 1},
	} {
		s, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
		if err != nil {
			t.Fatal(err)
		}
		if s.Stored() != want.stored || s.Chunk != want.chunk {
			t.Errorf("%s keeps %d values in chunks of %d, want %d and %d", strategy, s.Stored(), s.Chunk, want.stored, want.chunk)
		}
	}
}

func TestSteps(t *testing.T) {
	b := devicetest.NewBuilder("net", ir.SoftmaxCrossEntropy, 1, 4, 4)
	b.Dense(b.Act(ir.ReLU, b.Conv(ir.Input, 2, ir.Square(3, 1, 0), true)), 3, true)
	for _, test := range []struct {
		name     string
		schedule func() (*ir.Schedule, error)
		want     string
	}{
		{"ghost", func() (*ir.Schedule, error) {
			return perexample.Private(b.Program(), perexample.Options{Strategy: perexample.Ghost, Clipping: ir.Flat})
		},
			"forward 0, forward 1, forward 2, loss, norm-ghost 2, input-grad 2, input-grad 1, grad-store 0, factor, combine 0, grad-sum 2"},
		{"materialise", func() (*ir.Schedule, error) {
			return perexample.Private(b.Program(), perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat})
		},
			"forward 0, forward 1, forward 2, loss, grad-store 2, input-grad 2, input-grad 1, grad-store 0, factor, combine 0, combine 2"},
		{"plain", func() (*ir.Schedule, error) { return perexample.Plain(b.Program()) },
			"forward 0, forward 1, forward 2, loss, input-grad 2, input-grad 1, factor, grad-sum 0, grad-sum 2"},
	} {
		s, err := test.schedule()
		if err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, st := range s.Steps {
			name := st.Kind.String()
			if st.Op != ir.NoOp {
				name += " " + string(rune('0'+st.Op))
			}
			steps = append(steps, name)
		}
		if got := strings.Join(steps, ", "); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.name, got, test.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := devicetest.Programs()[0]
	for _, strategy := range perexample.Strategies() {
		if _, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Unclipped}); err == nil || !strings.Contains(err.Error(), "needs a clipping") {
			t.Errorf("%s without clipping gives %v", strategy, err)
		}
	}
	for _, strategy := range []perexample.Strategy{"", "Ghost", "per-layer"} {
		_, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
		if err == nil || !strings.Contains(err.Error(), "choose one of auto, materialise, ghost, bookkeeping, microbatch") {
			t.Errorf("strategy %q gives %v", strategy, err)
		}
	}
	broken := *p
	broken.Ops = nil
	if _, err := perexample.Private(&broken, perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat}); err == nil {
		t.Error("a broken program is scheduled")
	}
	unknown := *p
	unknown.Ops = slices.Clone(p.Ops)
	unknown.Ops[0].Kind = 99
	for _, p := range []*ir.Program{&broken, &unknown} {
		if _, err := perexample.Plain(p); err == nil {
			t.Error("a broken program is scheduled plainly")
		}
	}
}

// chosen names every layer's choice.
func chosen(t *testing.T, p *ir.Program, o perexample.Options) string {
	t.Helper()
	o.Clipping = ir.Flat
	s, err := perexample.Private(p, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, l := range perexample.Explain(s, ir.Costs{GEMM: 1, Gram: 1, Memory: 1, Summed: 1}) {
		all = append(all, l.Name+"="+string(l.Choice))
	}
	return strings.Join(all, " ")
}

// layered names its parameters as nn does.
func layered() *ir.Program {
	p := *devicetest.LeNet("lenet", 16, 3, 4, 12, 8)
	p.Params = append([]ir.Param(nil), p.Params...)
	names := []string{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"}
	for i := range p.Params {
		p.Params[i].Name = names[i]
	}
	return &p
}

func TestChoices(t *testing.T) {
	p := layered()
	for strategy, want := range map[perexample.Strategy]string{
		"auto":                             "conv1=store conv2=store fc1=ghost fc2=ghost fc3=ghost",
		"ghost":                            "conv1=store conv2=gram fc1=ghost fc2=ghost fc3=ghost",
		"bookkeeping":                      "conv1=store conv2=store fc1=ghost fc2=ghost fc3=ghost",
		"materialise":                      "conv1=store conv2=store fc1=store fc2=store fc3=store",
		"conv1=gram":                       "conv1=gram conv2=store fc1=ghost fc2=ghost fc3=ghost",
		"auto,conv1=gram,fc1=materialise":  "conv1=gram conv2=store fc1=store fc2=ghost fc3=ghost",
		"ghost, conv2=recompute,fc3=store": "conv1=store conv2=recompute fc1=ghost fc2=ghost fc3=store",
	} {
		if got := chosen(t, p, perexample.Options{Strategy: strategy}); got != want {
			t.Errorf("%s gives %s, want %s", strategy, got, want)
		}
	}
	for strategy, want := range map[perexample.Strategy]string{
		"auto,gram":             `"gram" is no choice for a layer`,
		"auto,conv1=fast":       `layer conv1: unknown choice "fast": choose one of store, ghost, gram, recompute`,
		"auto,conv3=gram":       `network lenet has no layer "conv3": choose one of conv1, conv2, fc1, fc2, fc3`,
		"conv1=ghost":           "layer conv1 is a conv layer and cannot ghost: choose one of store, gram, recompute",
		"fc1=recompute":         "layer fc1 is a dense layer and cannot recompute: choose one of ghost, store",
		"conv1=gram,conv1=gram": "layer conv1 is named twice",
	} {
		if _, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %s", strategy, err, want)
		}
	}
	b := devicetest.NewBuilder("normalized", ir.SoftmaxCrossEntropy, 2, 4, 4)
	b.Dense(b.GroupNorm(b.Conv(ir.Input, 4, ir.Square(3, 1, 1), true), 2, true), 3, true)
	for _, strategy := range []perexample.Strategy{perexample.Auto, perexample.Ghost, perexample.Materialise, "ghost,groupnorm1=store"} {
		if got := chosen(t, b.Program(), perexample.Options{Strategy: strategy}); !strings.Contains(got, "groupnorm1=store") {
			t.Errorf("%s gives %s", strategy, got)
		}
	}
	const refusal = "layer groupnorm1 is a groupnorm layer and cannot ghost: choose one of store"
	if _, err := perexample.Private(b.Program(), perexample.Options{Strategy: "groupnorm1=ghost", Clipping: ir.Flat}); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("the ghost of a normalization gives %v, want %s", err, refusal)
	}
	for strategy, good := range map[perexample.Strategy]bool{"auto,conv9=gram": true, "conv9=fast": false, "fast": false} {
		if err := perexample.Check(strategy); (err == nil) != good {
			t.Errorf("%s gives %v before there is a network", strategy, err)
		}
	}
}

// TestAutoFollowsMemory gives less and less memory to a network whose second
// convolution has few positions and many parameters.
func TestAutoFollowsMemory(t *testing.T) {
	b := devicetest.NewBuilder("deep", ir.SoftmaxCrossEntropy, 4, 8, 8)
	x := b.Conv(ir.Input, 32, ir.Square(3, 2, 1), true)
	b.Dense(b.Conv(x, 256, ir.Square(3, 2, 1), true), 10, true)
	p := b.Program()
	costs := ir.Costs{GEMM: 7e10, Gram: 1.2e10, Memory: 1e10, Launch: 1e-5, Summed: 1, Fewest: 64, Most: 512}
	values := 2 * p.ValueBytes()
	all := values + 4*int64(p.OpParams(0)+p.OpParams(1))
	for _, test := range []struct {
		memory   int64
		costs    ir.Costs
		want     string
		together int
	}{
		{0, costs, "conv1=store conv2=store", 128},
		{128 * all, costs, "conv1=store conv2=store", 128},
		// Half the batch costs less than anything computed twice, or does not.
		{127 * all, ir.Costs{GEMM: 7e8, Gram: 1e6, Memory: 1e10, Launch: 1e-5, Summed: 1, Fewest: 64, Most: 512}, "conv1=store conv2=store", 64},
		{127 * all, costs, "conv1=store conv2=gram", 128},
		// A batch of 64 no longer fits: only the large layer gives way, to the
		// cheaper of the other choices.
		{63 * all, costs, "conv1=store conv2=gram", 128},
		{63 * all, ir.Costs{GEMM: 7e10, Gram: 1e6, Memory: 1e10, Launch: 1e-5, Summed: 1, Fewest: 64, Most: 512}, "conv1=store conv2=recompute", 128},
		{64*values + 1, costs, "conv1=recompute conv2=gram", 64},
		{1, costs, "conv1=recompute conv2=gram", 1}, // nothing fits; train refuses it
	} {
		o := perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat, Costs: test.costs, Memory: test.memory, Batch: 10000}
		if got := chosen(t, p, o); !strings.HasPrefix(got, test.want) {
			t.Errorf("%d bytes give %s, want %s", test.memory, got, test.want)
		}
		s, err := perexample.Private(p, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := perexample.Together(s, o); got != test.together {
			t.Errorf("%d bytes let %d examples go together, want %d", test.memory, got, test.together)
		}
	}
}

func TestTogether(t *testing.T) {
	p := devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128)
	for _, test := range []struct {
		batch float64
		most  int
		want  int
	}{
		{0.001, 0, 1}, {4, 0, 14}, {100, 0, 150}, {1e9, 0, 256}, {1e9, 7, 7}, {3, 100, 12},
	} {
		o := perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat, Batch: test.batch, MaxBatch: test.most}
		s, err := perexample.Private(p, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := perexample.Together(s, o); got != test.want {
			t.Errorf("batch %v of at most %d: %d together, want %d", test.batch, test.most, got, test.want)
		}
	}
}

// TestTogetherWhole is of devices whose empty parts cost what full ones do: batches that a run takes are cut evenly, or not at all.
func TestTogetherWhole(t *testing.T) {
	p := devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128)
	for _, test := range []struct{ batch, rows, most, want int }{
		{300, 514, 0, 514}, {300, 0, 0, 387}, {4096, 4776, 0, 4776}, {6000, 6815, 0, 3408}, {4096, 4776, 1000, 1000},
	} {
		o := perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat, Batch: float64(test.batch), Rows: test.rows, MaxBatch: test.most,
			Costs: ir.Costs{GEMM: 3e13, Gram: 5e12, Memory: 6e12, Launch: 1e-3, Whole: true, Fewest: 264, Most: 5280}}
		s, err := perexample.Private(p, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := perexample.Together(s, o); got != test.want {
			t.Errorf("batch %d in runs of %d, of at most %d: %d together, want %d", test.batch, test.rows, test.most, got, test.want)
		}
	}
}

// TestExplain checks prices against the formulas, for a convolution of k = 75
// taps (3·25), 4 outputs and 4 positions, and a dense layer of 4 inputs and 12
// outputs: 2400 and 96 operations.
func TestExplain(t *testing.T) {
	p := layered()
	s, err := perexample.Private(p, perexample.Options{Strategy: "bookkeeping,conv2=gram", Clipping: ir.Flat})
	if err != nil {
		t.Fatal(err)
	}
	layers := perexample.Explain(s, ir.Costs{GEMM: 100, Gram: 10, Memory: 1000, Summed: 1})
	conv, dense := layers[1], layers[2]
	if conv.Name != "conv2" || conv.Choice != perexample.Gram || dense.Name != "fc1" || dense.Choice != perexample.GhostNorm {
		t.Errorf("the layers are %+v and %+v", conv, dense)
	}
	want := []perexample.Alternative{
		{perexample.Store, 2400, 8 * 304, 24 + 2.432},
		{perexample.Gram, 2400 + 4*5*(75+4), 8 * 304, 24 + 158.0 + 2.432},
		{perexample.Recompute, 4800, 8 * 304, 24.0 + 24 + 2.432},
	}
	if !slices.Equal(conv.Alternatives, want) {
		t.Errorf("the convolution can do %+v, want %+v", conv.Alternatives, want)
	}
	want = []perexample.Alternative{
		{perexample.GhostNorm, 96 + 32, 0, 0.96 + 0.32},
		{perexample.Store, 96, 8 * 60, 0.96 + 0.48},
	}
	if !slices.Equal(dense.Alternatives, want) {
		t.Errorf("the dense layer can do %+v, want %+v", dense.Alternatives, want)
	}
}
