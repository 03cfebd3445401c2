// Package timing is what all measurements share: what may be asked of one, the settings of timed
// steps, processes of their own, and medians.
package timing

import (
	"runtime"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
)

// Settings of every timed step.
const (
	Noised    = 1    // noise multiplier, where there is noise
	Scheduled = 1000 // T of the run that it belongs to
)

// CheckSeconds refuses what no measurement goes on for.
func CheckSeconds(s float64) error {
	if !(s > 0) || s > 3600 {
		return usage.Errorf("seconds %v: must be above 0 and at most 3600", s)
	}
	return nil
}

// CheckBatch refuses a batch that no step takes.
func CheckBatch(rows int) error {
	if rows < 1 || rows > mostRows {
		return usage.Errorf("batch %d: must be in [1, %d]", rows, mostRows)
	}
	return nil
}

// CheckRecords refuses a number of records that rows are not numbered up to.
func CheckRecords(n int) error {
	const most = 1<<31 - 1
	if n < 1 || n > most {
		return usage.Errorf("records %d: must be in [1, %d]", n, most)
	}
	return nil
}

// mostRows bounds a batch to what a step can take in a sensible time.
const mostRows = 1 << 20

// Threads are as many as were asked for, 0 meaning all.
func Threads(asked int) (int, error) {
	all := runtime.GOMAXPROCS(0)
	if asked < 0 || asked > all {
		return 0, usage.Errorf("threads %d: must be in [1, %d] on this machine, or 0 for all", asked, all)
	}
	if asked == 0 {
		return all, nil
	}
	return asked, nil
}

// Median of values that need not be sorted; of an even number the mean of the
// middle two.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
