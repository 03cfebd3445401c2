package audit

import (
	"context"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for name, s := range stages {
		t.Run(name, func(t *testing.T) {
			c := Default()
			c.Optimizer, c.Epsilon, c.Device, c.Threads = name, 2, "cpu", 2
			c.Noise = "seeded"
			g, err := prepareHearing(c, s)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			stats, err := g.runs(context.Background(), 2000)
			if err != nil {
				t.Fatal(err)
			}
			e := newDesign(4000, g.claim)
			v := e.judge(stats, g.claim)
			t.Logf("%v: claim %.3g at steps %d sigma %.3g order %.3g: convicted %v ε ≥ %.3g (FPR %.3g FNR %.3g allowed %.3g)", time.Since(start), g.claim.epsilon, g.plan.Steps, g.plan.Sigma, g.order, v.convicted, v.epsilon, v.fpr.rate, v.fnr.upper, v.allowed)
			for _, a := range g.plan.Declaration.Asks {
				t.Logf("%s %+v", a.Question, g.declared[a.Question])
			}
		})
	}
}
