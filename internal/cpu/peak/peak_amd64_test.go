//go:build !noasm

package peak

import (
	"math"
	"testing"

	"golang.org/x/sys/cpu"
)

// After k steps of x ← x/2 + 1 from zero x is 2·(1−2⁻ᵏ), which float32 holds exactly up to k = 24. The sums show that
// every register took every step that FLOPs counts.
func TestChainsDoTheArithmeticThatIsCounted(t *testing.T) {
	if !Run(1) {
		if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
			t.Fatal("Run refuses on a processor with AVX2 and FMA")
		}
		t.Skip("the processor has no AVX2 and FMA")
	}
	for rounds := 1; rounds <= 9; rounds++ {
		var got [10]float32
		got[8] = -7
		chains(rounds, &got[0])
		const lanes, flopsAStep = 8, 2
		steps := float64(rounds*FLOPs) / (12 * lanes * flopsAStep)
		want := float32(12 * 2 * (1 - math.Exp2(-steps)))
		for i := range lanes {
			if got[i] != want {
				t.Errorf("%d rounds: lane %d holds %v, want %v", rounds, i, got[i], want)
			}
		}
		if got[8] != -7 || got[9] != 0 {
			t.Errorf("%d rounds: written past the end", rounds)
		}
	}
}

func TestRunRefusesNoWork(t *testing.T) {
	if Run(0) || Run(-1) {
		t.Error("a loop that counts down from 0 or less would not end")
	}
}

func BenchmarkRun(b *testing.B) {
	const rounds = 4096
	for b.Loop() {
		if !Run(rounds) {
			b.Skip("no kernel for this processor")
		}
	}
	b.ReportMetric(rounds*FLOPs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
