package devicetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	sizes map[int]queries
}

// queries are the steps of a group of them: losses into a sum, and a search among these.
type queries struct {
	*lossSum
	search device.Step
}

// search opens a net with room for so many rows.
func (s site) search(t testing.TB, capacity int, right device.Search) *searcher {
	x := &searcher{Fixture: Open(t, s.d, s.schedule, s.Case, capacity), right: right, form: device.LossDecrease, sizes: map[int]queries{}}
	if right.Baseline() {
		x.form = device.LossSum
	}
	x.dir = x.written(t, normals(rand.New(rand.NewPCG(3, 4)), x.size, 1))
	return x
}

// right is one to search with Gaussian noise, and without a baseline.
func (s site) right(t testing.TB) device.Search {
	return device.NewSearch(Stream(t, s.d), 9, device.GaussianLaw, false, 0)
}

// steps are those for groups of k queries.
func (x *searcher) steps(t testing.TB, k int) queries {
	s, ok := x.sizes[k]
	if !ok {
		values := k
		if x.right.Baseline() {
			values++
		}
		s.lossSum = x.losses(t, device.LossQuery{At: x.Net.Params(), Dir: x.dir, K: values, Form: x.form})
		s.search = x.record(t, func(q device.Queue) { q.AboveThreshold(s.into, x.right) })
		x.sizes[k] = s
	}
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
	s, etas := x.steps(t, k), a.etas[first:first+k]
	if x.right.Baseline() {
		etas = append([]float32{0}, etas...)
	}
	s.step = powerOfTwo(float32(a.clip) * 0x1p-24)
	if !a.bare {
		for _, part := range x.runs(a.rows) {
			s.run(t, part, a.clip, etas...)
		}
	}
	in := clipAt(a.clip)
	in.Draw, in.First, in.Scalars[device.NoiseStep] = draw, first, s.step
	in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd] = float32(a.threshold), float32(a.query)
	copy(in.Biases[:], a.biases[first:first+k])
	if err := s.search.Run(in); err != nil {
		return 0, err
	}
	out, err := s.search.Wait()
	if err != nil {
		return 0, err
	}
	if len(out.Found) != 1 {
		t.Fatalf("a search gives the indices %v", out.Found)
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

// finds fails unless a search in one group ends with an index.
func (x *searcher) finds(t testing.TB, what string, a *ask, draw uint64, want int) {
	t.Helper()
	if got := x.search(t, a, len(a.etas), draw); got != want {
		t.Errorf("%s: index %d, want %d", what, got, want)
	}
}

// unreached are biases that no query reaches.
func unreached(n int) []float64 { return slices.Repeat([]float64{math.Inf(1)}, n) }

// noise is the definition of a search's noise: number i of a position, by law.
func noise(t testing.TB, right device.Search, law device.Law, draw uint64, n int) []float64 {
	t.Helper()
	sampler := exact.New
	if law == device.LaplaceLaw {
		sampler = exact.NewLaplace
	}
	g, err := sampler(exact.MaxStd, right.Stream(), right.Tensor())
	must(t, err)
	return steppedBy(g, draw, n, 1/exact.MaxStd)
}

// exactly gives an ask's queries: what the reference makes of every row.
func (x *searcher) exactly(t testing.TB, a *ask) []float64 {
	t.Helper()
	ask := device.LossQuery{At: x.Net.Params(), Dir: x.dir, K: len(a.etas), Form: x.form}
	sums := x.losses(t, ask)
	in := func(s *lossSum, etas []float32) []float64 {
		for part := range slices.Chunk(a.rows, x.capacity) {
			s.run(t, part, a.clip, etas...)
		}
		return widen(s.releaseAll(t, 0))
	}
	q := in(sums, a.etas)
	if x.right.Baseline() {
		ask.K = 1
		base := in(x.losses(t, ask), []float32{0})[0]
		for i := range q {
			q[i] = base - q[i]
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

// searchClaims are about the first query above a noisy threshold.
var searchClaims = claims[site]{
	{"without noise", testSearchWithoutNoise},
	{"biases of +Inf", func(t *testing.T, s site) {
		eachRight(t, s, func(t *testing.T, a *asked) { s.search(t, 4, a.right()).finds(t, "it", &a.ask, 1, -1) })
	}},
	{"with noise", testSearchWithNoise},
	{"an empty batch", func(t *testing.T, s site) {
		a := &ask{etas: s.etas()[:2], biases: []float64{1e-9, 0}, clip: 1}
		s.search(t, 4, s.right(t)).finds(t, "without rows", a, 1, 1)
	}},
	{"the sum is zero afterwards", func(t *testing.T, s site) {
		for _, baseline := range []bool{false, true} {
			x := s.search(t, 11, device.NewSearch(Stream(t, s.d), 9, device.GaussianLaw, baseline, 0))
			a := &ask{rows: s.All(), etas: s.etas()[:3], biases: unreached(3), clip: 0.7}
			x.search(t, a, 3, 1)
			a.rows, a.biases = nil, []float64{1e-30, 1e-30, 1e-30}
			x.finds(t, "an empty batch above 1e-30", a, 2, -1)
			a.biases = []float64{1, 1, 0}
			x.finds(t, "an empty batch at 0", a, 3, 2)
		}
	}},
	// All are NaN: a LossDecrease counts them as 0, a LossSum as the bound.
	{"losses that are not finite", func(t *testing.T, s site) {
		for _, baseline := range []bool{false, true} {
			x := s.search(t, 11, device.NewSearch(Stream(t, s.d), 9, device.GaussianLaw, baseline, 0))
			x.params(t, constant(x.size, float32(math.NaN())))
			a := &ask{rows: s.All(), etas: s.etas()[:3], biases: []float64{1e-6, 0, -1}, clip: 0.7}
			x.finds(t, fmt.Sprintf("baseline %v", baseline), a, 1, 1)
		}
	}},
	// Decreases are −c, sums grow from the loss to the bound.
	{"candidates that are not finite", func(t *testing.T, s site) {
		x := s.search(t, 11, s.right(t))
		must(t, x.Net.Write(x.dir, constant(x.size, float32(math.Inf(1)))))
		a := &ask{rows: s.All(), etas: []float32{1, 1, 1}, biases: []float64{0, -11*0.5 + 1e-4, -11*0.5 - 1e-4}, clip: 0.5}
		x.finds(t, "decreases to them", a, 1, 2)
	}},
	{"a row without a target", func(t *testing.T, s site) {
		s.Case = s.with(3, float32(math.NaN()))
		a := &ask{rows: []int32{11}, etas: s.etas()[:2], biases: []float64{1e-9, 0}, clip: 1}
		s.search(t, 12, s.right(t)).finds(t, "the row", a, 1, 1)
	}},
	{"used positions", testSearchPositions},
	{"going on after the index", func(t *testing.T, s site) {
		x, a := s.bare(t, s.right(t))
		a.biases[1] = -1e9
		if i, err := x.group(t, a, 0, 2, 1); i != 1 || err != nil {
			t.Fatalf("index %d, %v", i, err)
		}
		x.drawUsed(t, "it", a, 2, 2, 1)
	}},
	// Of a later position it leaves the search alone, one of its own does not happen.
	{"a release between the groups", func(t *testing.T, s site) {
		x, a := s.begun(t, s.right(t), 1)
		x.draw = 1
		x.Release(t, 1)
		_, err := x.group(t, a, 2, 2, 1)
		must(t, err)
		if err := x.Free.Run(&device.Inputs{Draw: 1}); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("a release at a search's position: %v", err)
		}
	}},
	// Nobody has claimed its place at the position.
	{"another tensor where a search was begun", func(t *testing.T, s site) {
		x, a := s.begun(t, s.right(t), 1)
		y := &searcher{Fixture: x.Fixture, form: x.form, dir: x.dir, sizes: map[int]queries{}}
		y.right = device.NewSearch(x.right.Stream(), 10, device.GaussianLaw, false, 0)
		y.drawUsed(t, "it", a, 2, 2, 1)
	}},
	{"another net of the stream", func(t *testing.T, s site) {
		shared := s.right(t)
		s.begun(t, shared, 7)
		for _, first := range []int{0, 2} {
			y, b := s.bare(t, shared)
			y.drawUsed(t, fmt.Sprintf("from query %d on", first), b, first, 2, 7)
		}
	}},
	{"a step that searches and releases", testSearchAndRelease},
	{"recordings that are refused", testSearchRecordings},
	{"inputs that are refused", testSearchInputs},
	// Those beyond may be padding.
	{"more queries than the right is for", func(t *testing.T, s site) {
		x := s.search(t, 11, device.NewSearch(Stream(t, s.d), 9, device.GaussianLaw, false, 3))
		a := &ask{bare: true, etas: make([]float32, 5), biases: []float64{1e9, 1e9, 1e9, math.Inf(1), 1e9}, clip: 0.7}
		for first := 0; first < 4; first += 2 {
			_, err := x.group(t, a, first, 2, 1)
			must(t, err)
		}
		if _, err := x.group(t, a, 4, 1, 1); err == nil {
			t.Error("a search for 3 queries answers the fifth")
		}
	}},
}

// etas are step sizes to search among.
func (s site) etas() []float32 {
	etas := make([]float32, fewer(s.d, 12, 5))
	for i := range etas {
		etas[i] = float32(0.2 * math.Pow(0.8, float64(i)))
	}
	return etas
}

// asked is an ask of all rows under a right, with its exact queries and the largest of them.
type asked struct {
	ask
	right func() device.Search
	law   device.Law
	q     []float64
	scale float64
}

// eachRight tests rights of every law, with and without a baseline. Of the four a sampled device has two.
func eachRight(t *testing.T, s site, test func(*testing.T, *asked)) {
	_, sampled := s.d.(*sampled)
	for law, name := range map[device.Law]string{device.GaussianLaw: "gaussian", device.LaplaceLaw: "laplace"} {
		for _, baseline := range []bool{false, true} {
			if sampled && (law == device.LaplaceLaw) != baseline {
				continue
			}
			t.Run(fmt.Sprintf("%s, baseline %v", name, baseline), func(t *testing.T) {
				a := &asked{ask: ask{rows: s.All(), etas: s.etas(), biases: unreached(len(s.etas())), clip: 0.7}, law: law}
				a.right = func() device.Search { return device.NewSearch(Stream(t, s.d), 9, law, baseline, 0) }
				a.q = s.search(t, 4, a.right()).exactly(t, &a.ask) // 11 rows are three runs
				a.scale = max(slices.Max(a.q), -slices.Min(a.q))
				test(t, a)
			})
		}
	}
}

// testSearchWithoutNoise asks for the first that reaches its bias, a hair on either side.
func testSearchWithoutNoise(t *testing.T, s site) {
	eachRight(t, s, func(t *testing.T, a *asked) {
		x := s.search(t, 4, a.right())
		for want := range a.q {
			for i := range a.biases {
				a.biases[i] = math.Inf(1)
				switch {
				case i < want:
					a.biases[i] = a.q[i] + 1e-4*a.scale
				case i == want:
					a.biases[i] = a.q[i] - 1e-4*a.scale
				case i%2 == 0:
					a.biases[i] = -10 * a.scale
				}
			}
			if got := x.search(t, &a.ask, fewer(s.d, 5, 3), uint64(want+1)); got != want {
				t.Fatalf("the index is %d, want %d", got, want)
			}
		}
	})
}

// testSearchWithNoise compares with the definition, in groups of any size. Every net begins anew, at
// the same positions of a stream of the same key.
func testSearchWithNoise(t *testing.T, s site) {
	eachRight(t, s, func(t *testing.T, a *asked) {
		a.threshold, a.query = 0.5*a.scale, 0.7*a.scale
		for i := range a.biases {
			a.biases[i] = a.q[i] + 0.5*a.scale
		}
		a.biases[3] = math.Inf(1)
		counts := map[int]int{}
		for _, size := range []int{5, 1, len(a.q)} {
			x := s.search(t, 11, a.right())
			for draw := uint64(1); draw <= uint64(fewer(s.d, 40, 3)); draw++ {
				z := noise(t, x.right, a.law, draw, len(a.q)+1)
				want := first(a.q, a.biases, z, float64(float32(a.threshold)), float64(float32(a.query)))
				got := x.search(t, &a.ask, size, draw)
				counts[got]++
				if got != want {
					t.Fatalf("draw %d in groups of %d: index %d, want %d", draw, size, got, want)
				}
			}
		}
		if len(counts) < fewer(s.d, 3, 2) {
			t.Errorf("the indices found are %v: the case shows nothing", counts)
		}
		if counts[3] > 0 {
			t.Error("a bias of +Inf was reached")
		}
	})
}

// bare opens a search of six queries of nothing, which end without an index.
func (s site) bare(t testing.TB, right device.Search) (*searcher, *ask) {
	return s.search(t, 11, right), &ask{bare: true, etas: make([]float32, 6), biases: unreached(6), clip: 0.7, threshold: 1, query: 1}
}

// drawUsed fails unless a group of queries is refused for its position.
func (x *searcher) drawUsed(t testing.TB, what string, a *ask, first, k int, draw uint64) {
	t.Helper()
	if _, err := x.group(t, a, first, k, draw); !errors.Is(err, device.ErrDrawUsed) {
		t.Errorf("%s: %v, want %v", what, err, device.ErrDrawUsed)
	}
}

func testSearchPositions(t *testing.T, s site) {
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
		x, a := s.bare(t, s.right(t))
		for _, r := range runs[:len(runs)-1] {
			_, err := x.group(t, a, r.first, r.k, r.draw)
			must(t, err)
		}
		last := runs[len(runs)-1]
		x.drawUsed(t, what, a, last.first, last.k, last.draw)
	}
}

// begun is a bare search whose first group was asked at a position.
func (s site) begun(t testing.TB, right device.Search, draw uint64) (*searcher, *ask) {
	x, a := s.bare(t, right)
	_, err := x.group(t, a, 0, 2, draw)
	must(t, err)
	return x, a
}

// testSearchAndRelease has one position for both, once.
func testSearchAndRelease(t *testing.T, s site) {
	x := s.search(t, 11, s.right(t))
	sum := x.scalarSum(t, 2)
	both := x.record(t, func(q device.Queue) {
		q.AboveThreshold(sum, x.right)
		q.Release(x.Out, x.Sum, x.Noise)
	})
	in := &device.Inputs{Draw: 1, Biases: [device.MaxCandidates]float64{1, 1}}
	must(t, both.Run(in))
	in.First = 2
	if err := both.Run(in); !errors.Is(err, device.ErrDrawUsed) {
		t.Errorf("going on with a search released a sum with noise that was used: %v", err)
	}
}

func testSearchRecordings(t *testing.T, s site) {
	x := s.search(t, 11, s.right(t))
	one, two, other, many := x.scalarSum(t, 1), x.scalarSum(t, 2), x.scalarSum(t, 2), x.scalarSum(t, device.MaxCandidates+1)
	based := device.NewSearch(Stream(t, s.d), 9, device.GaussianLaw, true, 0)
	nobodys := func(q device.Queue) { q.AboveThreshold(two, device.Search{}) }
	x.refuses(t, recordings{
		"nobody's right":   nobodys,
		"no stream":        func(q device.Queue) { q.AboveThreshold(two, device.NewSearch(nil, 1, 0, false, 0)) },
		"no such sum":      func(q device.Queue) { q.AboveThreshold(many+9, x.right) },
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
	})
	if _, err := x.Net.Record(nobodys); !errors.Is(err, device.ErrNoNoise) {
		t.Errorf("nobody's right gives %v", err)
	}
}

func testSearchInputs(t *testing.T, s site) {
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
		step := s.search(t, 11, s.right(t)).steps(t, 2).search
		in := clipAt(1)
		in.Draw, in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd] = 1, 1, 1
		in.Biases[0], in.Biases[1] = 1e9, 1e9
		must(t, step.Run(in))
		in.Draw = 2
		if change(in); in.First > 0 {
			in.Draw = 1
		}
		refuse(t, what, step.Run(in))
	}
}
