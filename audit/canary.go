package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
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
	// Tight is a record that moves every answer of an optimizer as far as its bound allows. It
	// goes with optimizers that ask for more than sums of batches' gradients, and cannot be chosen.
	Tight = "tight"
)

// Canaries lists them.
func Canaries() []string { return []string{Gradient, ZeroInput, Opposite, Difference, Digits} }

const syntheticName = "synthetic"

// records are the synthetic table and what each of its rows adds to a sum. A
// canary's row is canary[w] in world w, none where that is below zero.
type records struct {
	rows     device.Rows
	features device.Bytes
	canary   [2]int32
	shares   [][]float32 // of the rows beside the canaries
	canaries [2][]float32
	norm     float64 // of the canary's gradient before clipping; of the shorter one, if two
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

// newRecords draws the records and picks the canaries, by their gradients at the
// initial parameters.
func newRecords(c Config, p *plan.Plan) (*records, error) {
	g := p.Network.Program
	width := ir.Size(g.Shape)
	r := &records{rows: device.Rows{Width: width, Scale: 1.0 / zeroByte, Offset: -1}}
	random := rand.New(rand.NewPCG(c.Seed, 0x61756469))
	classes := classesOf(g)
	add := func(label int, pixel func() uint8) {
		target := float32(label)
		if g.Loss != ir.SoftmaxCrossEntropy {
			target = 2*target - 1
		}
		r.rows.Targets = append(r.rows.Targets, target)
		for range width {
			r.features = append(r.features, pixel())
		}
		r.rows.Count++
	}
	for range recordsBeside {
		add(random.IntN(classes), func() uint8 { return uint8(random.Uint32()) })
	}
	candidates := 1
	if c.Canary == ZeroInput {
		add(0, func() uint8 { return zeroByte })
	} else {
		// An image of extremes, its negative, and both under another label.
		image := make([]uint8, width)
		for i := range image {
			image[i] = 1 + 254*uint8(random.IntN(2))
		}
		candidates = 4
		for k := range candidates {
			i := -1
			add(k/2, func() uint8 {
				i++
				if k%2 == 1 {
					return -image[i] // 256 − b stands for the negative
				}
				return image[i]
			})
		}
	}

	o, err := newOracle(p, r)
	if err != nil {
		return nil, err
	}
	defer o.net.Close()
	for i := range int32(recordsBeside) {
		share, _, err := o.share(i)
		if err != nil {
			return nil, err
		}
		r.shares = append(r.shares, share)
	}
	return r, r.choose(c.Canary, candidates, o)
}

// choose takes the candidate of the longest gradient or, of pairs, the one whose
// shares are farthest apart.
func (r *records) choose(canary string, candidates int, o *oracle) error {
	var shares [][]float32
	var norms []float64
	for k := range candidates {
		share, norm, err := o.share(int32(recordsBeside + k))
		if err != nil {
			return err
		}
		shares, norms = append(shares, share), append(norms, norm)
	}
	r.canary = [2]int32{-1, -1}
	if canary != Opposite {
		best := slices.Index(norms, slices.Max(norms))
		r.canary[1], r.canaries[1], r.norm = int32(recordsBeside+best), shares[best], norms[best]
		return nil
	}
	farthest := -1.0
	for j := range shares {
		for i := range j {
			if d := dot(shares[i], shares[i]) + dot(shares[j], shares[j]) - 2*dot(shares[i], shares[j]); d > farthest {
				farthest = d
				r.canary = [2]int32{int32(recordsBeside + i), int32(recordsBeside + j)}
				r.canaries = [2][]float32{shares[i], shares[j]}
				r.norm = min(norms[i], norms[j])
			}
		}
	}
	return nil
}

// An oracle knows what a record adds to a sum: its gradient by the reference
// device, from a schedule that neither measures nor clips, clipped here. It
// shares nothing with what is audited but the network.
type oracle struct {
	plan   *plan.Plan
	net    device.Net
	sum    device.Step
	read   device.Step
	vector device.Vector
	draw   uint64
	buffer []float32
}

func newOracle(p *plan.Plan, r *records) (o *oracle, err error) {
	schedule, err := perexample.Plain(p.Network.Program)
	if err != nil {
		return nil, err
	}
	d := reference.Open()
	data, err := d.Load(r.rows, r.features)
	if err != nil {
		return nil, err
	}
	o = &oracle{plan: p, buffer: make([]float32, p.Network.Program.NumParams())}
	if o.net, err = d.Compile(schedule, device.Options{Capacity: 1}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.net.Close()
		}
	}()
	if err = o.net.Write(o.net.Params(), p.Network.Params()); err != nil {
		return nil, err
	}
	if o.vector, err = o.net.NewVector(1); err != nil {
		return nil, err
	}
	sum, err := o.net.NewSum()
	if err != nil {
		return nil, err
	}
	if o.sum, err = o.net.Record(func(q device.Queue) { q.ClippedSum(sum, data) }); err != nil {
		return nil, err
	}
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(0, "audit oracle, never drawn from"))
	if err != nil {
		return nil, err
	}
	m := mechanism.NewUnprotected(1, noise)
	o.read, err = o.net.Record(func(q device.Queue) { m.Release(q, o.vector, sum) })
	return o, err
}

// share gives what a row adds to a sum, and the norm of its gradient.
func (o *oracle) share(row int32) ([]float32, float64, error) {
	o.draw++
	if err := o.sum.Run(&device.Inputs{Rows: []int32{row}}); err != nil {
		return nil, 0, err
	}
	if err := o.read.Run(&device.Inputs{Draw: o.draw}); err != nil {
		return nil, 0, err
	}
	if err := o.net.Read(o.vector, o.buffer); err != nil {
		return nil, 0, err
	}
	norm := math.Sqrt(dot(o.buffer, o.buffer))
	if !(norm <= math.MaxFloat32) {
		return nil, 0, fmt.Errorf("the gradient of a synthetic record is not finite: choose another --seed")
	}
	share := make([]float32, len(o.buffer))
	clip(share, o.buffer, o.plan)
	return share, norm, nil
}

// clip writes the clipped gradient, by the definitions of perexample's clippings.
func clip(dst, g []float32, p *plan.Plan) {
	all := p.Network.Program.Params
	kind, bound := perexample.Clipping(p.Config.Clipping), p.Config.Clip
	groups := [][]ir.Param{all}
	if kind == perexample.PerLayer {
		groups = nil
		for _, op := range p.Network.Program.Ops {
			var layer []ir.Param
			for _, i := range []int{op.Weight, op.Bias} {
				if i != ir.None {
					layer = append(layer, all[i])
				}
			}
			if len(layer) > 0 {
				groups = append(groups, layer)
			}
		}
		bound /= math.Sqrt(float64(len(groups)))
	}
	for _, group := range groups {
		square := 0.0
		for _, q := range group {
			part := g[q.Offset : q.Offset+q.Size()]
			square += dot(part, part)
		}
		if square == 0 {
			continue
		}
		factor := min(1, bound/math.Sqrt(square))
		if kind == perexample.Automatic {
			factor = bound / (math.Sqrt(square) + ir.AutomaticGamma)
		}
		for _, q := range group {
			for i := q.Offset; i < q.Offset+q.Size(); i++ {
				dst[i] = float32(factor * float64(g[i]))
			}
		}
	}
}
