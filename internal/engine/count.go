package engine

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/stream"
)

// Count releases a number of records that a record moves by one at most, whether it is added, removed or
// replaced, with the noise of a position that nothing has used: a whole number, which may be below zero.
func Count(records int64, noise accountant.Gaussian, s *stream.Stream, draw uint64) (float64, error) {
	m, err := mechanism.NewVector(noise, 1, 1, s, recordsNoise)
	if err != nil {
		return 0, err
	}
	count := []float64{float64(records)}
	if err := m.Release(count, draw); err != nil {
		return 0, err
	}
	return math.Round(count[0]), nil
}
