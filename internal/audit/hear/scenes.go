package hear

import (
	"slices"

	"github.com/privgrad/privgrad/accountant"
)

// SearchClip is the bound on the losses of Downhill.
const SearchClip = 3

// Alone is a record that is there or not, or one of two that are opposites.
func Alone(neighbouring string) *Scene {
	return neighbours(&Scene{Features: []float64{1, 1}, Targets: []float64{-1, 1}, Params: []float32{0, 0}}, neighbouring)
}

// neighbours makes of the last two records the canaries.
func neighbours(s *Scene, neighbouring string) *Scene {
	s.Beside = len(s.Features) - 2
	s.Canary = [2]int32{-1, int32(s.Beside) + 1}
	if neighbouring == string(accountant.ReplaceOne) {
		s.Canary[0] = int32(s.Beside)
	}
	return s
}

// Besides is the same beside a record of the first class.
func Besides(neighbouring string) *Scene {
	return neighbours(&Scene{Features: []float64{1, 1, 1}, Targets: []float64{-1, -1, 1}, Params: []float32{0, 0}}, neighbouring)
}

// Downhill has records beside the canary whose gradients give the direction, and whose losses are
// above the bound before and behind a step of 1 or more along it. The step takes the
// canary's loss from the bound to 0, or that of its opposite from 0 to the bound.
func Downhill(neighbouring string) *Scene {
	const many, far, fast = 30, 60, 100
	weight := float32(far-SearchClip) / (fast - 1) // of which the many have a margin of −far, and the canary of −SearchClip
	return neighbours(&Scene{
		Features: append(slices.Repeat([]float64{1}, many), fast, fast), Targets: append(slices.Repeat([]float64{1}, many), -1, 1),
		Params: []float32{weight, -far - weight},
	}, neighbouring)
}

// Steep is a regression on targets so far away that every gradient and every move is as long as
// the bound, wherever the parameters are.
func Steep(neighbouring string) *Scene {
	return neighbours(&Scene{Features: []float64{1, 1}, Targets: []float64{-1e6, 1e6}, Params: []float32{0, 0}, Regression: true}, neighbouring)
}
