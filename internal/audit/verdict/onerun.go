package verdict

import "math"

// OneRun bounds from above the probability that so many of an adversary's guesses are right, if the claim holds. Fair coins decide,
// one for each canary and independent of each other, whether it takes part in a run. The adversary sees what the run releases and guesses
// a fixed number of the coins, of its choice.
//
// The bound is that of Mahloujifar, Melis and Chaudhuri 2025 ("Auditing f-Differential Privacy in One Run"), for coins. Nothing is assumed of what
// canaries do to each other. docs/proofs/one-run.md proves it.
func (k *Claim) OneRun(canaries, guesses, right int) float64 {
	if right <= 0 || guesses <= 0 {
		return 1
	}
	if !k.refutes(canaries, guesses, right, 1) {
		return 1
	}
	low, high := -700., 0. // logarithms of probabilities
	for range 60 {
		if middle := (low + high) / 2; k.refutes(canaries, guesses, right, math.Exp(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Exp(high)
}

// refutes reports whether the claim excludes that at least so many guesses are right with a probability.
func (k *Claim) refutes(canaries, guesses, right int, probability float64) bool {
	n, g := float64(canaries), float64(guesses)
	hit := probability * float64(right) / n        // least probability that a coin is guessed rightly, and so many in all or more
	miss := probability * (g - float64(right)) / n // of a wrong guess, and so many right ones
	for i := right - 1; i >= 0; i-- {
		least := k.leastMiss(hit)
		hit += float64(i) / (g - float64(i)) * (least - miss)
		if miss = least; hit+miss > g/n {
			return true
		}
	}
	return false
}

// leastMiss is the least probability, under the claim, of an event in one world that has a given probability in the other.
func (k *Claim) leastMiss(probability float64) (least float64) {
	for _, p := range k.Curve {
		least = max(least, (probability-p.Delta)*p.Down, 1-p.Delta-p.Up*(1-probability))
	}
	return least
}
