// Package peak keeps a processor's multiply-add units busy: the speed that a matrix product can be held against.
package peak

//go:generate go run -C ../gen .

// steps is the arithmetic of one round and lane: two multiply-adds in each of twelve registers.
const steps = 2 * 12 * 2

// A loop does rounds of multiply-adds in the registers of an instruction set.
type loop struct {
	isa    string
	lanes  int // of a register
	chains func(rounds int, sum *float32)
}

// ISA names the widest instruction set of the processor that there is a loop for, which Run uses; "" where there is none.
func ISA() string { return widest.isa }

// FLOPs is the arithmetic of one round of Run.
func FLOPs() int { return steps * widest.lanes }

// Run does a number of rounds. It reports false, having done nothing, where ISA is "" or rounds is less than one.
func Run(rounds int) bool {
	if rounds < 1 || widest.chains == nil {
		return false
	}
	var sum [16]float32
	widest.chains(rounds, &sum[0])
	return true
}
