package kernels

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// without removes the n-th of a text's barriers.
func without(text []byte, n int) []byte {
	parts := bytes.Split(text, []byte("bar.sync \t0;"))
	if n+1 >= len(parts) {
		return nil
	}
	return bytes.Join([][]byte{bytes.Join(parts[:n+1], []byte("bar.sync \t0;")), bytes.Join(parts[n+1:], []byte("bar.sync \t0;"))}, nil)
}

// holder is the kernel that has the n-th of a text's barriers.
func holder(text []byte, n int) string {
	before := bytes.Join(bytes.Split(text, []byte("bar.sync \t0;"))[:n+1], nil)
	name, _, _ := bytes.Cut(before[bytes.LastIndex(before, []byte(".entry "))+len(".entry "):], []byte("("))
	return string(name)
}

// TestLongMissingBarriers plants the fault that a GPU shows least reliably: without any one of its barriers a kernel is
// found to race, but for the last of blockSum where another follows, or where its first thread alone has the sum.
func TestLongMissingBarriers(t *testing.T) {
	if gputest.On() {
		t.Skip("a GPU finds no races")
	}
	rng := rand.New(rand.NewPCG(14, 1))
	for _, c := range []struct {
		module   string
		needless int
		launches func(*machine) []Launch
	}{
		{"dense", 0, func(m *machine) []Launch {
			// Two rounds of sums. Four slabs of terms, the last of which lies where results are exchanged.
			const wide = 200
			s := size{130, 130}
			op, back, few := denseOp(wide, 40, true), denseOp(40, wide, true), denseOp(wide, 10, true)
			b, x, dy, w := m.batch(s), m.floats(normals(rng, s.capacity*wide)), m.floats(normals(rng, s.capacity*40)), m.floats(normals(rng, wide*40))
			bias, sums, factors := m.floats(normals(rng, 40)), m.doubles(make([]float64, (wide+1)*40)), m.floats(fill(s.capacity, 0.5))
			z := m.empty(s.capacity * 10)
			all := []Launch{DenseForward(b, few, x, w, bias, z), DenseInputGrad(b, few, dy, w, m.empty(s.capacity*wide), false)}
			loss, ok := LossGradBehind(all[0], ir.SoftmaxCrossEntropy, 10, z, m.floats(fill(s.capacity, 1)), m.empty(s.capacity*10))
			if !ok {
				t.Fatal("a last layer leaves the loss to others")
			}
			all = append(all, loss)
			tilesOf(&productTiles, func(string) {
				all = append(all, DenseForward(b, op, x, w, bias, m.empty(s.capacity*40)), DenseInputGrad(b, back, x, w, m.empty(s.capacity*40), false))
			})
			tilesOf(&sumTiles, func(string) {
				all = append(all, DenseSum(b, op, x, dy, factors, sums, sums+8*wide*40), DenseSum(b, few, x, dy, factors, sums, sums+8*wide*40))
			})
			return all
		}},
		{"densesum_tf32", 0, func(m *machine) []Launch { return tensorSums(m, pixelMaths[0], rng) }},
		{"densesum_bf16", 0, func(m *machine) []Launch { return tensorSums(m, pixelMaths[1], rng) }},
		{"groupnorm", 0, func(m *machine) (all []Launch) {
			// Two rounds of units in pixels, and channels that several lanes have in planes.
			for i, k := range []Math{maths[0], maths[0], maths[1], maths[2]} {
				op := normOp(1, true, 264, 2, []int{4, 1, 2, 2}[i])
				n := ir.Size(op.Shape)
				b, x, w := m.batch(size{1, 1}), m.floats(normals(rng, n)), m.floats(normals(rng, 264))
				back := NormBack{X: x, Dy: x, Weight: w, Moments: m.alloc(MomentBytes(op)), Dx: m.empty(n), Kept: m.empty(2 * 264), Stride: 2 * 264, Norm2: m.doubles([]float64{0})}
				forward, backward := k.GroupNormActivated, k.GroupNormBackward
				if k.plain() {
					forward, backward = GroupNormActivated, GroupNormBackward
				}
				all = append(all, forward(b, op, noActivation, x, w, w, m.empty(n), back.Moments), backward(b, op, back))
			}
			return all
		}},
		{"turn", 0, func(m *machine) (all []Launch) {
			for _, k := range maths[1:] {
				for _, c := range []int{3, 40} {
					shape, b, x := []int{c, 2, 4}, m.batch(size{1, 1}), m.floats(normals(rng, 8*40))
					all = append(all, k.ToPixels(b, shape, x, m.empty(8*40), false), k.FromPixels(b, shape, x, m.empty(8*40), false), k.Flat(b, shape, x, m.empty(8*40)),
						k.FlatGrad(b, shape, x, m.empty(8*40), false))
				}
			}
			return all
		}},
		{"pixelpool", 2, func(m *machine) (all []Launch) { // a maximum is written by who has found it
			for _, k := range maths[1:] {
				op := imageOp(ir.MaxPool, 24, 4, 4, 24, ir.Square(4, 4, 0), false)
				mean := *op
				mean.Kind = ir.AvgPool
				b, x := m.batch(size{1, 1}), m.floats(normals(rng, 16*24))
				all = append(all, k.MaxPool(b, op, x, m.empty(24)), k.MaxPoolGrad(b, op, x, x, m.empty(16*24), false), k.AvgPool(b, &mean, x, m.empty(24)))
			}
			return all
		}},
		{"layernorm", 2, func(m *machine) (all []Launch) {
			// Rows that several warps share, one after the other, and rows in two chunks; of large examples and of small ones, which are one chunk.
			for _, l := range [][2]int{{7, 600}, {7, 601}, {600, 8}, {600, 3}, {1, 600}, {1, 601}, {20, 30}} {
				op, n := layerOp(l[0], l[1], true), l[0]*l[1]
				b, x, w := m.batch(size{1, 1}), m.floats(normals(rng, n)), m.floats(normals(rng, l[1]))
				back := NormBack{X: x, Dy: x, Weight: w, Moments: m.alloc(LayerNormMomentBytes(op)), Dx: m.empty(n), Kept: m.empty(2 * l[1]), Stride: 2 * l[1], Norm2: m.doubles([]float64{0})}
				all = append(all, LayerNorm(b, op, x, w, w, m.empty(n), back.Moments), LayerNormBackward(b, op, back))
			}
			return all
		}},
		{"standardize", 1, func(m *machine) []Launch {
			const out, k = 17, 40
			b, w, gain, moments := m.batch(size{1, 1}), m.floats(normals(rng, out*k)), m.floats(normals(rng, out)), m.alloc(StandardizeMomentBytes(out))
			sum := m.doubles(make([]float64, out*(k+1)))
			all := []Launch{
				Standardize(out, k, w, gain, m.empty(out*k), moments, 0),
				StandardizeGrad(b, out, k, 0, w, gain, moments, m.floats(normals(rng, out*(k+1))), out*(k+1), m.doubles([]float64{0})),
				StandardizeSum(out, k, w, gain, moments, m.doubles(make([]float64, out*k)), sum, sum+Ptr(8*out*k)),
			}
			const n, records = 2 * 8, 16*ExampleBlock + 1 // more than all warps have at once
			c := &Standardized{Out: 2, K: n / 2, Gain: gain, Moments: moments, Hat: w, Kept: m.floats(normals(rng, records*n)), Stride: n, Turns: m.floats(normals(rng, records*4))}
			single := StandardizeCombine(m.batch(size{records, records}), c, m.floats(normals(rng, records)), n, sum)
			fours := single
			fours.Name, fours.Block[0] = "standardize_combine_fours", 8*warp
			return append(all, single, fours)
		}},
		{"views", 1, func(m *machine) []Launch {
			const n, views = 300, 2
			return []Launch{ViewMean(m.batch(size{1, 1}), views, n, m.floats(normals(rng, views*n)), n, m.empty(n), n, m.doubles([]float64{0}))}
		}},
		{"trunk", 1, func(m *machine) []Launch { return trunkLaunches(t, m, rng, trunkPrograms()[1]) }},
		{"fixed", 4, func(m *machine) (all []Launch) {
			for _, p := range trunkPrograms() {
				if p.Shape[1] == 28 {
					all = append(all, trunkLaunches(t, m, rng, p)...)
				}
			}
			return all
		}},
		{"stencil", 0, func(m *machine) (all []Launch) {
			for _, d := range [][3]int{{3, 9, 33}, {3, 8, 33}, {3, 9, 5}, {5, 5, 5}, {5, 5, 9}} {
				op := imageOp(ir.Conv, d[2], 5, d[1], d[2], ir.Square(d[0], 1, d[0]%5/3), false)
				n := ir.Size(op.Shape)
				b, x, w := m.batch(size{1, 1}), m.floats(normals(rng, n)), m.floats(normals(rng, d[0]*d[0]*d[2]*d[2]))
				all = append(all, ConvForward(b, op, x, w, 0, m.empty(n)), ConvInputGrad(b, op, x, w, m.empty(n), false))
			}
			return all
		}},
		// Blocks for up to 20 units have one slab of weights, and none to wait for.
		{"lstm", 1, func(m *machine) (all []Launch) {
			const n = 3
			run, p, g := m.bytes(make([]byte, RunBytes)), m.floats(normals(rng, n)), m.floats(normals(rng, n))
			for _, hidden := range []int{3, 29, 34} {
				rule := device.LSTM{Layers: 2, Hidden: hidden, Context: 1}
				l, err := Project(run, rule, n, p, g, m.floats(normals(rng, rule.Weights())), m.floats(make([]float32, n*rule.States())))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, l)
			}
			return all
		}},
		{"rows", 0, func(m *machine) []Launch {
			const n = 300
			x, b := m.floats(spoil(normals(rng, 2*n), 1, 2)), m.batch(size{2, 2})
			op := &ir.Op{Shape: []int{n}, Norm: 1}
			return []Launch{Unit(b, op, x, m.empty(2*n)), Rows(b, n, x, m.floats(fill(2, 1)), m.empty(n), m.empty(2))}
		}},
		{"cells", 0, func(m *machine) []Launch {
			op := &ir.Op{Shape: []int{3, 5, 8}}
			return []Launch{CellMeans(m.batch(size{1, 1}), op, m.floats(normals(rng, 120)), m.floats(fill(40, 1)), m.floats(normals(rng, 160)), [2]Excess{}, m.empty(24))}
		}},
		{"convgrad", 1, gradientLaunches(rng, imageOp(ir.Conv, 17, 5, 4, 33, ir.Square(2, 1, 1), true))},
		{"convgradimage", 2, gradientLaunches(rng, imageOp(ir.Conv, 9, 23, 23, 3, ir.Square(2, 1, 1), true), imageOp(ir.Conv, 9, 23, 23, 9, ir.Square(2, 1, 1), true))},
		{"convgrad3", 3, gradientLaunches(rng, imageOp(ir.Conv, 33, 9, 8, 25, ir.Square(3, 1, 1), true),
			imageOp(ir.Conv, 33, 5, 16, 25, ir.Square(3, 1, 1), true), imageOp(ir.Conv, 33, 2, 32, 25, ir.Square(3, 1, 1), true))},
		{"gradients_tf32", 0, pixelGradientLaunches(rng, maths[1])},
		{"gradients_bf16", 0, pixelGradientLaunches(rng, maths[2])},
		{"products_tf32", 0, productLaunches(rng, maths[1])},
		{"products_bf16", 0, productLaunches(rng, maths[2])},
	} {
		text, err := PTX(c.module)
		if err != nil {
			t.Fatal(err)
		}
		// fault is what the launches, or those of a kernel, do wrong with another text.
		fault := func(kernel string, text []byte) (err error) {
			m := newMachine(t)
			for _, l := range c.launches(m) {
				if err == nil && (kernel == "" || kernel == l.Name) {
					err = m.mem.Launch(l.Module, text, l.Name, l.Grid, l.Block, l.Shared, l.Args)
				}
			}
			return err
		}
		if err := fault("", text); err != nil {
			t.Fatalf("%s with all of its barriers: %v", c.module, err)
		}
		needless := 0
		for n := 0; without(text, n) != nil; n++ {
			kernel := ""
			if c.module == "dense" || strings.HasPrefix(c.module, "gradients_") || strings.HasPrefix(c.module, "products_") { // where no launch needs what another one gives
				kernel = holder(text, n)
			}
			if fault(kernel, without(text, n)) == nil {
				needless++
			}
		}
		if needless != c.needless {
			t.Errorf("%s works without %d of its barriers, expected was %d", c.module, needless, c.needless)
		}
	}
}

// productLaunches are one block of each tile of products.cuh, of more stages than are on their way at once, and weights that are turned.
func productLaunches(rng *rand.Rand, k Math) func(*machine) []Launch {
	return func(m *machine) (all []Launch) {
		c := 96 / k.ElementBytes(Pixels) // seven stages: the last lies where results are written
		op := imageOp(ir.Conv, c, 6, 6, c, ir.Square(3, 1, 1), true)
		b, x, w := m.batch(size{1, 1}), m.pixels(k, op.Shape, normals(rng, ir.Size(op.Shape))), m.floats(normals(rng, c*c*9))
		to := m.alloc(WeightElements(op, Channels) * k.ElementBytes(Pixels))
		all = append(all, k.Weights(op, Channels, w, to))
		laid := m.pixels(k, []int{WeightElements(op, Channels)}, normals(rng, WeightElements(op, Channels)))
		for _, t := range sumsTiles {
			y := m.pixels(k, op.Out, fill(ir.Size(op.Out), untouched))
			for _, l := range []Launch{k.Forward(b, op, noActivation, x, laid, 0, y), k.InputGrad(b, op, x, laid, y, false, 0)} {
				l.Name = fmt.Sprintf("%s_%dx%d", l.Name[:strings.LastIndex(l.Name, "_")], t.rows, t.lines)
				l.Grid, l.Shared = [3]int{1, 1, 1}, t.shared()
				all = append(all, l)
			}
		}
		return all
	}
}

// trunkLaunches take one example through a trunk and back.
func trunkLaunches(t *testing.T, m *machine, rng *rand.Rand, p *ir.Program) []Launch {
	r := newTrunkRunOn(t, m, rng, p, size{1, 1}, 0)
	n, out := ir.Size(p.Shape), p.ValueSize(ir.Value(r.trunk.Ops))
	table := &Table{Values: m.bytes(make([]byte, n)), Targets: m.floats([]float32{0}), Width: n, Maps: MapsOf(nil)}
	images := m.floats(normals(rng, n))
	return []Launch{
		TrunkForward(r.b, r.trunk, table, images, m.empty(1), r.params, r.stages),
		TrunkBackward(r.b, r.trunk, images, m.floats(normals(rng, out)), false, r.params, m.empty(r.size), r.size, r.stages),
	}
}

// gradientLaunches are those of ops' gradients for two examples, in one sum.
func gradientLaunches(rng *rand.Rand, ops ...*ir.Op) func(*machine) []Launch {
	return func(m *machine) (all []Launch) {
		b, factors := m.batch(size{2, 2}), m.floats([]float32{1, 0.5})
		for _, op := range ops {
			x, dy := m.floats(normals(rng, 2*ir.Size(op.Shape))), m.floats(normals(rng, 2*ir.Size(op.Out)))
			out, columns, _ := op.Columns()
			n := out * (columns + 1)
			// One block takes all tiles, or both examples.
			store, sum := ConvStore(b, op, x, dy, m.empty(2*n), n, m.doubles(make([]float64, 2))), ConvSum(b, op, x, dy, factors, m.floats(make([]float32, 9*n)), n)
			store.Grid[1], sum.Grid[1], sum.Args[8] = 1, 1, I(2)
			all = append(all, store, sum)
			if store.Module == "convgrad" {
				all = append(all, SumParts(op, sum.Args[6], n, 9, m.doubles(make([]float64, n)), m.doubles(make([]float64, out))))
			}
		}
		return all
	}
}

// tensorSums are sums of more than one part, by every tile, of many outputs and of few.
func tensorSums(m *machine, k Math, rng *rand.Rand) (all []Launch) {
	c := size{300, 300}
	f := fill(c.capacity, 0.5)
	at := m.floats(f)
	for _, out := range []int{40, 10} {
		s := newTensorSum(m, k, rng, denseCase{c, 150, out, true}, f, at)
		tilesOf(&tensorSumTiles, func(string) { all = append(all, k.DenseSums(m.batch(c), 0, s.Sum)...) })
	}
	return all
}

// pixelGradientLaunches are those of gradients.cuh in one block, of more slabs than are on their way at once: with every number of filters of a
// warp. Two examples are measured and kept, and of one, whose last slab lies where results are written, the sums are taken.
func pixelGradientLaunches(rng *rand.Rand, k Math) func(*machine) []Launch {
	return func(m *machine) (all []Launch) {
		two, one, factors := m.batch(size{2, 2}), m.batch(size{1, 1}), m.floats([]float32{1})
		for _, out := range []int{16, 24, 40} {
			slabs, op := 0, (*ir.Op)(nil)
			for h := 20; slabs%6 != 1; h++ { // for two stages, and for three
				op = imageOp(ir.Conv, 17, h, 12, out, ir.Square(3, 1, 1), true)
				p := k.planOf(op)
				slabs = ceil(h, p.rows) * ceil(12, p.cols)
			}
			x := m.bytes(gradientPixels(k, op.Shape, normals(rng, 2*ir.Size(op.Shape))))
			dy := m.bytes(gradientPixels(k, op.Out, normals(rng, 2*ir.Size(op.Out))))
			_, columns, _ := op.Columns()
			n := out * (columns + 1)
			norm2 := m.doubles(make([]float64, 2*k.GradientNorms(op)))
			norm, store := k.GradientNorm(two, op, x, dy, norm2), k.GradientStore(two, op, x, dy, m.empty(2*n), n, norm2)
			norm.Grid[0], store.Grid[0], norm.Args[6], store.Args[8] = 1, 1, I(2), I(2)
			all = append(all, norm, store, k.GradientSum(one, op, x, dy, factors, m.empty(n), n), k.GradientAdd(one, op, x, dy, factors, m.empty(n), n))
		}
		return all
	}
}
