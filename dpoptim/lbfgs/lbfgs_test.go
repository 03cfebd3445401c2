package lbfgs

import (
	"errors"
	"math"
	"testing"
)

// Rosenbrock's valley has its minimum at (1, …, 1).
func rosenbrock(x, g []float64) (float64, error) {
	f := 0.0
	clear(g)
	for i := range len(x) - 1 {
		a, b := 1-x[i], x[i+1]-x[i]*x[i]
		f += a*a + 100*b*b
		g[i] += -2*a - 400*b*x[i]
		g[i+1] += 200 * b
	}
	return 1 + f, nil
}

func TestLBFGS(t *testing.T) {
	x := make([]float64, 12)
	n, err := minimise(x, 1000, rosenbrock)
	if err != nil || n < 10 || n > 500 {
		t.Fatalf("%d iterations: %v", n, err)
	}
	for i, v := range x {
		if math.Abs(v-1) > 1e-2 {
			t.Errorf("coordinate %d is %v, the minimum is at 1", i, v)
		}
	}
	x = make([]float64, 12)
	if n, err := minimise(x, 3, rosenbrock); n != 3 || err != nil {
		t.Errorf("%d iterations of 3: %v", n, err)
	}
	start, _ := rosenbrock(make([]float64, 12), make([]float64, 12))
	if f, _ := rosenbrock(x, make([]float64, 12)); !(f < start) {
		t.Errorf("three iterations went from %v to %v", start, f)
	}
}

// Rounding ends a search; it is no error.
func TestLBFGSInSinglePrecision(t *testing.T) {
	x := make([]float64, 6)
	_, err := minimise(x, 1000, func(x, g []float64) (float64, error) {
		f, _ := rosenbrock(x, g)
		for i := range g {
			g[i] = float64(float32(g[i]))
		}
		return float64(float32(f)), nil
	})
	if err != nil {
		t.Error(err)
	}
	if f, _ := rosenbrock(x, make([]float64, 6)); f > 1.001 {
		t.Errorf("rounded, the search ends at %v, the minimum is 1", f)
	}
}

func TestLBFGSStops(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	if _, err := minimise(make([]float64, 3), 10, func(x, g []float64) (float64, error) {
		if calls++; calls > 2 {
			return 0, broken
		}
		return rosenbrock(x, g)
	}); !errors.Is(err, broken) {
		t.Errorf("a function that fails: %v", err)
	}
	if calls != 3 {
		t.Errorf("a function that failed was called %d times", calls)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := minimise(make([]float64, 3), 10, func(x, g []float64) (float64, error) { return bad, nil }); !errors.Is(err, errNoMinimum) {
			t.Errorf("a loss of %v: %v", bad, err)
		}
		if _, err := minimise(make([]float64, 3), 10, func(x, g []float64) (float64, error) { g[1] = bad; return 1, nil }); !errors.Is(err, errNoMinimum) {
			t.Errorf("a gradient of %v: %v", bad, err)
		}
	}
	if n, err := minimise(make([]float64, 3), 10, func(x, g []float64) (float64, error) { return 1, nil }); n != 0 || err != nil {
		t.Errorf("at the minimum: %d iterations, %v", n, err)
	}
}
