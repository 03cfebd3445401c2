package bench

import "time"

// turnSteps are the steps of a kind that are timed before the other's turn.
const turnSteps = 3

// inTurns takes steps of two kinds in turns, for so many seconds, and gives the seconds
// of each kind's steps but for those of the first turns.
func inTurns(seconds float64, first int, plain, other func() (time.Duration, error)) (alone, with []float64, err error) {
	budget := time.Duration(seconds * float64(time.Second))
	start := time.Now()
	for turn := 0; len(alone) == 0 || time.Since(start) < budget; turn++ {
		for _, kind := range []struct {
			step  func() (time.Duration, error)
			times *[]float64
		}{{plain, &alone}, {other, &with}} {
			for i := range turnSteps + 1 {
				took, err := kind.step()
				if err != nil {
					return nil, nil, err
				}
				// The first step of a turn finds the other kind's values in the caches, which no run does.
				if i > 0 && turn >= first && time.Since(start) > budget/10 {
					*kind.times = append(*kind.times, took.Seconds())
				}
			}
		}
	}
	return alone, with, nil
}
