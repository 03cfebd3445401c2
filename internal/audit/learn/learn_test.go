package learn

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Two coordinates of three share most of a draw: the direction is that of the covariance, which is
// [[1, 0.9], [0.9, 1]] there, and 1 beside. Beyond what is learned it is share over variance.
func TestWhiten(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	share := []float32{0.25, 3, -1, 2, 0.5}
	c := [2]*Covariance{NewCovariance(1, 3, 2), NewCovariance(1, 3, 2)}
	for range 200_000 {
		same, y := random.NormFloat64(), make([]float64, 5)
		for i := range y {
			y[i] = random.NormFloat64()
		}
		for i := 1; i < 3; i++ {
			y[i] = math.Sqrt(0.9)*same + math.Sqrt(0.1)*y[i]
		}
		for _, part := range c {
			part.most = math.MaxInt
			part.Add(y)
		}
	}
	c[0].Merge(c[1])
	got, err := c[0].Whiten(share, 4, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	// The inverse of the block is [[1, −0.9], [−0.9, 1]]/0.19.
	want := []float64{0.25 / 4, (3 + 0.9) / 0.19, (-1 - 2.7) / 0.19, 2, 0.5 / 4}
	for i, w := range want {
		// 200,000 samples leave a relative standard error of √(2/200,000) = 0.003.
		if math.Abs(float64(got[i])-w) > 0.02*math.Abs(w) {
			t.Errorf("weight %d is %v, want %v", i, got[i], w)
		}
	}
}

// What two coordinates share entirely leaves the floor in what they differ by.
func TestWhitenShared(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	c := NewCovariance(0, 2, 1)
	for range 1000 {
		x := random.NormFloat64()
		c.Add([]float64{x, x})
	}
	got, err := c.Whiten([]float32{1, 0}, 1, 1e-6)
	if err != nil || math.Abs(float64(got[0]+got[1])) > 1 || math.Abs(float64(got[0])/0.5e6-1) > 0.01 {
		t.Errorf("weights %v, %v, want ± half a million", got, err)
	}
	if c.samples != 32 {
		t.Errorf("%d samples were taken, want 16 for each coordinate", c.samples)
	}
	if _, err := NewCovariance(0, 2, 1).Whiten([]float32{1, 1}, 1, math.NaN()); err == nil {
		t.Error("what is no number is whitened")
	}
}

func TestCoordinates(t *testing.T) {
	share := make([]float32, 3000)
	share[2000], share[2500] = 1, 1
	for _, x := range []struct{ samples, first, width int }{{1_000_000, 1477, 1024}, {4001, 2001, 500}, {1, 2000, 1}} {
		first, width := Coordinates(share, x.samples)
		if width != x.width || first > 2000 && x.width != 500 || x.width == 1024 && (first+width <= 2500) {
			t.Errorf("%d samples: %d coordinates from %d", x.samples, width, first)
		}
	}
	if first, width := Coordinates(share[:100], 1_000_000); first != 0 || width != 100 {
		t.Errorf("of 100: %d from %d", width, first)
	}
}

// imagine is a run whose canary is in the batches that are told, under noise of one share's length.
func imagine(r *rand.Rand, steps int, in func(step int) bool, others func(step int) int) []Step {
	run := make([]Step, steps)
	for t := range run {
		y := r.NormFloat64()
		if in(t) {
			y++
		}
		run[t] = Step{Ratio: y - 0.5, Others: others(t)}
	}
	return run
}

// Where batches are drawn as claimed, what is learned says what the claim says, but for what chance
// has taught. Where the canary comes every fourth step, or always or never, it says that instead.
func TestPattern(t *testing.T) {
	const steps, runs, q = 8, 1500, 0.25
	never := func(int) bool { return false }
	for name, x := range map[string]struct {
		in   func(*rand.Rand) func(int) bool
		want func([]Step) float64
	}{
		"as claimed": {
			func(r *rand.Rand) func(int) bool { return func(int) bool { return r.Float64() < q } },
			func(run []Step) (s float64) {
				for _, x := range run {
					s += math.Log(1 - q + q*math.Exp(x.Ratio))
				}
				return s
			},
		},
		"every fourth step": {
			func(*rand.Rand) func(int) bool { return func(t int) bool { return t%4 == 1 } },
			func(run []Step) float64 { return run[1].Ratio + run[5].Ratio },
		},
		"always or never": {
			func(r *rand.Rand) func(int) bool {
				in := r.Float64() < q
				return func(int) bool { return in }
			},
			func(run []Step) float64 {
				all := 0.0
				for _, x := range run {
					all += x.Ratio
				}
				return math.Log(1 - q + q*math.Exp(all))
			},
		},
	} {
		r := rand.New(rand.NewPCG(7, 8))
		others := func(int) int { return r.IntN(4) }
		var without, with [][]Step
		for range runs {
			without = append(without, imagine(r, steps, never, others))
			with = append(with, imagine(r, steps, x.in(r), others))
		}
		p := Learn(without, with, q, 4)
		off, square := 0.0, 0.0
		for range runs {
			run := imagine(r, steps, x.in(r), others)
			d, w := p.Ratio(run)-x.want(run), x.want(run)
			off, square = off+d*d/runs, square+w*w/runs
		}
		t.Logf("%s: off by %.3g of %.3g", name, math.Sqrt(off), math.Sqrt(square))
		if off > 0.05*square {
			t.Errorf("%s: off by %v where the ratio is %v, root mean square", name, math.Sqrt(off), math.Sqrt(square))
		}
	}
}

// Who else is in a batch tells where the canary is, although its own release tells nothing.
func TestPatternOfOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	never := func(int) bool { return false }
	play := func(canary bool) []Step {
		return imagine(r, 6, never, func(t int) int {
			if canary && t%3 == 0 {
				return 5
			}
			return r.IntN(4)
		})
	}
	var without, with [][]Step
	for range 500 {
		without, with = append(without, play(false)), append(with, play(true))
	}
	p := Learn(without, with, 0.25, 8)
	for range 200 {
		if a, b := p.Ratio(play(false)), p.Ratio(play(true)); a > 0 || b < 0 {
			t.Fatalf("without the canary %v, with it %v", a, b)
		}
	}
}
