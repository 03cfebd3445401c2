package rrpsgd

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/perexample"
)

// opened has the settings of a run completed, and gives its first step size and its rounds.
type opened struct {
	dpoptim.Engine
	facts dpoptim.Facts
}

func (o opened) Facts() dpoptim.Facts                      { return o.facts }
func (o opened) Sum(dpoptim.SumQuery) (dpoptim.Sum, error) { return nil, nil }
func (o opened) Slot() int                                 { return 0 }
func (o opened) Update() int                               { return 1 }

func completed(t *testing.T, s Settings, c *dpoptim.Settings, n dpoptim.Network) *Method {
	t.Helper()
	m := New(s, 0)
	c.Clipping, c.Neighbouring, c.LRSchedule = string(perexample.Flat), "replace-one", dpoptim.Constant
	var err error
	if *c, err = m.Check(*c); err == nil {
		*c, _, err = m.Complete(*c, n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var ten = dpoptim.Network{Layers: 3, Params: 1000, Records: 1000, StartLoss: math.Log(10)}

// Batches are of one record up to a thousand of them, and then as small as leaves about 10⁶ rounds; what was
// completed stays, as a resumed run completes it again.
func TestDefaults(t *testing.T) {
	for records, want := range map[int]struct {
		batch float64
		steps int
	}{7: {1, 49}, 1000: {1, 1e6}, 1001: {2, 250500}, 60000: {60, 1e6}, 50_000_000: {50000, 1e6}} {
		n := ten
		n.Records = records
		c := &dpoptim.Settings{Clip: 1}
		for range 2 {
			completed(t, Settings{Smoothness: new(4.0)}, c, n)
			if *c.Batch != want.batch || *c.Steps != want.steps || *c.LR != 0.25 {
				t.Errorf("%d records: batches of %v, %d rounds, steps of at most %v", records, *c.Batch, *c.Steps, *c.LR)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, c := range map[string]dpoptim.Settings{
		"l2 0.1":                {Clip: 1, L2: 0.1},
		"rounds; raise --batch": {Clip: 1, Batch: new(0x1p-20)},
	} {
		if _, _, err := New(Settings{}, 0).Complete(c, ten); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// The step is the paper's, in its own units: σ² = 4L² + d·σ_z², η = min(1/β, D_F/(σn)).
func TestStep(t *testing.T) {
	for _, multiplier := range []float64{0, 0.5, 6} {
		for _, beta := range []float64{1e-6, 1, 1e4} {
			c := &dpoptim.Settings{Clip: 3, Batch: new(1.0)}
			m := completed(t, Settings{Smoothness: &beta}, c, ten)
			got := m.most(dpoptim.Facts{Params: 1000, ExpectedBatch: 1, Steps: 1e6, Planned: multiplier, Rate: dpoptim.Rate{Peak: *c.LR, Shape: dpoptim.Constant, Steps: 1e6}})
			sigma := math.Sqrt(4*9 + 1000*math.Pow(multiplier*3, 2))
			want := math.Min(1/beta, math.Sqrt(2*math.Log(10)/beta)/(sigma*1000))
			if math.Abs(got/want-1) > 1e-12 {
				t.Errorf("multiplier %v, β = %v: steps of %v, want %v", multiplier, beta, got, want)
			}
		}
	}
}

// R follows its law, by χ² at a false-reject rate of 1e-7 for each schedule and source, and never exceeds the
// schedule. The seeded source is one of fixed seeds, so that its test repeats.
func TestLawOfRounds(t *testing.T) {
	const steps, draws = 12, 12000
	for _, seeded := range []bool{true, false} {
		for _, shape := range []dpoptim.Rate{{Peak: 1, Shape: dpoptim.Constant}, {Peak: 1, Shape: dpoptim.Cosine, Warmup: 3}} {
			shape.Steps = steps
			name := fmt.Sprintf("seeded %v, %s", seeded, shape.Shape)
			c := &dpoptim.Settings{Clip: 1e-3, Batch: new(1.0)} // so little that 1/β is the least step
			m := completed(t, Settings{}, c, ten)
			m.seeded = seeded
			counts := make([]float64, steps+1)
			for i := range draws {
				m.seed = uint64(i)
				s, err := m.Open(opened{facts: dpoptim.Facts{Params: 10, ExpectedBatch: 1, Steps: steps, Rate: shape}})
				if err != nil {
					t.Fatal(err)
				}
				r := *s.(dpoptim.Reporter).Figures().Rounds
				if r < 1 || r > steps {
					t.Fatalf("%s: %d rounds of at most %d", name, r, steps)
				}
				counts[r]++
			}
			var weights []float64
			total := 0.0
			for k := range steps {
				eta := shape.At(k + 1)
				weights = append(weights, 2*eta-eta*eta)
				total += weights[k]
			}
			square := 0.0
			for k, w := range weights {
				expected := draws * w / total
				square += math.Pow(counts[k+1]-expected, 2) / expected
			}
			if limit := (distuv.ChiSquared{K: steps - 1}).Quantile(1 - 1e-7); square > limit {
				t.Errorf("%s: χ² is %v, above %v: %v", name, square, limit, counts)
			}
		}
	}
}

// A state that no run of the schedule leaves is refused.
func TestRestore(t *testing.T) {
	c := &dpoptim.Settings{Clip: 1}
	m := completed(t, Settings{}, c, ten)
	s, err := m.Open(opened{facts: dpoptim.Facts{Params: 10, ExpectedBatch: 1, Steps: 100, Rate: dpoptim.Rate{Peak: 1, Shape: dpoptim.Constant, Steps: 100}}})
	if err != nil {
		t.Fatal(err)
	}
	k := s.(dpoptim.Keeper)
	for _, bad := range []string{`{"rounds":0}`, `{"rounds":101}`, `{}`, `{"round":5}`, ``} {
		if _, err := k.Restore([]byte(bad)); err == nil {
			t.Errorf("%s was restored", bad)
		}
	}
	if _, err := k.Restore([]byte(`{"rounds":42}`)); err != nil {
		t.Fatal(err)
	}
	if text, err := k.Save(dpoptim.Spent{}); err != nil || string(text) != `{"rounds":42}` {
		t.Errorf("it saves %s: %v", text, err)
	}
}
