package gemm

// A Picker computes the gradient of a convolution's weights under max pooling, where δ stands at one output of every window.
type Picker struct {
	taps    *Taps
	windows int     // of a channel
	places  []int32 // bytes from the start of an image to each output
	reach   int
}

const (
	mostRuns    = 8         // of taps are summed up at a time, each in a register
	shortestRun = group / 2 // what is written behind one has its place in the next
)

// NewPicker plans that for so many channels of outputs and windows of each. It is nil where Contract does about as well, by a
// rule that does not look at the processor, and where windows are so many that their sum would need blocks.
func NewPicker(t *Taps, out, windows int) *Picker {
	// Multiply-adds of registers, whose lanes are taps here, and channels in Contract.
	picks := out * windows * len(t.starts)
	all := len(t.offsets) * t.rows * t.cols * ((out + group - 1) / group)
	if t.run < shortestRun || t.run > group || windows > blockPos || 4*picks > 3*all {
		return nil
	}
	p := &Picker{taps: t, windows: windows}
	for i := range t.rows {
		for j := range t.cols {
			p.places = append(p.places, int32(4*(i*t.pitch+j)))
		}
	}
	furthest := int32(0)
	for _, at := range t.starts {
		furthest = max(furthest, at)
	}
	p.reach = int(p.places[len(p.places)-1]+furthest)/4 + group
	return p
}

// Reach is how many floats an image needs to have.
func (p *Picker) Reach() int { return p.reach }

// Contract writes the gradient, a row of taps for every channel of outputs. The windows of all channels lie one after the
// other: number k has delta[k] at output at[k], counted through the outputs of all channels. Element (j, p) of c is
// Σ x[place(k) + offset(p)]·δ(k) over the windows k of channel j, a chain of multiply-adds from zero in their order. An output
// that no window picked does not enter, even where x is infinite there. That at names outputs of the window's own channel is
// not checked.
func (p *Picker) Contract(c, x, delta []float32, at []int32) {
	channels := len(delta) / p.windows
	agree(len(delta), channels*p.windows)
	agree(len(at), len(delta))
	agree(len(c), channels*len(p.taps.offsets))
	within(p.reach, len(x), len(x))
	if channels == 0 {
		return
	}
	runs := splitBy(len(p.taps.starts), mostRuns)
	for i := range runs.panels {
		first, h := runs.panel(i)
		p.runs(first, h, channels, c[first*p.taps.run:], x, delta, at)
	}
}
