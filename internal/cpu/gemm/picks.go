package gemm

// Weights' gradients of convolutions under max pooling, where δ stands at one output of every window.

const (
	mostRuns    = 8         // of taps are summed up at a time, each in a register
	shortestRun = group / 2 // what is written behind one has its place in the next
)

// Picks are δ as max pooling gives it back: window k of channel j has Delta[j·Windows+k] at the output that
// At[j·Windows+k] names, counted through the outputs of all channels, and every other output has zero.
type Picks struct {
	Windows int // of a channel
	Delta   []float32
	At      []int32
}

// WorthPicks says whether ContractPicks is faster than Contract for so many channels of outputs and windows of each. It does
// not depend on the processor, so bits do not, either.
func (t *Taps) WorthPicks(out, windows int) bool {
	picks := out * windows * len(t.starts) // registers of taps, or of channels
	all := len(t.offsets) * t.rows * t.cols * ((out + group - 1) / group)
	return t.run >= shortestRun && t.run <= group && 4*picks <= 3*all
}

// PickReach is how many floats an image needs to have for ContractPicks.
func (t *Taps) PickReach() int {
	furthest := int32(0)
	for _, at := range t.starts {
		furthest = max(furthest, at)
	}
	return (t.rows-1)*t.pitch + t.cols - 1 + int(furthest)/4 + group
}

// ContractPicks computes the gradient of a convolution's weights, a row of taps for every channel of outputs: element (j, p)
// of c is Σ_k x[place(k) + offset(p)]·δ(j, k) over the channel's windows, a chain of multiply-adds from zero in their order.
// Outputs that no window picked do not enter, even where x is infinite or NaN. An At that names an output of another channel
// is the caller's error, and not found.
func ContractPicks(c, x []float32, t *Taps, p Picks) {
	if len(c) == 0 || p.Windows == 0 {
		clear(c)
		return
	}
	channels := len(p.Delta) / p.Windows
	agree(len(p.Delta), channels*p.Windows)
	agree(len(p.At), len(p.Delta))
	agree(len(c), channels*len(t.offsets))
	within(shortestRun, t.run, group)
	within(t.PickReach(), len(x), len(x))
	runs := splitBy(len(t.starts), mostRuns)
	for i := range runs.panels {
		first, h := runs.panel(i)
		picks(h, channels, p, t, x, t.starts[first:first+h], c[first*t.run:])
	}
}
