package pld

import "testing"

func BenchmarkSmall(b *testing.B) {
	for b.Loop() {
		if _, err := Epsilon([]Step{{[]Pair{Gaussian(1)}, 0.01, 100, false}}, false, 1e-5); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEpsilon(b *testing.B) {
	for b.Loop() {
		if _, err := Epsilon([]Step{{[]Pair{Gaussian(1)}, 0.005, 10000, false}}, false, 1e-5); err != nil {
			b.Fatal(err)
		}
	}
}

// hundred is 10⁵ events of 100 kinds.
func hundred() []Step {
	var steps []Step
	for i := range 100 {
		steps = append(steps, Step{[]Pair{Gaussian(1 / (0.8 + 0.01*float64(i)))}, 0.001 + 0.00002*float64(i%10), 1000, false})
	}
	return steps
}

func BenchmarkHundredKinds(b *testing.B) {
	for b.Loop() {
		if _, err := Epsilon(hundred(), false, 1e-5); err != nil {
			b.Fatal(err)
		}
	}
}
