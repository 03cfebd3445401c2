package audit

import (
	"cmp"
	"context"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

// distorted has a question's releases made otherwise than they are priced.
func distorted(q dpoptim.Question, change func(*dpoptim.Release)) func(*hearing) {
	return func(g *hearing) {
		g.distort = func(asked dpoptim.Question, r dpoptim.Release) dpoptim.Release {
			if asked == q {
				change(&r)
			}
			return r
		}
		asks := g.plan.Declaration.Asks
		for i, a := range asks {
			asks[i].Release = func(multiplier float64) (dpoptim.Release, error) {
				r, err := a.Release(multiplier)
				return g.distort(a.Question, r), err
			}
		}
	}
}

func halved(r *dpoptim.Release) {
	switch n := r.Noise.(type) {
	case accountant.Gaussian:
		n.NoiseMultiplier /= 2
		r.Noise = n
	case accountant.Pure:
		n.Epsilon *= 2
		r.Noise = n
	case accountant.NoisyBTLS:
		n.ThresholdScale /= 2
		n.QueryScale /= 2
		r.Noise = n
	}
}

func TestTry(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("RUNS"))
	for name, s := range stages {
		if only := os.Getenv("ONLY"); only != "" && only != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, fault := range []string{"", "gradient", "search", "minimum", "norm", "majority", "unpriced"} {
				c := Default()
				c.Optimizer, c.Epsilon, c.Delta, c.Device, c.Threads = name, s.epsilon, s.delta, "cpu", 2
				c.Neighbouring = cmp.Or(os.Getenv("REL"), c.Neighbouring)
				if e, err := strconv.ParseFloat(os.Getenv("EPS"), 64); err == nil {
					c.Epsilon = e
				}
				c.Noise = "seeded"
				g, err := prepareHearing(c, s)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := g.asks[dpoptim.Question(fault)]; !ok && fault != "" && fault != "unpriced" {
					continue
				}
				switch fault {
				case "":
				case "unpriced":
					first := true
					_ = first
					g.charged = func(m []accountant.Mechanism) []accountant.Mechanism {
						_, g := m[0].(accountant.Gaussian)
						if g {
							return m[:1]
						}
						return []accountant.Mechanism{accountant.Pure{Epsilon: 1e-6}}
					}
				default:
					change := halved
					if os.Getenv("QUARTER") != "" {
						change = func(r *dpoptim.Release) { halved(r); halved(r) }
					}
					distorted(dpoptim.Question(fault), change)(g)
					g.charged = func(m []accountant.Mechanism) []accountant.Mechanism {
						m = slices.Clone(m)
						for i, x := range m {
							m[i] = doubled(x, fault)
							if os.Getenv("QUARTER") != "" {
								m[i] = doubled(m[i], fault)
							}
						}
						return m
					}
				}
				start := time.Now()
				stats, err := g.runs(context.Background(), runs/2)
				if err != nil {
					t.Fatal(err)
				}
				e := newDesign(runs, g.claim)
				v := e.judge(stats, g.claim)
				m0, v0 := meanVar(stats[0])
				m1, v1 := meanVar(stats[1])
				t.Logf("%s %v: claim %.3g at steps %d sigma %.3g order %.3g: convicted %v ε ≥ %.3g (FPR %.3g FNR %.3g allowed %.3g) mu %.3g", fault, time.Since(start), g.claim.epsilon, g.plan.Steps, g.plan.Sigma, g.order, v.convicted, v.epsilon, v.fpr.rate, v.fnr.upper, v.allowed, (m1-m0)/math.Sqrt((v0+v1)/2))
				if fault == "" {
					for _, a := range g.plan.Declaration.Asks {
						t.Logf("%s %+v", a.Question, g.declared[a.Question])
					}
				}
			}
		})
	}
}

func doubled(x accountant.Mechanism, q string) accountant.Mechanism {
	switch n := x.(type) {
	case accountant.Gaussian:
		if q == "gradient" {
			n.NoiseMultiplier *= 2
			return n
		}
	case accountant.Pure:
		n.Epsilon /= 2
		return n
	case accountant.NoisyBTLS:
		n.ThresholdScale *= 2
		n.QueryScale *= 2
		return n
	}
	return x
}

func meanVar(x []float64) (m, v float64) {
	for _, y := range x {
		m += y / float64(len(x))
	}
	for _, y := range x {
		v += (y - m) * (y - m) / float64(len(x))
	}
	return
}
