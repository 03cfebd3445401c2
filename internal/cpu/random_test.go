package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// randomNetwork has convolutions of any geometry, half of them standardized, and what may stand behind one.
func randomNetwork(r *rand.Rand) *ir.Program {
	b := devicetest.NewBuilder(fmt.Sprint("random ", r.Uint32()), ir.SoftmaxCrossEntropy, 1+r.IntN(3), 5+r.IntN(5), 5+r.IntN(5))
	p, x := b.Program(), ir.Input
	shape := func() []int {
		if x == ir.Input {
			return p.Shape
		}
		return p.Ops[x-1].Out
	}
	// Outputs of an activation are often near 0, a kink, or equal.
	kinked := func(kink func()) func() {
		return func() {
			if p.Ops[x-1].Weight != ir.None {
				kink()
			}
		}
	}
	behind := []func(){
		kinked(func() { x = b.Act(ir.ReLU, x) }),
		func() { x = b.Act(ir.GELU, x) },
		kinked(func() { x = b.Pool(ir.MaxPool, x, ir.Square(2, 1+r.IntN(2), 0)) }), // which may pick
		func() { x = b.LayerNorm(x, r.IntN(2) == 0) },
		func() { x = b.GroupNorm(x, 1, r.IntN(2) == 0) },
		func() { // read twice
			x = b.Add(b.StandardConv(x, shape()[0], ir.Square(3, 1, 1), false), b.StandardConv(x, shape()[0], ir.Square(3, 1, 1), true))
		},
	}
	for range 1 + r.IntN(3) {
		// No window sees padding alone: equal outputs tie.
		h, cols := 1+r.IntN(3), 2+r.IntN(2)
		w := ir.Window{
			H: h, W: cols, StrideH: 1 + r.IntN(2), StrideW: 1 + r.IntN(3), PadTop: r.IntN(h), PadBottom: r.IntN(h), PadLeft: r.IntN(cols), PadRight: r.IntN(cols),
			DilationH: 1 + r.IntN(2), DilationW: 1 + r.IntN(2),
		}
		if r.IntN(2) == 0 {
			w = ir.Square(3, 1, 1)
		}
		if h, cols := w.Out(shape()[1], shape()[2]); min(h, cols) < 3 {
			continue
		}
		if r.IntN(2) == 0 {
			x = b.Conv(x, 2+r.IntN(17), w, r.IntN(2) == 0)
		} else {
			x = b.StandardConv(x, 2+r.IntN(17), w, r.IntN(2) == 0)
		}
		for range r.IntN(3) {
			if s := shape(); s[1] > 2 && s[2] > 4 { // lines of few elements magnify rounding
				behind[r.IntN(len(behind))]()
			}
		}
	}
	b.Dense(x, 4, r.IntN(2) == 0)
	return p
}

// TestRandomNetworks compares each record's clipped gradient and their sum with the reference's, by choices for each layer
// that are drawn too. The tolerance is the suite's twice over: random networks have deeper cancellations than its programs.
func TestRandomNetworks(t *testing.T) {
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := randomNetwork(r)
		c := devicetest.NewCase(t, p, 5, seed)
		strategy := perexample.Strategies()[r.IntN(len(perexample.Strategies()))]
		for i := range p.Ops {
			if choices := []perexample.Choice{perexample.Store, perexample.Recompute}; p.Ops[i].Kind == ir.Conv && r.IntN(3) > 0 {
				strategy += perexample.Strategy(fmt.Sprintf(",%s=%s", p.Ops[i].Name, choices[r.IntN(2)]))
			}
		}
		clipping := []ir.Clipping{ir.Flat, ir.PerLayer, ir.Automatic}[r.IntN(3)]
		s, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: clipping})
		check(t, err)
		truth, err := perexample.Private(p, perexample.Options{Strategy: perexample.Microbatch, Clipping: clipping})
		check(t, err)
		if s.Chunk == 0 {
			s.Chunk = r.IntN(5)
		}
		d, err := Open(1 + r.IntN(3))
		check(t, err)
		ref, x := devicetest.Open(t, reference.Open(), truth, c, 5), devicetest.Open(t, d, s, c, 1+r.IntN(6))
		plain, err := perexample.Plain(p)
		check(t, err)
		clip := devicetest.Norm(devicetest.Open(t, reference.Open(), plain, c, 1).Of(t, []int32{0}, 0)) // other records are longer or shorter
		for row := range c.All() {
			share := x.Of(t, []int32{int32(row)}, clip)
			devicetest.Near(t, share, ref.Of(t, []int32{int32(row)}, clip), 2*devicetest.Tolerance)
			if n, most := devicetest.Norm(share), float64(float32(clip))*(1+x.Net.Rounding(1)); !(n <= most) {
				t.Errorf("record %d has a share of %v, above %v", row, n, most)
			}
		}
		devicetest.Near(t, x.Of(t, c.All(), clip), ref.Of(t, c.All(), clip), 2*devicetest.Tolerance)
		if t.Failed() {
			t.Fatalf("seed %d, %s, %s clipping:\n%s", seed, strategy, clipping, p)
		}
	}
}
