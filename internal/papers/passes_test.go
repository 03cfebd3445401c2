package papers

import (
	"math"
	"testing"
)

// farthest is how far apart two runs come that differ in the record of one place, the worst one, where every
// step brings them together by 1−ημ and the record's adds 2Lη/b: of the last iterates, of the weighted average,
// and of the plain one.
func farthest(p Passes, smoothness float64) (last, weighted, plain float64) {
	perPass := (p.Records + p.Batch - 1) / p.Batch
	steps := float64(p.Passes * perPass)
	for place := range perPass {
		d, w, m := 0.0, 0.0, 0.0
		for t := 1.; t <= steps; t++ {
			eta := p.LearningRate
			if eta == 0 {
				eta = math.Min(1/smoothness, 1/(p.StrongConvexity*t))
			}
			d *= 1 - eta*p.StrongConvexity
			if (int(t)-1)%perPass == place {
				d += 2 * p.Lipschitz * eta / float64(p.Batch)
			}
			w, m = w+d*2*t/(steps*(steps+1)), m+d/steps
		}
		last, weighted, plain = math.Max(last, d), math.Max(weighted, w), math.Max(plain, m)
	}
	return last, weighted, plain
}

func TestPassesSensitivity(t *testing.T) {
	for _, batch := range []int{1, 7, 60} {
		for _, k := range []int{1, 2, 10} {
			for _, mu := range []float64{0, 0.01, 0.3} {
				p := Passes{Records: 60, Passes: k, Batch: batch, Lipschitz: 1.7, StrongConvexity: mu, LearningRate: 0.4}
				last, _, plain := farthest(p, 0)
				near(t, "last iterate", p.Sensitivity(), last, 1e-9)
				p.Average = true
				if mu == 0 {
					near(t, "average", p.Sensitivity(), plain, 1e-9)
				} else if p.Sensitivity() < plain {
					t.Errorf("%+v: an average moves by %v, claimed %v", p, plain, p.Sensitivity())
				}
				if mu == 0 {
					continue
				}
				for _, smoothness := range []float64{mu, 2 * mu, 9 * mu} {
					p.LearningRate, p.Average = 0, false
					last, weighted, plain := farthest(p, smoothness)
					if got := p.Sensitivity(); last > got*(1+1e-9) || smoothness == mu && last < got*(1-1e-9) {
						t.Errorf("%+v, β = %v: the last iterate moves by %v, claimed %v", p, smoothness, last, got)
					}
					p.Average = true
					if got := p.Sensitivity(); weighted > got*(1+1e-9) || smoothness == mu && weighted < got*(1-1e-9) {
						t.Errorf("%+v, β = %v: the average moves by %v, claimed %v", p, smoothness, weighted, got)
					}
					// The mean of all iterates moves by more than either.
					if batch == 1 && smoothness == mu && plain < 1.5*p.Sensitivity() && k == 1 {
						t.Errorf("%+v: the plain average moves by %v, the weighted one by %v", p, plain, p.Sensitivity())
					}
				}
			}
		}
	}
}
