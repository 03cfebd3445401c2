package accountant

import "testing"

// BenchmarkConversion measures one conversion of a whole curve to ε.
func BenchmarkConversion(b *testing.B) {
	for _, c := range []struct {
		name    string
		convert conversion
	}{{"tight", tight}, {"paper", proposition1}} {
		b.Run(c.name, func(b *testing.B) {
			orders := defaultOrders()
			least := 1e9
			for b.Loop() {
				for _, order := range orders {
					least = min(least, c.convert(0.01*order, order, 1e-5))
				}
			}
			if !(least < 1e9) {
				b.Fatal("no ε")
			}
		})
	}
}
