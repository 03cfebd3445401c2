package prv

import "testing"

func BenchmarkEpsilon(b *testing.B) {
	for b.Loop() {
		if _, err := Epsilon([]Step{{GaussianNoise, 1, 0.005, 10_000}}, false, 1e-5); err != nil {
			b.Fatal(err)
		}
	}
}
