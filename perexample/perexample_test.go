package perexample_test

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/perexample"
)

func TestSchedulesAreValid(t *testing.T) {
	for _, p := range devicetest.Programs() {
		for _, strategy := range perexample.Strategies() {
			s, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: plan.Flat})
			if err != nil {
				t.Fatalf("%s %s: %v", p.Name, strategy, err)
			}
			if !s.Private() || s.Clipping != plan.Flat || s.Program != p {
				t.Errorf("%s %s: the schedule is %s over %s", p.Name, strategy, s.Clipping, s.Program.Name)
			}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		}
		s, err := perexample.Plain(p)
		if err != nil {
			t.Fatalf("%s plain: %v", p.Name, err)
		}
		if s.Private() || s.Stored() != 0 {
			t.Errorf("%s: the plain schedule is %s and keeps %d values", p.Name, s.Clipping, s.Stored())
		}
	}
}

func TestWhatStrategiesKeep(t *testing.T) {
	p := devicetest.LeNet("lenet", 16, 3, 4, 12, 8)
	const conv = 3*25 + 3 + 4*3*25 + 4
	for strategy, want := range map[perexample.Strategy]struct{ stored, chunk int }{
		perexample.Auto:        {conv, 0},
		perexample.Ghost:       {conv, 0},
		perexample.Materialise: {p.NumParams(), 0},
		perexample.Microbatch:  {p.NumParams(), 1},
	} {
		s, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: plan.Flat})
		if err != nil {
			t.Fatal(err)
		}
		if s.Stored() != want.stored || s.Chunk != want.chunk {
			t.Errorf("%s keeps %d values in chunks of %d, want %d and %d", strategy, s.Stored(), s.Chunk, want.stored, want.chunk)
		}
	}
}

func TestSteps(t *testing.T) {
	b := devicetest.NewBuilder("net", plan.SoftmaxCrossEntropy, 1, 4, 4)
	b.Dense(b.Act(plan.ReLU, b.Conv(plan.Input, 2, plan.Square(3, 1, 0), true)), 3, true)
	for _, test := range []struct {
		name     string
		schedule func() (*plan.Schedule, error)
		want     string
	}{
		{"ghost", func() (*plan.Schedule, error) { return perexample.Private(b.Program(), perexample.Options{Strategy: perexample.Ghost, Clipping: plan.Flat}) },
			"forward 0, forward 1, forward 2, loss, norm-ghost 2, input-grad 2, input-grad 1, grad-store 0, factor, combine 0, grad-sum 2"},
		{"materialise", func() (*plan.Schedule, error) {
			return perexample.Private(b.Program(), perexample.Options{Strategy: perexample.Materialise, Clipping: plan.Flat})
		},
			"forward 0, forward 1, forward 2, loss, grad-store 2, input-grad 2, input-grad 1, grad-store 0, factor, combine 0, combine 2"},
		{"plain", func() (*plan.Schedule, error) { return perexample.Plain(b.Program()) },
			"forward 0, forward 1, forward 2, loss, input-grad 2, input-grad 1, factor, grad-sum 0, grad-sum 2"},
	} {
		s, err := test.schedule()
		if err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, st := range s.Steps {
			name := st.Kind.String()
			if st.Op != plan.NoOp {
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
		if _, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: plan.Unclipped}); err == nil || !strings.Contains(err.Error(), "needs a clipping") {
			t.Errorf("%s without clipping gives %v", strategy, err)
		}
	}
	for _, strategy := range []perexample.Strategy{"", "Ghost", "per-layer"} {
		_, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: plan.Flat})
		if err == nil || !strings.Contains(err.Error(), "choose one of auto, materialise, ghost, microbatch") {
			t.Errorf("strategy %q gives %v", strategy, err)
		}
	}
	broken := *p
	broken.Ops = nil
	if _, err := perexample.Private(&broken, perexample.Options{Strategy: perexample.Auto, Clipping: plan.Flat}); err == nil {
		t.Error("a broken program is scheduled")
	}
	if _, err := perexample.Plain(&broken); err == nil {
		t.Error("a broken program is scheduled plainly")
	}
}
