package devicetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
)

// searcher asks searches of one batch in groups of queries, on one net.
type searcher struct {
	*Fixture
	right device.Search
	form  device.LossForm
	dir   device.Vector
	sizes map[int]*searchSteps
}

// searchSteps are the two steps of a group of queries.
type searchSteps struct{ add, search device.Step }

func openSearch(t testing.TB, d device.Device, c *Case, capacity int, right device.Search) *searcher {
	t.Helper()
	x := &searcher{Fixture: Open(t, d, strategies(t, c.Program)[0].Schedule, c, capacity), right: right, form: device.LossDecrease, sizes: map[int]*searchSteps{}}
	if right.Baseline() {
		x.form = device.LossSum
	}
	var err error
	x.dir, err = x.Net.NewVector(1)
	must(t, err)
	rnd := rand.New(rand.NewPCG(3, 4))
	dir := make([]float32, x.size)
	for i := range dir {
		dir[i] = float32(rnd.NormFloat64())
	}
	must(t, x.Net.Write(x.dir, dir))
	return x
}

// steps are those for groups of k queries.
func (x *searcher) steps(t testing.TB, k int) *searchSteps {
	t.Helper()
	if s, ok := x.sizes[k]; ok {
		return s
	}
	values := k
	if x.right.Baseline() {
		values++
	}
	sum, err := x.Net.NewScalarSum(values)
	must(t, err)
	s := &searchSteps{
		add: x.record(t, func(q device.Queue) {
			q.Losses(sum, x.Data, device.LossQuery{At: x.Net.Params(), Dir: x.dir, K: values, Form: x.form})
		}),
		search: x.record(t, func(q device.Queue) { q.AboveThreshold(sum, x.right) }),
	}
	x.sizes[k] = s
	return s
}

// ask is what differs between searches.
type ask struct {
	bare             bool // searches sums that nothing was added to
	rows             []int32
	etas             []float32
	biases           []float64
	clip             float64
	threshold, query float64 // scales
}

// group runs queries first … first+k−1 of an ask and gives the index found among them.
func (x *searcher) group(t testing.TB, a *ask, first, k int, draw uint64) (int, error) {
	t.Helper()
	s := x.steps(t, k)
	in := &device.Inputs{Draw: draw, First: first}
	in.Scalars[device.Clip] = float32(a.clip)
	in.Scalars[device.NoiseStep] = powerOfTwo(float32(a.clip) * 0x1p-24)
	in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd] = float32(a.threshold), float32(a.query)
	etas := in.Candidates[:0]
	if x.right.Baseline() {
		etas = append(etas, 0)
	}
	copy(in.Candidates[len(etas):], a.etas[first:first+k])
	copy(in.Biases[:], a.biases[first:first+k])
	for begin := 0; !a.bare; begin += x.capacity {
		in.Rows = a.rows[begin:min(begin+x.capacity, len(a.rows))]
		if err := s.add.Run(in); err != nil {
			return 0, err
		}
		if begin+x.capacity >= len(a.rows) {
			break
		}
	}
	in.Rows = nil
	if err := s.search.Run(in); err != nil {
		return 0, err
	}
	out, err := s.search.Wait()
	if err == nil && len(out.Found) != 1 {
		t.Fatalf("a search gives the indices %v", out.Found)
	}
	if err != nil {
		return 0, err
	}
	return out.Found[0], nil
}

// search runs a whole search in groups of at most so many, −1 for no index.
func (x *searcher) search(t testing.TB, a *ask, size int, draw uint64) int {
	t.Helper()
	for first := 0; first < len(a.etas); first += size {
		i, err := x.group(t, a, first, min(size, len(a.etas)-first), draw)
		must(t, err)
		if i >= 0 {
			return first + i
		}
	}
	return -1
}

// noise is the definition of a search's noise: number i of a position, by law.
func noise(t testing.TB, right device.Search, law device.Law, draw uint64, n int) []float64 {
	t.Helper()
	sampler := exact.New
	if law == device.LaplaceLaw {
		sampler = exact.NewLaplace
	}
	g, err := sampler(exact.MaxStd, right.Stream(), right.Tensor())
	must(t, err)
	k, z := make([]int64, n), make([]float64, n)
	g.Add(k, draw, 0)
	for i, k := range k {
		z[i] = float64(k) / exact.MaxStd
	}
	return z
}

// queries are an ask's exact queries: what the reference makes of every row.
func (x *searcher) queries(t testing.TB, a *ask) []float64 {
	t.Helper()
	ask := device.LossQuery{At: x.Net.Params(), Dir: x.dir, K: len(a.etas), Form: x.form}
	sums := x.losses(t, ask)
	var base *lossSum
	if x.right.Baseline() {
		ask.K = 1
		base = x.losses(t, ask)
	}
	in := func(s *lossSum, etas []float32) {
		for begin := 0; begin < len(a.rows); begin += x.capacity {
			s.run(t, a.rows[begin:min(begin+x.capacity, len(a.rows))], a.clip, etas...)
		}
	}
	in(sums, a.etas)
	s := sums.releaseAll(t, 0)
	q := make([]float64, len(s))
	for i, v := range s {
		q[i] = float64(v)
	}
	if base != nil {
		in(base, []float32{0})
		b := base.release(t, 0)
		for i := range q {
			q[i] = b - q[i]
		}
	}
	return q
}

// first is the first query above, by the definition.
func first(q, biases []float64, z []float64, threshold, query float64) int {
	for i := range q {
		if q[i]+query*z[1+i] >= biases[i]+threshold*z[0] {
			return i
		}
	}
	return -1
}

func testSearch(t *testing.T, d device.Device) {
	c := NewCase(t, program("thrice"), 11, 31)
	etas := make([]float32, fewer(d, 12, 5))
	for i := range etas {
		etas[i] = float32(0.2 * math.Pow(0.8, float64(i)))
	}
	rights := map[string]func() device.Search{}
	laws := map[string]device.Law{}
	for name, law := range map[string]device.Law{"gaussian": device.GaussianLaw, "laplace": device.LaplaceLaw} {
		for _, baseline := range []bool{false, true} {
			name := fmt.Sprintf("%s, baseline %v", name, baseline)
			laws[name] = law
			rights[name] = func() device.Search { return device.NewSearch(Stream(t, d), 9, law, baseline, 0) }
		}
	}
	for name, right := range rights {
		// Of the four a sampled device has two.
		if _, sampled := d.(*sampled); sampled && (laws[name] == device.LaplaceLaw) != strings.HasSuffix(name, "true") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			x := openSearch(t, d, c, 4, right()) // 11 rows are three runs
			a := &ask{rows: c.All(), etas: etas, biases: make([]float64, len(etas)), clip: 0.7}
			q := x.queries(t, a)
			draw := x.draw
			scale := 0.0
			for _, v := range q {
				scale = max(scale, math.Abs(v))
			}

			// Without noise: the first that reaches its bias, a hair on either side.
			for want := range q {
				for i := range a.biases {
					a.biases[i] = math.Inf(1)
					switch {
					case i < want:
						a.biases[i] = q[i] + 1e-4*scale
					case i == want:
						a.biases[i] = q[i] - 1e-4*scale
					case i%2 == 0:
						a.biases[i] = -10 * scale
					}
				}
				draw++
				if got := x.search(t, a, fewer(d, 5, 3), draw); got != want {
					t.Fatalf("without noise the index is %d, want %d", got, want)
				}
			}
			for i := range a.biases {
				a.biases[i] = math.Inf(1)
			}
			draw++
			if got := x.search(t, a, len(q), draw); got != -1 {
				t.Errorf("biases of +Inf are reached by query %d", got)
			}

			// With noise: the definition, in groups of any size. Every net begins anew, at
			// the same positions of a stream of the same key.
			a.threshold, a.query = 0.5*scale, 0.7*scale
			for i := range a.biases {
				a.biases[i] = q[i] + 0.5*scale
			}
			a.biases[3] = math.Inf(1)
			counts := map[int]int{}
			for _, size := range []int{5, 1, len(q)} {
				x := openSearch(t, d, c, 11, right())
				for draw := uint64(1); draw <= uint64(fewer(d, 40, 3)); draw++ {
					z := noise(t, x.right, laws[name], draw, len(q)+1)
					want := first(q, a.biases, z, float64(float32(a.threshold)), float64(float32(a.query)))
					got := x.search(t, a, size, draw)
					counts[got]++
					if got != want {
						t.Fatalf("draw %d in groups of %d: index %d, want %d", draw, size, got, want)
					}
				}
			}
			if len(counts) < fewer(d, 3, 2) {
				t.Errorf("the indices found are %v: the case shows nothing", counts)
			}
			if counts[3] > 0 {
				t.Error("a bias of +Inf was reached")
			}
		})
	}

	right := func() device.Search { return device.NewSearch(Stream(t, d), 9, device.GaussianLaw, false, 0) }
	unreached := func(n int) []float64 {
		b := make([]float64, n)
		for i := range b {
			b[i] = math.Inf(1)
		}
		return b
	}
	t.Run("an empty batch", func(t *testing.T) {
		x := openSearch(t, d, c, 4, right())
		a := &ask{etas: etas[:2], biases: []float64{1e-9, 0}, clip: 1}
		if got := x.search(t, a, 2, 1); got != 1 {
			t.Errorf("without rows the index is %d, want that of the bias 0", got)
		}
	})
	t.Run("the sum is zero afterwards", func(t *testing.T) {
		for _, baseline := range []bool{false, true} {
			x := openSearch(t, d, c, 11, device.NewSearch(Stream(t, d), 9, device.GaussianLaw, baseline, 0))
			a := &ask{rows: c.All(), etas: etas[:3], biases: unreached(3), clip: 0.7}
			x.search(t, a, 3, 1)
			a.rows, a.biases = nil, []float64{1e-30, 1e-30, 1e-30}
			if got := x.search(t, a, 3, 2); got != -1 {
				t.Errorf("query %d of an empty batch is %v or more", got, 1e-30)
			}
			a.biases = []float64{1, 1, 0}
			if got := x.search(t, a, 3, 3); got != 2 {
				t.Errorf("the index is %d: queries of an empty batch are not 0", got)
			}
		}
	})
	t.Run("rows that are not finite", func(t *testing.T) {
		// All losses are NaN: a LossDecrease counts them as 0, a LossSum as the bound.
		for _, baseline := range []bool{false, true} {
			x := openSearch(t, d, c, 11, device.NewSearch(Stream(t, d), 9, device.GaussianLaw, baseline, 0))
			must(t, x.Net.Write(x.Net.Params(), constant(x.size, float32(math.NaN()))))
			a := &ask{rows: c.All(), etas: etas[:3], biases: []float64{1e-6, 0, -1}, clip: 0.7}
			if got := x.search(t, a, 3, 1); got != 1 {
				t.Errorf("baseline %v: the index is %d, want 1", baseline, got)
			}
		}
		// At the candidates alone: decreases of −c, sums that grow from the loss to the bound.
		x := openSearch(t, d, c, 11, right())
		must(t, x.Net.Write(x.dir, constant(x.size, float32(math.Inf(1)))))
		a := &ask{rows: c.All(), etas: []float32{1, 1, 1}, biases: []float64{0, -11*0.5 + 1e-4, -11*0.5 - 1e-4}, clip: 0.5}
		if got := x.search(t, a, 3, 1); got != 2 {
			t.Errorf("decreases to losses that are not finite: the index is %d, want 2", got)
		}
		// A target that the loss does not accept adds nothing.
		bad := c.with(3, float32(math.NaN()))
		x = openSearch(t, d, bad, 12, right())
		a = &ask{rows: []int32{11}, etas: etas[:2], biases: []float64{1e-9, 0}, clip: 1}
		if got := x.search(t, a, 2, 1); got != 1 {
			t.Errorf("a row without a target: the index is %d, want 1", got)
		}
	})
	t.Run("positions", func(t *testing.T) {
		open := func(right device.Search) (*searcher, *ask) {
			return openSearch(t, d, c, 11, right), &ask{bare: true, etas: make([]float32, 6), biases: unreached(6), clip: 0.7, threshold: 1, query: 1}
		}
		type run struct {
			first, k int
			draw     uint64
		}
		for what, runs := range map[string][]run{
			"a position again":             {{0, 2, 5}, {0, 2, 5}},
			"an earlier position":          {{0, 2, 5}, {0, 2, 4}},
			"position 0":                   {{0, 2, 0}},
			"queries again":                {{0, 4, 5}, {2, 2, 5}},
			"queries left out":             {{0, 2, 5}, {4, 2, 5}},
			"another position on the way":  {{0, 2, 5}, {2, 2, 6}},
			"a search that nobody began":   {{2, 2, 5}},
			"the search before":            {{0, 2, 5}, {0, 2, 6}, {2, 2, 5}},
			"the same queries later again": {{0, 2, 5}, {2, 2, 5}, {2, 2, 5}},
		} {
			x, a := open(right())
			for _, r := range runs[:len(runs)-1] {
				_, err := x.group(t, a, r.first, r.k, r.draw)
				must(t, err)
			}
			last := runs[len(runs)-1]
			if _, err := x.group(t, a, last.first, last.k, last.draw); !errors.Is(err, device.ErrDrawUsed) {
				t.Errorf("%s: %v, want %v", what, err, device.ErrDrawUsed)
			}
		}
		// A search that has found its index is over.
		x, a := open(right())
		a.biases[1] = -1e9
		if i, err := x.group(t, a, 0, 2, 1); i != 1 || err != nil {
			t.Fatalf("index %d, %v", i, err)
		}
		if _, err := x.group(t, a, 2, 2, 1); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("going on after the index: %v", err)
		}
		// A release between the groups, of a later position, leaves the search alone; one of its own does not happen.
		x, a = open(right())
		_, err := x.group(t, a, 0, 2, 1)
		must(t, err)
		x.draw = 1
		x.Release(t, 1)
		_, err = x.group(t, a, 2, 2, 1)
		must(t, err)
		if err := x.Free.Run(&device.Inputs{Draw: 1}); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("a release at a search's position: %v", err)
		}
		// A search of another tensor, whose place at the position nobody has claimed.
		x, a = open(right())
		_, err = x.group(t, a, 0, 2, 1)
		must(t, err)
		y := &searcher{Fixture: x.Fixture, form: x.form, dir: x.dir, sizes: map[int]*searchSteps{}}
		y.right = device.NewSearch(x.right.Stream(), 10, device.GaussianLaw, false, 0)
		if _, err := y.group(t, a, 2, 2, 1); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("another search goes on where one was begun: %v", err)
		}
		// Another net of the stream.
		shared := right()
		x, a = open(shared)
		_, err = x.group(t, a, 0, 2, 7)
		must(t, err)
		for _, r := range []run{{0, 2, 7}, {2, 2, 7}} {
			y, b := open(shared)
			if _, err := y.group(t, b, r.first, r.k, r.draw); !errors.Is(err, device.ErrDrawUsed) {
				t.Errorf("another network searches at a position that was used, from query %d on: %v", r.first, err)
			}
		}
		// A step that searches and releases has one position for both, once.
		x, _ = open(right())
		sum, err := x.Net.NewScalarSum(2)
		must(t, err)
		both := x.record(t, func(q device.Queue) {
			q.AboveThreshold(sum, x.right)
			q.Release(x.Out, x.Sum, x.Noise)
		})
		in := &device.Inputs{Draw: 1}
		in.Biases = [device.MaxCandidates]float64{1, 1}
		must(t, both.Run(in))
		in.First = 2
		if err := both.Run(in); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("going on with a search released a sum with noise that was used: %v", err)
		}
	})
	t.Run("misuse", func(t *testing.T) {
		x := openSearch(t, d, c, 11, right())
		two, err := x.Net.NewScalarSum(2)
		must(t, err)
		other, err := x.Net.NewScalarSum(2)
		must(t, err)
		many, err := x.Net.NewScalarSum(device.MaxCandidates + 1)
		must(t, err)
		one, err := x.Net.NewScalarSum(1)
		must(t, err)
		based := device.NewSearch(Stream(t, d), 9, device.GaussianLaw, true, 0)
		for what, body := range map[string]func(device.Queue){
			"nobody's right":   func(q device.Queue) { q.AboveThreshold(two, device.Search{}) },
			"no stream":        func(q device.Queue) { q.AboveThreshold(two, device.NewSearch(nil, 1, 0, false, 0)) },
			"no such sum":      func(q device.Queue) { q.AboveThreshold(two+9, x.right) },
			"too many queries": func(q device.Queue) { q.AboveThreshold(many, x.right) },
			"a baseline alone": func(q device.Queue) { q.AboveThreshold(one, based) },
			"a baseline of differences": func(q device.Queue) {
				q.Losses(two, x.Data, device.LossQuery{At: x.Net.Params(), Dir: x.dir, K: 2, Form: device.LossDecrease})
				q.AboveThreshold(two, based)
			},
			"differences of a baseline": func(q device.Queue) {
				q.AboveThreshold(other, based)
				q.Losses(other, x.Data, device.LossQuery{At: x.Net.Params(), Dir: x.dir, K: 2, Form: device.LossCurve})
			},
			"two searches": func(q device.Queue) {
				q.AboveThreshold(two, x.right)
				q.AboveThreshold(one, device.NewSearch(x.right.Stream(), 10, 0, false, 0))
			},
			"a release's noise": func(q device.Queue) {
				q.Release(x.Out, x.Sum, device.NewNoise(x.right.Stream(), 9))
				q.AboveThreshold(two, x.right)
			},
		} {
			if _, err := x.Net.Record(body); err == nil {
				t.Errorf("%s is accepted", what)
			}
		}
		if _, err := x.Net.Record(func(q device.Queue) { q.AboveThreshold(two, device.Search{}) }); !errors.Is(err, device.ErrNoNoise) {
			t.Errorf("nobody's right gives %v", err)
		}
		for what, change := range map[string]func(*device.Inputs){
			"a bias of NaN":              func(in *device.Inputs) { in.Biases[1] = math.NaN() },
			"a bias of −Inf":             func(in *device.Inputs) { in.Biases[0] = math.Inf(-1) },
			"a negative scale":           func(in *device.Inputs) { in.Scalars[device.QueryStd] = -1 },
			"a scale of NaN":             func(in *device.Inputs) { in.Scalars[device.ThresholdStd] = float32(math.NaN()) },
			"an infinite scale":          func(in *device.Inputs) { in.Scalars[device.ThresholdStd] = float32(math.Inf(1)) },
			"fewer than no queries":      func(in *device.Inputs) { in.First = -1 },
			"another clip norm, halfway": func(in *device.Inputs) { in.First, in.Scalars[device.Clip] = 2, 2 },
			"another scale, halfway":     func(in *device.Inputs) { in.First, in.Scalars[device.QueryStd] = 2, 2 },
		} {
			x := openSearch(t, d, c, 11, right())
			s := x.steps(t, 2).search
			in := &device.Inputs{Draw: 1}
			in.Scalars[device.Clip], in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd] = 1, 1, 1
			in.Biases[0], in.Biases[1] = 1e9, 1e9
			must(t, s.Run(in))
			in.Draw = 2
			if change(in); in.First > 0 {
				in.Draw = 1
			}
			if err := s.Run(in); err == nil {
				t.Errorf("%s is accepted", what)
			}
		}
		// More queries than the right is for; those beyond may be padding.
		x = openSearch(t, d, c, 11, device.NewSearch(Stream(t, d), 9, device.GaussianLaw, false, 3))
		a := &ask{bare: true, etas: make([]float32, 5), biases: []float64{1e9, 1e9, 1e9, math.Inf(1), 1e9}, clip: 0.7}
		for first := 0; first < 4; first += 2 {
			_, err = x.group(t, a, first, 2, 1)
			must(t, err)
		}
		if _, err = x.group(t, a, 4, 1, 1); err == nil {
			t.Error("a search for 3 queries answers the fifth")
		}
	})
}

// testVectors checks Axpy and Dot against loops in float64.
func testVectors(t *testing.T, d device.Device) {
	for _, c := range []*Case{NewCase(t, program("thrice"), 1, 33), wide(t)} {
		x := Open(t, d, strategies(t, c.Program)[0].Schedule, c, 1)
		rnd := rand.New(rand.NewPCG(5, 6))
		for _, width := range []int{0, 1, 3} { // 0: scalars
			size := 5000
			if width > 0 {
				size = width * x.size
			}
			vec := func() (v device.Vector, values []float32) {
				var err error
				if v, err = x.Net.NewVector(max(width, 1)); width == 0 {
					v, err = x.Net.NewScalars(size)
				}
				must(t, err)
				values = make([]float32, size)
				for i := range values {
					values[i] = float32(rnd.NormFloat64())
				}
				must(t, x.Net.Write(v, values))
				return v, values
			}
			read := func(v device.Vector) []float32 {
				values := make([]float32, size)
				must(t, x.Net.Read(v, values))
				return values
			}
			v, a := vec()
			w, b := vec()
			step := x.record(t, func(q device.Queue) {
				q.Dot(v, w)
				q.Axpy(w, device.Along, v)
				q.Dot(w, w)
			})
			in := &device.Inputs{}
			in.Scalars[device.Along] = -0.3
			must(t, step.Run(in))
			out, err := step.Wait()
			must(t, err)
			sum := make([]float32, size)
			var vw, ww, size2 float64
			for i := range sum {
				y := float64(b[i]) + float64(float32(-0.3))*float64(a[i])
				sum[i] = float32(y)
				vw, ww, size2 = vw+float64(a[i])*float64(b[i]), ww+y*y, size2+math.Abs(float64(a[i])*float64(b[i]))
			}
			Near(t, read(w), sum, 2e-7)
			Same(t, read(v), a)
			if len(out.Dots) != 2 || math.Abs(out.Dots[0]-vw) > 1e-12*size2 || math.Abs(out.Dots[1]-ww) > 2e-7*ww {
				t.Errorf("%d values: inner products %v, want [%v %v]", size, out.Dots, vw, ww)
			}
			must(t, step.Run(&device.Inputs{}))
			again, err := step.Wait()
			must(t, err)
			if len(again.Dots) != 2 || again.Dots[1] != out.Dots[1] || out.Dots[0] == again.Dots[0] {
				t.Errorf("run again without a multiple: inner products %v after %v", again.Dots, out.Dots)
			}
		}
		few, err := x.Net.NewScalars(2)
		must(t, err)
		for what, body := range map[string]func(device.Queue){
			"widths that differ":             func(q device.Queue) { q.Axpy(x.Out, device.Along, few) },
			"widths of a product":            func(q device.Queue) { q.Dot(few, x.Out) },
			"no such vector":                 func(q device.Queue) { q.Dot(x.Out, 99) },
			"no such vector to add to":       func(q device.Queue) { q.Axpy(99, device.Along, x.Out) },
			"a scalar that there is none of": func(q device.Queue) { q.Axpy(x.Out, device.Slots, x.Out) },
		} {
			if _, err := x.Net.Record(body); err == nil {
				t.Errorf("%s is accepted", what)
			}
		}
	}
}
