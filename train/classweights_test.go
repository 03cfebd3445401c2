package train

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
)

// Weights of 1 change no bit of a loss, others do, and the result says what they assume. Two margins and four logits.
func TestClassWeights(t *testing.T) {
	for _, classes := range []int{2, 4} {
		set := func(weights ...float64) (Config, Options) {
			c := small()
			c.Noise, c.ClassWeights = dpoptim.Seeded, weights
			if classes == 4 {
				c.Classes = nil
			}
			return c, Options{Out: filepath.Join(t.TempDir(), "run"), Sources: sources(made(1, 400))}
		}
		run := func(weights ...float64) *Result {
			c, o := set(weights...)
			return finished(t, c, o)
		}
		const assumed = "class_weights_are_public"
		plain := run()
		ones := run([]float64{1, 1, 1, 1}[:classes]...)
		some := run([]float64{1, 0.01, 1, 1}[:classes]...)
		if *ones.TestLoss != *plain.TestLoss || *some.TestLoss == *plain.TestLoss {
			t.Errorf("%d classes: test loss %v without weights, %v with ones, %v with others", classes, *plain.TestLoss, *ones.TestLoss, *some.TestLoss)
		}
		if slices.Contains(plain.Assumptions, assumed) || !slices.Contains(some.Assumptions, assumed) {
			t.Errorf("%d classes: assumptions %q without weights, %q with", classes, plain.Assumptions, some.Assumptions)
		}
		c, o := set(1, 2, 3)
		if _, err := Run(t.Context(), c, o); !errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), "class_weights has 3 numbers") {
			t.Errorf("3 weights of %d classes: %v", classes, err)
		}
	}
}
