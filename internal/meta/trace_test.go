package meta

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/dpoptim/l2p"
)

// A trace starts where the task does, ends where the run of that seed does, and has a
// point for each of its steps.
func TestTrace(t *testing.T) {
	plan := Plan{Steps: 7, Rate: 1, Clip: 1, Delta: 1e-8, Neighbouring: "add-remove", Accountant: "rdp"}
	n, err := plan.Noise(0.5)
	if err != nil {
		t.Fatal(err)
	}
	p := &l2p.Protector{Card: l2p.Card{Projector: l2p.Part{Kind: l2p.Identity}, Scheduler: l2p.Part{Kind: l2p.Constant}, Scale: 0.3}}
	task := Quadratics{Records: 9, Random: true}.Draw(rand.New(rand.NewPCG(1, 2)))
	all := Trace(p, plan, task, n, 5)
	if len(all) != 8 {
		t.Fatalf("%d points of 7 steps", len(all))
	}
	s := plan.simulate(ruleOf(p), task, n, 5)
	if end := s.run(); !slices.Equal(end.params, all[7].Params) || all[7].Loss != task.Loss(end.params, nil) {
		t.Errorf("the trace ends at %v, the run at %v", all[7].Params, end.params)
	}
	if !slices.Equal(all[0].Params, s.start().params) || all[0].Left != 1 || all[0].Noise != 0 {
		t.Errorf("the trace starts with %+v", all[0])
	}
	near(t, "noise", all[3].Noise, n.Planned, 0)
	near(t, "left", all[3].Left, 4.0/7, 1e-12)
	other := Trace(descending(p, 0.1), plan, task, n, 5)
	if !slices.Equal(all[0].Params, other[0].Params) || slices.Equal(all[7].Params, other[7].Params) {
		t.Error("another protector starts elsewhere, or ends at the same")
	}
}

func descending(p *l2p.Protector, scale float64) *l2p.Protector {
	q := *p
	q.Card.Scale = scale
	return &q
}

// Clipped losses against the definition.
func TestClippedLoss(t *testing.T) {
	q := &quadratic{records: []record2{
		{w: [2][2]float64{{1, 0}, {0, 1}}, y: [2]float64{0, 0}}, // at (1, 2): 5
		{w: [2][2]float64{{2, 0}, {0, 0}}, y: [2]float64{1, 1}}, // 1 + 1
	}}
	for bound, want := range map[float64]float64{100: 7, 3: 5, 1: 2} {
		near(t, "loss", q.ClippedLoss([]float64{1, 2}, bound), want, 0)
	}
}
