package canary

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// score is above 0 where a canary is likelier to take part than not. The more it is above or below, the surer.
func (p *Products) score(rate float64, i int) float64 { return p.Signal[i] - rate/2*p.Energy[i] }

// likeliest are all canaries, the surest guess first.
func (p *Products) likeliest(rate float64) []int {
	order := make([]int, len(p.Signal))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(math.Abs(p.score(rate, b)), math.Abs(p.score(rate, a)))
	})
	return order
}

// Guess puts the likeliest guesses first, of so many, and says how many of them are right. rate is the probability that a canary which takes part is in
// a batch.
func (p *Products) Guess(rate float64, guesses int, coins []bool) (right int) {
	for _, i := range p.likeliest(rate)[:guesses] {
		if p.score(rate, i) > 0 == coins[i] {
			right++
		}
	}
	return right
}

// A World is a run as a guess sees it: the products of canaries whose gradients are as long as the clip norm.
type World struct {
	Rate  float64
	Steps int
	Noise float64 // in units of the clip norm
}

// Play draws coins and products of a run in which every record counts so many times.
func (w World) Play(random *rand.Rand, canaries int, times float64) (p *Products, coins []bool) {
	p, coins = Silence(canaries), make([]bool, canaries)
	steps := float64(w.Steps)
	for i := range coins {
		p.Energy[i] = steps
		p.Signal[i] = w.Noise * math.Sqrt(steps) * random.NormFloat64()
		if coins[i] = random.IntN(2) == 1; coins[i] {
			for range w.Steps {
				if random.Float64() < w.Rate {
					p.Signal[i] += times
				}
			}
		}
	}
	return p, coins
}
