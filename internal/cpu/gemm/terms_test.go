package gemm

import "testing"

func TestTerms(t *testing.T) {
	for k, want := range map[int]int{0: 0, 1: 3, 64: 66, 320: 322, 321: 168 + 3, 1024: 256 + 5} {
		if got := Terms(k); got != want {
			t.Errorf("%d values give %d roundings, want %d", k, got, want)
		}
	}
}
