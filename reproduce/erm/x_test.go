package erm

import (
	"fmt"
	"github.com/privgrad/privgrad/reproduce"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return
}
func TestX(t *testing.T) {
	e := &reproduce.Env{Options: reproduce.Options{DataDir: "/work/shared/data"}}
	no := func() error { return nil }
	r := rand.New(rand.NewPCG(1, 2))
	for _, b := range benchmarks {
		s := time.Now()
		if err := b.open(b.path(e)); err != nil {
			t.Fatal(err)
		}
		for _, mu := range []float64{0, b.ridge} {
			o := b.best[mu]
			n := 0.0
			for _, x := range o.w {
				n += x * x
			}
			z := b.table.objectives(b.table.batch(1), mu)[0]
			fmt.Println(b.name, b.table.len(), b.table.width, len(b.table.values)/b.table.len(), mu, o.objective, "F0-F", z-o.objective, "norm", math.Sqrt(n), time.Since(s))
			for _, D := range []float64{1, 3, 10} {
				for _, eps := range []float64{.1, .5, 1, 2} {
					p := problem{n: float64(b.table.len()), d: float64(b.table.width), lipschitz: math.Sqrt2, smoothness: b.curve*2 + mu, mu: mu, epsilon: eps, delta: .001, radius: D}
					ours, _ := p.perturbed()
					pub := p.published()
					ng, _ := p.noisy()
					fmt.Printf("  D %g eps %g:", D, eps)
					for _, do := range []descent{ours, pub} {
						w, _ := b.table.descend(1, do, mu, no, nil)
						fmt.Printf(" T %d s %.2g err %.4f;", do.steps, do.noise, mean(b.table.objectives(b.table.release(w, 20, do.noise, r), mu))-o.objective)
					}
					s := time.Now()
					_ = ng
					var w *batch

					if os.Getenv("B") != "" {
						s = time.Now()
						w, _, _ = b.table.bassily(p, no, r)
						fmt.Printf(" bassily %.4f %v", mean(b.table.objectives(w, mu))-o.objective, time.Since(s))
					}
					fmt.Println()
				}
			}
		}
	}
}
