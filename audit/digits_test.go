package audit

import (
	"context"
	"testing"
)

func TestX(t *testing.T) {
	for _, noise := range []string{"secure", "exact"} {
		c := Default()
		c.Canary, c.Noise, c.NoiseMultiplier, c.SamplingRate, c.Steps, c.Strategy = Digits, noise, 20, 1, 1, "materialise"
		c.Device = "cpu"
		g, err := prepare(c)
		if err != nil {
			t.Fatal(err)
		}
		x, err := g.runs(context.Background(), 200)
		if err != nil {
			t.Fatal(err)
		}
		right := 0
		for i := range x[0] {
			if !(x[0][i] > 0) {
				right++
			}
			if x[1][i] > 0 {
				right++
			}
		}
		t.Log(noise, right, x[0][:5], x[1][:5], g.claim.epsilon, g.claim.curve[0])
	}
}
