package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// viewClaims are about records of which several views go through the network.
var viewClaims = claims[device.Device]{
	{"sums", testViewSums},
	{"equal views are one", testEqualViews},
	{"equal words are one", testEqualWords},
	{"other clippings", testViewClippings},
	{"one record", testOneRecordsViews},
	{"a bad view", testBadView},
	{"batches in parts", testViewsInParts},
	{"the count is of records", testViewsCounted},
	{"exact sums", testExactViews},
	{"invalid targets", testViewTargets},
	{"losses are of records as they are", testViewLosses},
	{"losses behind a gradient", testViewPresentLosses},
	{"words", testViewWords},
	{"units of several rows", testUnits},
	{"units without a first target", testUnitTargets},
	{"rows behind the last unit", testUnitRows},
}

func testViews(t *testing.T, d device.Device) {
	s := viewed(t, program("resnet"), perexample.Materialise, ir.Flat, 2, flipAndCrop)
	if n, err := d.Compile(s, device.Options{Capacity: 2, Precision: precision(d)}); err == nil {
		must(t, n.Close())
	} else if strings.Contains(err.Error(), "views of a record") || strings.Contains(err.Error(), "view of a record") {
		t.Skip(err)
	}
	viewClaims.run(t, d)
}

// flipAndCrop shift by one pixel: images of the suite are small.
var flipAndCrop = ir.Gather{{Kind: ir.Flip}, {Kind: ir.Crop, Margin: 1}}

// viewPrograms have images, and every kind of op with parameters.
var viewPrograms = []string{"resnet", "wrn", "standard-conv", "standard-squares", "layer-norm", "mnist-tf", "thrice", "maxpool-2x2"}

// viewProgramsIn are viewPrograms, and below float32 those of tensor cores before them.
func viewProgramsIn(d device.Device) (names []string) {
	if precision(d) != device.Float32 {
		for _, p := range tensorPrograms() {
			names = append(names, p.Name)
		}
	}
	return append(names, viewPrograms...)
}

func viewed(t testing.TB, p *ir.Program, strategy perexample.Strategy, c ir.Clipping, views int, augment ir.Gather) *ir.Schedule {
	o := perexample.Options{Strategy: strategy, Clipping: c, Views: views, Augment: augment}
	if c == ir.Unclipped {
		return made(perexample.Unclipped(p, o))(t)
	}
	return made(perexample.Private(p, o))(t)
}

// viewsOf lists the schedules of a program whose records have so many views.
func viewsOf(t testing.TB, p *ir.Program, views int, augment ir.Gather) []named {
	t.Helper()
	return clippedViews(t, p, ir.Flat, views, augment)
}

// clippedViews is viewsOf with another clipping.
func clippedViews(t testing.TB, p *ir.Program, c ir.Clipping, views int, augment ir.Gather) (list []named) {
	t.Helper()
	recompute := perexample.Auto
	for i := range p.Ops {
		if k := p.Ops[i].Kind; k == ir.Conv || k == ir.Dense && views > 1 {
			recompute += perexample.Strategy("," + strings.TrimSuffix(p.Params[p.Ops[i].Weight].Name, ".weight") + "=recompute")
		}
	}
	for _, s := range append(perexample.Strategies(), recompute) {
		list = append(list, named{string(s), viewed(t, p, s, c, views, augment)})
	}
	chunked := viewed(t, p, perexample.Materialise, c, views, augment)
	chunked.Chunk = 2
	return append(list, named{"in chunks of 2", chunked})
}

// words draws those of so many views.
func words(n int, seed uint64) []uint32 {
	rnd, w := rand.New(rand.NewPCG(seed, 9)), make([]uint32, n)
	for i := range w {
		w[i] = rnd.Uint32()
	}
	return w
}

// view is what the maps make of an image, pixel by pixel.
func view(x []float64, shape []int, augment ir.Gather, word uint32) []float64 {
	reflected := func(i, n int) int { // a border's pixel is not repeated
		for i < 0 || i >= n {
			if i = -i; i < 0 {
				i = 2*(n-1) + i
			}
		}
		return i
	}
	for _, m := range augment {
		y := make([]float64, len(x))
		for i := range y {
			c, row, col := i/(shape[1]*shape[2]), i/shape[2]%shape[1], i%shape[2]
			switch m.Kind {
			case ir.Flip:
				if word>>31 == 1 {
					col = shape[2] - 1 - col
				}
			case ir.Crop:
				down, right := m.Shift(word)
				row, col = reflected(row+down, shape[1]), reflected(col+right, shape[2])
			}
			y[i] = x[(c*shape[1]+row)*shape[2]+col]
		}
		x = y
	}
	return x
}

// viewOracle is the clipped sum by hand: each record's gradient is the mean of those of its views, which stand as records of
// a table of their own and go through the reference one by one. clip 0 leaves gradients as they are.
func viewOracle(t testing.TB, c *Case, rows []int32, views int, augment ir.Gather, words []uint32, clip float64) []float32 {
	t.Helper()
	size := len(c.Params)
	total := make([]float64, size)
	for i, row := range rows {
		mean := make([]float64, size)
		for k := range views {
			x := c.values(int(row))
			if augment != nil {
				x = view(x, c.Program.Shape, augment, words[i*views+k])
			}
			one := *c
			one.Rows = device.Rows{Count: 1, Width: len(x), Targets: []float32{c.Rows.Targets[row]}}
			one.other = nil
			var floats device.Floats
			for _, v := range x {
				floats = append(floats, float32(v))
			}
			for j, g := range Open(t, reference.Open(), plain(t, c.Program).Schedule, one.in(floats), 1).Of(t, []int32{0}, 0) {
				mean[j] += float64(g) / float64(views)
			}
		}
		factor := 1.0
		if norm := norm64(mean); clip > 0 && norm > clip {
			factor = clip / norm
		}
		for j, g := range mean {
			total[j] += factor * g
		}
	}
	sum := make([]float32, size)
	for j, v := range total {
		sum[j] = float32(v)
	}
	return sum
}

func norm64(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return math.Sqrt(s)
}

// ofViews is the sum of a batch with the words of its views.
func (s *Fixture) ofViews(t testing.TB, rows []int32, words []uint32, views int, clip float64) []float32 {
	t.Helper()
	s.addViews(t, rows, words, views, clip)
	return s.Release(t, 0)
}

func (s *Fixture) addViews(t testing.TB, rows []int32, words []uint32, views int, clip float64) {
	t.Helper()
	at := 0
	for _, part := range s.runs(rows) {
		in := clipAt(clip, part...)
		if words != nil {
			in.Words = words[at*views : (at+len(part))*views]
		}
		at += len(part)
		must(t, s.Clipped.Run(in))
	}
}

func testViewSums(t *testing.T, d device.Device) {
	for _, name := range some(d, viewProgramsIn(d)) {
		t.Run(name, func(t *testing.T) { ViewSums(t, d, program(name)) })
	}
}

// ViewSums compares sums of a program's records, whose views are flipped and cropped, under every strategy and of no records too, with the
// reference's.
func ViewSums(t *testing.T, d device.Device, p *ir.Program) {
	c := newCase(t, d, p, 5, 81)
	for _, views := range []int{1, 3} {
		rows := []int32{4, 2, 0, 1, 3}
		w := words(len(rows)*views, 82)
		all := viewOracles(t, c, rows, views, flipAndCrop, w, 0)
		clip := Norm(all[0]) / 6
		want := viewOracles(t, c, rows, views, flipAndCrop, w, clip)
		for _, s := range someIn(d, viewsOf(t, p, views, flipAndCrop)) {
			x := Open(t, d, s.Schedule, c, len(rows))
			t.Run(fmt.Sprintf("%d views, %s", views, s.name), func(t *testing.T) {
				nearOne(t, x.ofViews(t, rows, w, views, clip), want, tolerance(d))
				Same(t, x.ofViews(t, nil, nil, views, clip), make([]float32, x.size))
			})
		}
		x := Open(t, d, viewed(t, p, "", ir.Unclipped, views, flipAndCrop), c, len(rows))
		t.Run(fmt.Sprintf("%d views, plain", views), func(t *testing.T) {
			nearOne(t, x.ofViews(t, rows, w, views, 0), all, tolerance(d))
		})
	}
}

// someIn are all of a list, and some below float32, where programs are larger.
func someIn(d device.Device, list []named) []named {
	if precision(d) == device.Float32 {
		return list
	}
	return some(d, list)
}

// viewOracles are viewOracle in each of the precisions that a device may have: a view may lie at a kink, on another side of it in each.
func viewOracles(t testing.TB, c *Case, rows []int32, views int, augment ir.Gather, words []uint32, clip float64) (list [][]float32) {
	t.Helper()
	for _, c := range c.precisions() {
		list = append(list, viewOracle(t, c, rows, views, augment, words, clip))
	}
	return list
}

// testEqualViews: without random maps all views are the record.
func testEqualViews(t *testing.T, d device.Device) {
	for _, name := range some(d, viewProgramsIn(d)) {
		t.Run(name, func(t *testing.T) {
			c := newCase(t, d, program(name), 4, 83)
			clip := clipNorms(t, c)[1].norm
			want := oraclesOf(t, c, private(t, c.Program)[0], c.All(), clip)
			for _, views := range []int{2, 5} {
				for _, s := range someIn(d, viewsOf(t, c.Program, views, nil)) {
					t.Run(fmt.Sprintf("%d views, %s", views, s.name), func(t *testing.T) {
						nearOne(t, Open(t, d, s.Schedule, c, 4).Of(t, c.All(), clip), want, tolerance(d))
					})
				}
			}
		})
	}
}

// testEqualWords: views of one word are as good as one of them. A third is no float32, so that bits differ: but both sums are as near to
// the exact one, which is the same, as testViewSums wants, and so to each other by twice as much.
func testEqualWords(t *testing.T, d device.Device) {
	const views = 3
	for _, name := range some(d, viewProgramsIn(d)) {
		t.Run(name, func(t *testing.T) {
			c := newCase(t, d, program(name), 4, 96)
			w := words(4, 97)
			one := Open(t, d, viewed(t, c.Program, perexample.Materialise, ir.Flat, 1, flipAndCrop), c, 4)
			const long = 1e6
			clip := Norm(one.ofViews(t, c.All(), w, 1, long)) / 4 // about a record's
			var equal []uint32
			for _, word := range w {
				equal = append(equal, slices.Repeat([]uint32{word}, views)...)
			}
			for _, norm := range []float64{clip, long} {
				want := one.ofViews(t, c.All(), w, 1, norm)
				for _, s := range some(d, viewsOf(t, c.Program, views, flipAndCrop)) {
					t.Run(fmt.Sprintf("%s, C = %.3g", s.name, norm), func(t *testing.T) {
						Near(t, Open(t, d, s.Schedule, c, 4).ofViews(t, c.All(), equal, views, norm), want, 2*tolerance(d))
					})
				}
			}
		})
	}
}

// testViewClippings: whatever the clipping, it is of a record's mean.
func testViewClippings(t *testing.T, d device.Device) {
	const views = 3
	for _, kind := range []ir.Clipping{ir.PerLayer, ir.Automatic} {
		for _, name := range some(d, []string{"wrn", "mnist-tf", "thrice"}) {
			c := newCase(t, d, program(name), 4, 98)
			w := words(4*views, 99)
			var means [][]float32
			least := math.Inf(1)
			for _, row := range c.All() {
				means = append(means, viewOracle(t, c, []int32{row}, views, flipAndCrop, w[int(row)*views:][:views], 0))
				least = min(least, Norm(means[row]))
			}
			for _, clip := range []float64{least / 2, 2 * least} { // of which a layer has a part
				want := make([]float32, len(c.Params))
				for _, g := range means {
					for i, v := range byHand(c.Program, kind, g, clip) {
						want[i] += v
					}
				}
				for _, s := range some(d, clippedViews(t, c.Program, kind, views, flipAndCrop)) {
					t.Run(fmt.Sprintf("%v %s %s, C = %.3g", kind, name, s.name, clip), func(t *testing.T) {
						x := Open(t, d, s.Schedule, c, 3)
						Near(t, x.ofViews(t, c.All(), w, views, clip), want, tolerance(d))
						bounded(t, x.ofViews(t, []int32{1}, w[views:2*views], views, clip), clip)
					})
				}
			}
		}
	}
}

func testOneRecordsViews(t *testing.T, d device.Device) {
	c := newCase(t, d, program("wrn"), 2, 84)
	for _, s := range viewsOf(t, c.Program, 4, flipAndCrop) {
		t.Run(s.name, func(t *testing.T) {
			x, w := Open(t, d, s.Schedule, c, 2), words(4, 85)
			for _, clip := range []float64{1e-2, 1e6} { // which clips the record, and which does not
				got := x.ofViews(t, []int32{1}, w, 4, clip)
				Near(t, got, viewOracle(t, c, []int32{1}, 4, flipAndCrop, w, clip), tolerance(d))
				bounded(t, got, clip)
			}
		})
	}
}

// testBadView has a pixel that overflows, which one of two views moves out of the image: the record counts as zero whole.
func testBadView(t *testing.T, d device.Device) {
	crop := flipAndCrop[1:]
	var out, in uint32 // of views without and with the first row of pixels
	for w := range uint32(1 << 15) {
		switch down, _ := crop[0].Shift(w); down {
		case 1:
			out = w
		case 0:
			in = w
		}
	}
	for i, name := range []string{"wrn", "mnist-tf", "resnet"} {
		p := program(name)
		good := overflowing(t, d, p)
		c := good.with(0, 1)
		bad := int32(c.Rows.Count - 1)
		c.Features[int(bad)*c.Rows.Width] = 255
		schedules := viewsOf(t, p, 2, crop)
		if i > 0 { // what schedules do with the record's norm and factor is the same in every network
			schedules = some(d, schedules)
		}
		for _, s := range schedules {
			t.Run(name+" "+s.name, func(t *testing.T) {
				x := Open(t, d, s.Schedule, c, 3)
				of := func(rows []int32, first, second uint32) []float32 {
					return x.ofViews(t, rows, slices.Repeat([]uint32{first, second}, len(rows)), 2, 0.3)
				}
				if Norm(of([]int32{bad}, out, out)) == 0 {
					t.Error("without the pixel the record counts as zero: the test tries nothing")
				}
				for _, w := range [][2]uint32{{out, in}, {in, out}} {
					Same(t, of([]int32{bad}, w[0], w[1]), make([]float32, x.size))
					Near(t, of([]int32{0, bad, 1}, w[0], w[1]), of([]int32{0, 1}, w[0], w[1]), tolerance(d))
				}
			})
		}
	}
}

// testViewsInParts: a batch in runs and chunks of any size has the same sum.
func testViewsInParts(t *testing.T, d device.Device) {
	c := newCase(t, d, program("wrn"), 7, 86)
	rows, w := c.All(), words(7*3, 87)
	want := viewOracle(t, c, rows, 3, flipAndCrop, w, 0.5)
	for _, parts := range []struct{ capacity, chunk int }{
		{1, 0},                 // runs of a record
		{3, 0}, {3, 2}, {3, 1}, // several runs: of one chunk, of chunks of which the last has fewer, and of a record each
		{7, 0}, {7, 2}, {7, 1}, // the same in one run
	} {
		s := viewed(t, c.Program, perexample.Materialise, ir.Flat, 3, flipAndCrop)
		s.Chunk = parts.chunk
		Near(t, Open(t, d, s, c, parts.capacity).ofViews(t, rows, w, 3, 0.5), want, tolerance(d))
	}
}

func testViewsCounted(t *testing.T, d device.Device) {
	c := newCase(t, d, program("wrn"), 5, 88)
	x := Open(t, d, viewed(t, c.Program, perexample.Materialise, ir.Flat, 3, flipAndCrop), c, 5)
	count := x.scalarSum(t, 1)
	released := x.scalars(t, 1)
	noise := device.NewNoise(Stream(t, d), 8)
	counted := x.record(t, func(q device.Queue) { q.CountedSum(x.Sum, count, x.Data) })
	free := x.record(t, func(q device.Queue) { q.Release(released, count, noise) })
	in := clipAt(1e6, c.All()...)
	in.Words = words(5*3, 89)
	must(t, counted.Run(in))
	in = x.next()
	setNoise(in, noise, 0)
	ran(t, free, in)
	if got := x.values(t, released, 1)[0]; got != 2.5 {
		t.Errorf("the centred count of five records within the norm is %v, want 2.5", got)
	}
}

func testExactViews(t *testing.T, d device.Device) {
	for _, name := range []string{"wrn", "layer-norm"} {
		c := NewCase(t, program(name), 4, 90) // in float32, as all exact sums are
		for _, strategy := range []perexample.Strategy{perexample.Materialise, perexample.Microbatch} {
			s := viewed(t, c.Program, strategy, ir.Flat, 3, flipAndCrop)
			x := open(t, d, s, c, device.Options{Capacity: 4, Exact: true}, device.NewNoise(Stream(t, d), 7))
			w := words(4*3, 91)
			const clip = 1e3 // above every norm: each coordinate is cut to a grid of less than clip·2⁻²⁰
			x.addViews(t, c.All(), w, 3, clip)
			in := x.next()
			in.Scalars[device.Clip] = clip
			setNoise(in, x.Noise, 0)
			ran(t, x.Free, in)
			got, want := x.read(t, x.Out), viewOracle(t, c, c.All(), 3, flipAndCrop, w, clip)
			for i := range got {
				if off := math.Abs(float64(got[i] - want[i])); !(off <= 4*clip*0x1p-20+1e-4*Norm(want)) {
					t.Fatalf("%s, %s: value %d is %v, want %v", name, strategy, i, got[i], want[i])
				}
			}
		}
	}
}

// testViewLosses: a query of losses, and a score, read records as they are.
func testViewLosses(t *testing.T, d device.Device) {
	c := newCase(t, d, program("wrn"), 5, 92)
	ask := func(s *ir.Schedule) float32 {
		x := Open(t, d, s, c, 5)
		if w := words(5*3, 93); s.Views() > 1 { // the pass of a gradient keeps no losses of views
			x.ofViews(t, c.All(), w, 3, 1)
		}
		sum, released := x.scalarSum(t, 1), x.scalars(t, 1)
		noise := device.NewNoise(Stream(t, d), 8)
		step := x.record(t, func(q device.Queue) {
			q.Losses(sum, x.Data, device.LossQuery{At: x.Net.Params(), Dir: x.Out, K: 1, Form: device.LossSum})
		})
		free := x.record(t, func(q device.Queue) { q.Release(released, sum, noise) })
		must(t, step.Run(clipAt(100, c.All()...)))
		in := x.next()
		setNoise(in, noise, 0)
		ran(t, free, in)
		return x.values(t, released, 1)[0]
	}
	got, want := ask(viewed(t, c.Program, perexample.Materialise, ir.Flat, 3, flipAndCrop)), ask(schedule(t, c.Program, perexample.Materialise, ir.Flat))
	if got != want {
		t.Errorf("the sum of losses is %v, of one view %v", got, want)
	}
}

// testViewPresentLosses asks before and after a gradient, whose pass may keep losses at the present parameters: those of views
// are none of records'.
func testViewPresentLosses(t *testing.T, d device.Device) {
	c := newCase(t, d, program("wrn"), 5, 100)
	x := Open(t, d, viewed(t, c.Program, perexample.Materialise, ir.Flat, 3, flipAndCrop), c, 5)
	q := x.losses(t, device.LossQuery{At: x.Net.Params(), Dir: x.written(t, direction(t, c)), K: 1, Form: device.LossDecrease})
	ask := func() float64 {
		q.run(t, c.All(), 100, 0.5)
		return q.release(t, 0)
	}
	before := ask()
	x.ofViews(t, c.All(), words(5*3, 101), 3, 1)
	if after := ask(); !(math.Abs(after-before) <= 3*tolerance(d)) || before == 0 {
		t.Errorf("losses fall by %v, and behind a gradient of views by %v", before, after)
	}
}

// testViewTargets has records with targets that the loss does not accept, and features that are not finite: they add nothing, and 0·∞
// of no view does.
func testViewTargets(t *testing.T, d device.Device) {
	const views = 3
	for _, name := range some(d, []string{"wrn", "mnist-tf", "layer-norm"}) {
		p := program(name)
		c := overflowing(t, d, p).with(255, badTargets(p)...)
		rows := append(c.All()[3:], 0, 1, 2) // the good ones last
		w := words(len(rows)*views, 102)
		schedules := append(viewsOf(t, p, views, flipAndCrop), named{"plain", viewed(t, p, "", ir.Unclipped, views, flipAndCrop)})
		for _, s := range some(d, schedules) {
			t.Run(name+" "+s.name, func(t *testing.T) {
				x := Open(t, d, s.Schedule, c, len(rows))
				good := x.ofViews(t, rows[len(rows)-3:], w[len(w)-3*views:], views, 0.3)
				Near(t, x.ofViews(t, rows, w, views, 0.3), good, tolerance(d))
				if Norm(good) == 0 {
					t.Error("no record has a gradient")
				}
			})
		}
	}
}

// testViewWords: a run brings a word for each view.
func testViewWords(t *testing.T, d device.Device) {
	c := newCase(t, d, program("wrn"), 3, 94)
	for _, n := range []int{0, 5, 7} {
		x := Open(t, d, viewed(t, c.Program, perexample.Materialise, ir.Flat, 2, flipAndCrop), c, 3)
		in := clipAt(1, c.All()...)
		in.Words = words(n, 95)
		if err := x.Clipped.Run(in); err == nil {
			t.Errorf("three records of two views are run with %d words", n)
		}
	}
}
