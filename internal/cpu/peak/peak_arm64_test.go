//go:build !noasm

package peak

import "testing"

// Every one of the 24 registers grew by a half every round.
func TestChainsDoTheArithmeticThatIsCounted(t *testing.T) {
	for rounds := 1; rounds <= 9; rounds++ {
		got := [6]float32{4: -7}
		widest.chains(rounds, &got[0])
		each := float32(rounds*steps) / 2 / 2
		if want := ([6]float32{each, each, each, each, -7}); got != want {
			t.Errorf("%d rounds: %v, want %v", rounds, got, want)
		}
	}
}
