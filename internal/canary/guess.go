package canary

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Threshold is the product above which a canary is taken for one that takes part: half of what it adds to the product in so many steps, on
// average. It is fixed before the run.
func Threshold(rate, clip float64, steps int) float64 { return rate * clip * float64(steps) / 2 }

// Guess is how many coins are guessed rightly.
func (h *Heard) Guess(threshold float64, coins []bool) (right int) {
	for i, x := range h.Products {
		if (x > threshold) == coins[i] {
			right++
		}
	}
	return right
}

// Chance is the probability of a right guess, of sums with noise of so many clip norms, where a canary's gradient is so long, too.
func Chance(rate float64, steps int, noise, length float64) float64 {
	threshold, spread := Threshold(rate, 1, steps), noise*math.Sqrt(float64(steps))
	above := func(signal float64) float64 { return math.Erfc((threshold-signal)/spread/math.Sqrt2) / 2 }
	partaking := above(length * float64(steps)) // of the rate 1
	if drawn := (distuv.Binomial{N: float64(steps), P: rate}); rate < 1 {
		partaking = 0
		for n := range steps + 1 {
			partaking += drawn.Prob(float64(n)) * above(length*float64(n))
		}
	}
	return (partaking + 1 - above(0)) / 2
}
