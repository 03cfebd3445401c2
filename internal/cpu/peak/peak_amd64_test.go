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
	if Run(1) != (cpu.X86.HasAVX2 && cpu.X86.HasFMA) || Run(1) != (ISA() != "") {
		t.Fatalf("Run(1) is %t with instruction set %q", Run(1), ISA())
	}
	for _, l := range loops() {
		for rounds := 1; rounds <= 9; rounds++ {
			got := make([]float32, l.lanes+2)
			got[l.lanes] = -7
			l.chains(rounds, &got[0])
			const flopsAStep = 2
			steps := float64(rounds*steps) / (12 * flopsAStep)
			want := float32(12 * 2 * (1 - math.Exp2(-steps)))
			for i := range l.lanes {
				if got[i] != want {
					t.Errorf("%s, %d rounds: lane %d holds %v, want %v", l.isa, rounds, i, got[i], want)
				}
			}
			if got[l.lanes] != -7 || got[l.lanes+1] != 0 {
				t.Errorf("%s, %d rounds: written past the end", l.isa, rounds)
			}
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
	b.ReportMetric(float64(rounds*FLOPs())*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
