package audit

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/internal/audit/oracle"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
)

// The canaries: what the adversary has to find out, and by which statistic.
const (
	// Gradient is a record with a long gradient, which clipping must shorten.
	Gradient = "gradient"
	// ZeroInput is a record whose every input is zero: the weights of the first
	// layer get no gradient, its bias does, and must count in the norm.
	ZeroInput = "zero-input"
	// Opposite is one of two records whose gradients point away from each other.
	Opposite = "opposite"
	// Difference is Gradient, looked for in the differences of two releases, in
	// which noise that was used twice would vanish.
	Difference = "difference"
	// Digits is Gradient, looked for in the last digits of what is released: not
	// every float can be the sum of noise and a given float.
	Digits = "digits"
	// Coordinates is Gradient, looked for across the coordinates of a release: noise that some of
	// them share vanishes in what they differ by.
	Coordinates = "coordinates"
	// Order is Gradient, looked for where in a run it takes part, and beside which others:
	// batches that are not drawn afresh follow a pattern.
	Order = "order"
	// Divisor is Gradient, looked for in how long the noise is in what the parameters move by: the
	// mean of a batch is a sum divided by a number, which may depend on no record.
	Divisor = "divisor"
	// Tight is a record that moves every answer of an optimizer as far as its bound allows. It
	// goes with optimizers that ask for more than sums of batches' gradients, and cannot be chosen.
	Tight = "tight"
)

// Canaries lists them.
func Canaries() []string {
	return []string{Gradient, ZeroInput, Opposite, Difference, Digits, Coordinates, Order, Divisor}
}

const syntheticName = "synthetic"

// records are the synthetic table and what each of its rows adds to a sum. A
// canary's row is canary[w] in world w, none where that is below zero.
type records struct {
	rows     device.Rows
	features device.Bytes
	canary   [2]int32
	shares   [][]float32 // of the rows beside the canaries
	norms    []float64   // of their gradients before clipping
	canaries [2][]float32
	lengths  [2]float64 // of the canaries' gradients before clipping
	norm     float64    // the shorter one, if two
}

// distance is how far apart the canaries' shares are.
func (r *records) distance() float64 {
	a, b := r.canaries[0], r.canaries[1]
	return math.Sqrt(max(dot(a, a)+dot(b, b)-2*dot(a, b), 0))
}

// dot is 0 where a vector is absent.
func dot(a, b []float32) float64 {
	s := 0.0
	if len(a) == len(b) {
		for i, x := range a {
			s += float64(x) * float64(b[i])
		}
	}
	return s
}

// zeroByte stands for an input of 0 in the table's scale.
const zeroByte = 128

// newRecords draws the records and picks the canaries, by their gradients at the initial parameters.
func newRecords(c Config, p *plan.Plan) (*records, error) {
	g := p.Network.Program
	width := ir.Size(g.Shape)
	r := &records{rows: device.Rows{Width: width, Gather: ir.Gather{ir.ScaledBy(1.0/zeroByte, -1)}}}
	random := rand.New(rand.NewPCG(c.Seed, 0x61756469))
	classes := classesOf(g)
	add := func(label int, image []uint8) {
		target := float32(label)
		if g.Loss != ir.SoftmaxCrossEntropy {
			target = 2*target - 1
		}
		r.rows.Targets = append(r.rows.Targets, target)
		r.features = append(r.features, image...)
		r.rows.Count++
	}
	// paint gives the values of an image: each of its own or, where records have views, one for all of a channel.
	paint := func(draw func() uint8) []uint8 {
		image, same := make([]uint8, width), 1
		if c.Augment != nil {
			same = width / g.Shape[0]
		}
		for i := range image {
			if image[i] = draw(); i%same > 0 {
				image[i] = image[i-1]
			}
		}
		return image
	}
	for range recordsBeside {
		label := random.IntN(classes)
		add(label, paint(func() uint8 { return uint8(random.Uint32()) }))
	}
	candidates := 1
	if c.Canary == ZeroInput {
		add(0, paint(func() uint8 { return zeroByte }))
	} else {
		// An image of extremes, its negative, and both under another label.
		image := paint(func() uint8 { return 1 + 254*uint8(random.IntN(2)) })
		negative := slices.Clone(image)
		for i := range negative {
			negative[i] = -negative[i] // 256 − b stands for the negative
		}
		candidates = 4
		for k := range candidates {
			add(k/2, [][]uint8{image, negative}[k%2])
		}
	}

	o, err := oracle.Open(p, r.rows, r.features)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	for i := range int32(recordsBeside) {
		share, norm, err := o.Share(i)
		if err != nil {
			return nil, err
		}
		r.shares, r.norms = append(r.shares, share), append(r.norms, norm)
	}
	return r, r.choose(c.Canary, candidates, o)
}

// choose takes the candidate of the longest gradient or, of pairs, the one whose
// shares are farthest apart.
func (r *records) choose(canary string, candidates int, o *oracle.Oracle) error {
	var shares [][]float32
	var norms []float64
	for k := range candidates {
		share, norm, err := o.Share(int32(recordsBeside + k))
		if err != nil {
			return err
		}
		shares, norms = append(shares, share), append(norms, norm)
	}
	r.canary = [2]int32{-1, -1}
	if canary != Opposite {
		best := slices.Index(norms, slices.Max(norms))
		r.canary[1], r.canaries[1], r.norm = int32(recordsBeside+best), shares[best], norms[best]
		r.lengths[1] = r.norm
		return nil
	}
	farthest := -1.0
	for j := range shares {
		for i := range j {
			if d := dot(shares[i], shares[i]) + dot(shares[j], shares[j]) - 2*dot(shares[i], shares[j]); d > farthest {
				farthest = d
				r.canary = [2]int32{int32(recordsBeside + i), int32(recordsBeside + j)}
				r.canaries = [2][]float32{shares[i], shares[j]}
				r.lengths, r.norm = [2]float64{norms[i], norms[j]}, min(norms[i], norms[j])
			}
		}
	}
	return nil
}
