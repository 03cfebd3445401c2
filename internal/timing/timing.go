package bench

import (
	"runtime"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
)

func checkSeconds(s float64) error {
	if !(s > 0) || s > 3600 {
		return usage.Errorf("seconds %v: must be above 0 and at most 3600", s)
	}
	return nil
}

func checkBatch(rows int) error {
	if rows < 1 || rows > mostRows {
		return usage.Errorf("batch %d: must be in [1, %d]", rows, mostRows)
	}
	return nil
}

// mostRows bounds a batch to what a step can take in a sensible time.
const mostRows = 1 << 20

// threadCounts are one thread and, where that is more, as many as were asked
// for, 0 meaning all.
func threadCounts(asked int) ([]int, error) {
	n, err := threads(asked)
	if err != nil || n == 1 {
		return []int{1}, err
	}
	return []int{1, n}, nil
}

func threads(asked int) (int, error) {
	all := runtime.GOMAXPROCS(0)
	if asked < 0 || asked > all {
		return 0, usage.Errorf("threads %d: must be in [1, %d] on this machine, or 0 for all", asked, all)
	}
	if asked == 0 {
		return all, nil
	}
	return asked, nil
}

// median of values that need not be sorted; of an even number the mean of the
// middle two.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
