package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// replay is a noted run of logistic regression, which a recursion follows in
// float64: from the batches that the run drew, by formulas of the test's own, or
// with noise by what was released. Parameters are compared at every release.
type replay struct {
	t     *testing.T
	p     *plan.Plan
	c     *Config     // resolved
	x     [][]float64 // all records, with a 1 for the bias
	y     []float64   // ±1
	rate  float64     // of sampling
	batch float64     // expected
	noisy bool        // gradients and indices are those that were released
	w     []float64
	left  []release
	rows  []int32 // of the last gradient
	took  map[string]int
}

func newReplay(t *testing.T, p *plan.Plan, noted *drawn) *replay {
	r := &replay{t: t, p: p, c: &p.Config, rate: p.SamplingRate, batch: p.ExpectedBatch, w: make([]float64, 65), left: noted.all, noisy: !noted.silent && p.Sigma > 0, took: map[string]int{}}
	im := p.Set.Train
	for i, label := range im.Labels {
		v := make([]float64, 65)
		for j, b := range im.Features[64*i:][:64] {
			v[j] = float64(b)/127.5 - 1
		}
		if z := p.Config.FeatureNorm; z != nil {
			if norm := math.Sqrt(dot(v, v)); norm > *z {
				for j := range v {
					v[j] *= *z / norm
				}
			}
		}
		v[64] = 1
		r.x, r.y = append(r.x, v), append(r.y, 2*float64(label)-1)
	}
	return r
}

func (r *replay) more() bool { return len(r.left) > 0 }

// next is what the run released next.
func (r *replay) next(kind string) release {
	r.t.Helper()
	if !r.more() || r.left[0].kind != kind {
		r.t.Fatalf("%d releases before the end the run asked for no %s", len(r.left), kind)
	}
	next := r.left[0]
	r.left = r.left[1:]
	r.compare(next.at)
	return next
}

// compare goes on from the device's parameters, lest rounding adds up.
func (r *replay) compare(at []float32) {
	r.t.Helper()
	for i, got := range at {
		// Single precision, in steps along gradients below 8.
		if want := r.w[i]; !(math.Abs(float64(got)-want) <= 2e-5*(1+math.Abs(want))) {
			r.t.Fatalf("%d releases before the end parameter %d is %v, want %v", len(r.left), i, got, want)
		}
		r.w[i] = float64(got)
	}
}

// gradient is the mean over an expected batch of clipped gradients, and the variance
// of the noise in a coordinate; in units of the clip norm it has a multiplier.
func (r *replay) gradient(multiplier, clip float64) (g []float64, phi float64) {
	r.t.Helper()
	asked := r.next("gradient")
	r.rows = asked.rows
	std, bound := float64(asked.in.Scalars[device.NoiseStd]), float64(asked.in.Scalars[device.Clip])
	if r.c.Private() && math.Abs(bound/clip-1) > 1e-6 || std < multiplier*bound*(1-1e-6) || std > multiplier*bound*(1+5e-3) {
		r.t.Fatalf("noise of %v at a clip norm of %v, want %v times %v", std, bound, multiplier, clip)
	}
	g = make([]float64, len(r.w))
	for _, row := range asked.rows {
		one, norm := make([]float64, len(r.w)), 0.0
		slope := -r.y[row] / (1 + math.Exp(r.y[row]*dot(r.x[row], r.w)))
		for j, x := range r.x[row] {
			one[j] = slope * x
		}
		if norm = math.Sqrt(dot(one, one)); !r.c.Private() {
			norm = 0
		}
		for j := range g {
			g[j] += one[j] * math.Min(1, clip/norm) / r.batch
		}
	}
	if r.noisy {
		for j, v := range asked.value {
			g[j] = float64(v) / r.batch
			if searches(*r.c) && r.c.Search.Normalise == nil { // a direction, with the penalty's gradient
				g[j] -= r.c.L2 * r.w[j]
			}
		}
	}
	return g, math.Pow(std/r.batch, 2)
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// loss is one record's, and penalty that of a sum over an expected batch.
func (r *replay) loss(row int32, w []float64) float64 {
	m := r.y[row] * dot(r.x[row], w)
	return math.Max(-m, 0) + math.Log1p(math.Exp(-math.Abs(m)))
}

func (r *replay) penalty(w []float64) float64 { return r.batch * r.c.L2 / 2 * dot(w, w) }

// sure refuses a decision that rounding could turn.
func (r *replay) sure(what string, a, b, clear float64) {
	r.t.Helper()
	if math.Abs(a-b) < clear {
		r.t.Fatalf("%d releases before the end %s is a tie of %v and %v: choose other settings", len(r.left), what, a, b)
	}
}

// sgd is gradient descent with momentum.
func sgd(r *replay) {
	m := make([]float64, len(r.w))
	for r.more() {
		g, _ := r.gradient(multiplierOf(r.c), r.c.Clip)
		for i := range r.w {
			m[i] = r.c.Momentum*m[i] + g[i] + r.c.L2*r.w[i]
			r.w[i] -= *r.c.LR * m[i]
		}
	}
}

func multiplierOf(c *Config) float64 {
	if c.NoiseMultiplier == nil {
		return 0
	}
	return *c.NoiseMultiplier
}

// adam is Adam (Kingma and Ba 2015, algorithm 1), which may take the noise's
// variance out of the second moment.
func adam(r *replay) {
	b1, b2, eps := 0.9, 0.999, 1e-8
	if r.c.Adam.Beta1 != nil {
		b1, b2, eps = *r.c.Adam.Beta1, *r.c.Adam.Beta2, *r.c.Adam.Epsilon
	}
	m, v := make([]float64, len(r.w)), make([]float64, len(r.w))
	for t := 1.0; r.more(); t++ {
		g, phi := r.gradient(multiplierOf(r.c), r.c.Clip)
		floor := phi / 10
		if !r.c.Adam.SubtractNoise {
			phi, floor = 0, 0
		}
		for i := range r.w {
			d := g[i] + r.c.L2*r.w[i]
			m[i] = b1*m[i] + (1-b1)*d
			v[i] = b2*v[i] + (1-b2)*d*d
			mean, square := m[i]/(1-math.Pow(b1, t)), v[i]/(1-math.Pow(b2, t))
			r.w[i] -= *r.c.LR * mean / (math.Sqrt(math.Max(square-phi, floor)) + eps)
		}
	}
}

// adamW has its decay outside the moments (Loshchilov and Hutter 2019), times the rate.
func adamW(r *replay) {
	m, v := make([]float64, len(r.w)), make([]float64, len(r.w))
	for t := 1.0; r.more(); t++ {
		g, _ := r.gradient(multiplierOf(r.c), r.c.Clip)
		for i, d := range g {
			m[i], v[i] = 0.9*m[i]+0.1*d, 0.999*v[i]+0.001*d*d
			step := m[i] / (1 - math.Pow(0.9, t)) / (math.Sqrt(v[i]/(1-math.Pow(0.999, t))) + 1e-8)
			r.w[i] -= *r.c.LR * (step + r.c.L2*r.w[i])
		}
	}
}

// direction is the gradient with the penalty's, and the energy of the noise in it.
func (r *replay) direction(multiplier, clip float64) (d []float64, noise float64) {
	r.t.Helper()
	d, _ = r.gradient(multiplier, clip)
	for i := range d {
		d[i] += r.c.L2 * r.w[i]
	}
	return d, float64(len(d)) * math.Pow(multiplier*clip/r.batch, 2)
}

// along is the parameters after a step.
func (r *replay) along(d []float64, eta float64) []float64 {
	w := slices.Clone(r.w)
	for i := range w {
		w[i] -= eta * d[i]
	}
	return w
}

// asked is a question of losses clipped by a bound, on the batch that goes with it.
func (r *replay) asked(kind string, bound float64) release {
	r.t.Helper()
	asked := r.next(kind)
	if got := float64(asked.in.Scalars[device.Clip]); math.Abs(got/bound-1) > 1e-6 {
		r.t.Fatalf("losses are clipped at %v, want %v", got, bound)
	}
	if shared := r.c.Search.Batches == "shared"; r.rate < 1 && slices.Equal(asked.rows, r.rows) != shared {
		r.t.Fatalf("a search and its gradient are of one batch: want %v", shared)
	}
	return asked
}

// backtrack is Armijo's search (Chen and Lee 2020, algorithm 1) with the corrections
// of docs/guides/line-search.md: the index of the candidate that it takes, or −1.
func (r *replay) backtrack(start float64, d []float64, noise, bound float64) int {
	r.t.Helper()
	s, asked := r.c.Search, r.asked("search", bound)
	deviation := math.Hypot(float64(asked.in.Scalars[device.ThresholdStd]), float64(asked.in.Scalars[device.QueryStd]))
	if s.Noise == "laplace" {
		deviation *= math.Sqrt2
	}
	slope := dot(d, d)
	if *s.Correct {
		slope = math.Max(slope-noise, 0)
	}
	eta := start
	for i := range *s.Trials {
		moved := r.along(d, eta)
		gap := r.penalty(r.w) - r.penalty(moved) - r.batch**s.Alpha*eta*slope - *s.Margin*deviation
		for _, row := range asked.rows {
			before, after := r.loss(row, r.w), r.loss(row, moved)
			if s.Form == searchLosses {
				gap += math.Min(before, bound) - math.Min(after, bound)
			} else {
				gap += math.Max(-bound, math.Min(before-after, bound))
			}
		}
		if r.noisy {
			break
		}
		r.sure("a candidate", gap, 0, 1e-3)
		if gap > 0 {
			return i
		}
		eta *= *s.Beta
	}
	if r.noisy {
		return asked.found
	}
	return -1
}

// curve takes the largest step of a ladder that keeps a share of the largest decrease.
func (r *replay) curve(present float64, d []float64) float64 {
	r.t.Helper()
	s, asked := r.c.Search, r.asked("curve", *r.c.Search.Clip)
	sums, etas := make([]float64, *s.Points), make([]float64, *s.Points)
	moved := make([][]float64, *s.Points)
	for i := range sums {
		etas[i] = present * math.Pow(*s.Factor, float64(i-*s.Points/2))
		moved[i] = r.along(d, etas[i])
		sums[i] = r.penalty(r.w) - r.penalty(moved[i])
	}
	for _, row := range asked.rows {
		decreases := make([]float64, *s.Points)
		for i := range decreases {
			decreases[i] = r.loss(row, r.w) - r.loss(row, moved[i])
		}
		factor := math.Min(1, *s.Clip/math.Sqrt(dot(decreases, decreases)))
		for i := range sums {
			sums[i] += factor * decreases[i]
		}
	}
	smooth := make([]float64, len(sums))
	for i := range sums {
		smooth[i] = (sums[max(i-1, 0)] + 2*sums[i] + sums[min(i+1, len(sums)-1)]) / 4
	}
	largest := slices.Max(smooth)
	r.sure("whether a step descends", largest, 0, 1e-3)
	if largest < 0 {
		return etas[0]
	}
	i := slices.Index(smooth, largest)
	for ; i+1 < len(smooth); i++ {
		r.sure("a larger step", smooth[i+1], *s.Keep*largest, 1e-3)
		if smooth[i+1] < *s.Keep*largest {
			break
		}
	}
	return etas[i]
}

// least is Lee and Kifer's search (2018, section 4.1): the best of equally spaced
// steps from 0 on.
func (r *replay) least(most float64, d []float64, bound float64) float64 {
	r.t.Helper()
	s, asked := r.c.Search, r.asked("search", bound)
	etas, sums := make([]float64, *s.Trials), make([]float64, *s.Trials)
	for i := range etas {
		etas[i] = most * float64(i) / float64(*s.Trials-1)
		moved := r.along(d, etas[i])
		sums[i] = r.penalty(moved)
		for _, row := range asked.rows {
			sums[i] += math.Min(r.loss(row, moved), bound)
		}
	}
	if r.noisy {
		return etas[asked.found]
	}
	best := slices.Index(sums, slices.Min(sums))
	for i := range sums {
		if i != best {
			r.sure("the least", sums[i], sums[best], 1e-3)
		}
	}
	return etas[best]
}

// A begin is where searches begin: "intelligent backtracking" (Chen and Lee 2020, section 4.2).
type begin struct {
	eta, largest float64
	found        int
}

func (b *begin) chose(s *Search, eta float64) {
	b.largest = math.Max(b.largest, eta)
	if b.found++; b.found == *s.StartEvery {
		next := *s.StartFactor * b.largest
		if !*s.Rise {
			next = math.Min(next, b.eta)
		}
		if s.StartMost != nil {
			next = math.Min(next, *s.StartMost)
		}
		*b = begin{eta: next}
	}
}

// searching is DP-BLSGD for networks (Chen and Lee 2020, section 5.7): budgets are
// fixed, a search that finds nothing takes the smallest candidate, and steps
// between searches are as long as the last.
func searching(r *replay) {
	s, eta, start := r.c.Search, *r.c.LR, begin{eta: *r.c.LR}
	for step := 0; r.more(); step++ {
		d, noise := r.direction(multiplierOf(r.c), r.c.Clip)
		if step%*s.Every == 0 {
			found := 0.0
			if s.Form == searchCurve {
				found = r.curve(eta, d)
			} else {
				i := r.backtrack(start.eta, d, noise, *s.Clip)
				if i < 0 {
					r.took["none"]++
					i = *s.Trials - 1
				}
				found = start.eta * math.Pow(*s.Beta, float64(i))
			}
			if step > 0 {
				found = math.Exp((1-*s.Weight)*math.Log(eta) + *s.Weight*math.Log(found))
			}
			eta = found
			if s.Form != searchCurve {
				start.chose(&s, eta)
			}
		}
		r.w = r.along(d, eta)
	}
}

// adapted is DP-BLSGD with its full-batch form and DP-BLSGD-AC (Chen and Lee 2020,
// algorithms 2 and 3, section 4.4), and DP-AGD (Lee and Kifer 2018, algorithm 3),
// which differ in the search and in what follows where it failed.
func adapted(r *replay) {
	s, start := r.c.Search, begin{eta: *r.c.LR}
	private := r.c.Epsilon != nil
	var rho, budget float64 // of a gradient, and of a search
	if private {
		budget = *r.c.Epsilon / float64(2**s.Iterations)
		rho = budget * budget / 2
	}
	multiplier := func(rho float64) float64 {
		if !private {
			return 0
		}
		return 1 / math.Sqrt(2*rho)
	}
	clip, theta := 1.0, math.Pi/2
	search := func(budget float64, d []float64, noise float64) float64 {
		if r.more() && private { // Laplace noise, or of one sign; its scale follows from ε
			got, bound := float64(r.left[0].in.Scalars[device.QueryStd]), *s.Clip*clip
			want := map[string]float64{searchLosses: 2, searchDifferences: 4, searchMinimum: 1}[s.Form] / budget * bound
			if got < want*(1-1e-6) || got > want*(1+1e-2) {
				r.t.Fatalf("a search of ε %v at a bound of %v has noise of %v, want %v", budget, bound, got, want)
			}
		}
		if s.Form == searchMinimum {
			if eta := r.least(start.eta, d, *s.Clip*clip); eta > 0 || private {
				return eta
			}
			return start.eta / float64(*s.Trials-1)
		}
		i := r.backtrack(start.eta, d, noise, *s.Clip*clip)
		if i < 0 {
			if private {
				return 0
			}
			i = *s.Trials - 1
		}
		return start.eta * math.Pow(*s.Beta, float64(i))
	}
	ask := func(multiplier float64) ([]float64, float64) { return r.direction(multiplier, r.c.Clip*clip) }
	aimed := func(d []float64) []float64 { return d }
	if s.Normalise != nil && *s.Normalise { // the gradient's norm, then the penalty
		ask = func(multiplier float64) ([]float64, float64) { return r.gradient(multiplier, r.c.Clip*clip) }
		aimed = func(g []float64) []float64 {
			d, norm := make([]float64, len(g)), math.Sqrt(dot(g, g))
			for i := range d {
				d[i] = g[i]/norm + r.c.L2*r.w[i]
			}
			return d
		}
	}
	var before []float64
	for r.more() {
		d, noise := ask(multiplier(rho))
		eta := search(budget, aimed(d), noise)
		for shrunk := false; eta == 0; {
			r.took["again"]++
			extra, weight := rho, 0.5
			if s.Budget == "refine" {
				extra, weight = *s.Growth*rho, *s.Growth/(1+*s.Growth)
			}
			second, more := ask(multiplier(extra))
			angle := angleBetween(d, second)
			for i := range d {
				d[i] = (1-weight)*d[i] + weight*second[i]
			}
			noise = (1-weight)*(1-weight)*noise + weight*weight*more
			asked := budget
			grow := s.Budget == "always" || s.Budget == "refine"
			if s.Budget == "adaptive" {
				r.sure("an angle", angle, math.Pi/2, 1e-4)
				r.sure("a wide angle", angle, *s.Wide*theta, 1e-4)
				r.sure("a narrow angle", angle, *s.Narrow*theta, 1e-4)
				switch {
				case angle > math.Pi/2:
					grow = true
					if angle < *s.Wide*theta {
						r.took["obtuse alone"]++
					}
				case angle > *s.Wide*theta:
					r.took["wide alone"]++
					grow = true
				case angle < *s.Narrow*theta:
					r.took["narrow"]++
					budget *= 1 + *s.Growth
				default:
					r.took["between"]++
				}
			}
			if grow {
				rho *= 1 + *s.Growth
				if !shrunk {
					shrunk = true
					clip *= 1 - *s.Shrink
				}
			}
			if s.Batches != "shared" { // else it was fixed when the batch was drawn
				asked = budget
			}
			eta = search(asked, aimed(d), noise)
		}
		d = aimed(d)
		r.w = r.along(d, eta)
		start.chose(&s, eta)
		if before != nil {
			theta = *s.Decay*theta + (1-*s.Decay)*angleBetween(d, before)
		}
		before = d
	}
}

// scheduled is projected descent with noise of the published schedules: Fay et al. 2023 (proposition 3 and
// equation 6, with other balances), constant noise, and Bassily et al. 2014 (algorithm 1) in batches.
func scheduled(r *replay) {
	c, n, d := r.c, float64(r.p.PublicN), float64(len(r.w))
	z, k := *c.FeatureNorm, 1.0
	if c.PUR.K != nil {
		k = *c.PUR.K
	}
	l := math.Sqrt(z*z + 1)
	m := c.L2 + l*l/4
	eta := 1 / (m * (1 + k*k))
	sigma := func(t int) float64 { return 0 } // on a coordinate of the mean gradient, in step t from 1
	rate := func(t int) float64 { return eta }
	switch c.Optimizer {
	case "noisy-gd":
		eta = 1 / m
		sigma = func(int) float64 { return multiplierOf(c) * l / r.batch }
	case "pur-a":
		scale := k * math.Sqrt(m)
		if c.PUR.K == nil {
			scale = m
		}
		sigma = func(t int) float64 { return 4 * scale * math.Sqrt(math.Ln2/d) / float64(t) }
	case "pur-b":
		sigma = func(t int) float64 { return 4 * k * m * *c.Radius / math.Sqrt(d) / float64(t) }
	case "pur-c":
		sigma = func(t int) float64 {
			return k * math.Sqrt(2*c.L2*math.Ln2/d*math.Pow(1-c.L2*eta, float64(t-1)))
		}
	case "pur-constant":
		sigma = func(int) float64 { return *c.PUR.Sigma }
	case "bassily-sgd":
		all, g := 0.0, l // noise on n times the mean gradient of single records
		if c.Epsilon != nil {
			all = l * n * math.Sqrt(32*math.Log(n / *c.Delta)*math.Log(1 / *c.Delta)) / *c.Epsilon
		}
		rate = func(t int) float64 { return 1 / (c.L2 * float64(t)) }
		if c.L2 == 0 {
			rate = func(t int) float64 {
				return 2 * *c.Radius / math.Sqrt(float64(t)*(g*g+d*math.Pow(all/(n*r.batch), 2)))
			}
		}
		sigma = func(int) float64 { return all / (n * r.batch) }
	}
	silent := c.NoiseMultiplier != nil && *c.NoiseMultiplier == 0
	for t := 1; r.more(); t++ {
		s := sigma(t)
		if silent {
			s = 0
		}
		g, _ := r.gradient(s*r.batch/l, l)
		for i := range g {
			g[i] += c.L2 * r.w[i]
		}
		if c.Optimizer == "pur-oracle" {
			source, size := rand.New(rand.NewPCG(c.Seed, uint64(t))), math.Sqrt(dot(g, g)/d)
			for i := range g {
				g[i] += k * size * source.NormFloat64()
			}
		}
		for i := range r.w {
			r.w[i] -= rate(t) * g[i]
		}
		if norm := math.Sqrt(dot(r.w, r.w)); c.Radius != nil && norm > *c.Radius {
			r.took["project"]++
			for i := range r.w {
				r.w[i] *= *c.Radius / norm
			}
		}
	}
}

// rounds is random round private SGD (Zhang et al. 2017, algorithm 2 and theorem 5).
func rounds(r *replay) {
	c, n, d := r.c, float64(r.p.PublicN), float64(len(r.w))
	l := math.Hypot(*c.FeatureNorm, 1)
	beta, multiplier := c.L2+l*l/4, multiplierOf(c)
	if c.RRPSGD.Form == "paper" && c.Epsilon != nil {
		multiplier = 2 * math.Sqrt(math.Log(3*n / *c.Delta)*math.Log(2 / *c.Delta)) / *c.Epsilon
	}
	variance := 4*l*l/r.batch + d*math.Pow(multiplier*l/r.batch, 2)
	most := math.Sqrt(2*math.Ln2/beta) / math.Sqrt(variance*float64(*c.Steps))
	for t := 1; r.more(); t++ {
		rate := math.Min(*c.LR, 1/beta)
		if c.LRSchedule == "cosine" {
			if rate *= float64(t) / float64(c.Warmup); t > c.Warmup {
				rate = *c.LR * (1 + math.Cos(math.Pi*float64(t-1-c.Warmup)/float64(*c.Steps-c.Warmup))) / 2
			}
		}
		rate = math.Min(rate, most)
		g, _ := r.gradient(multiplier, l)
		for i := range g {
			r.w[i] -= rate * (g[i] + c.L2*r.w[i])
		}
	}
}

func angleBetween(a, b []float64) float64 {
	return math.Acos(dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b)))
}

// testRecursion follows two runs: one without noise and with bounds above every
// gradient and loss, which is the method's form without privacy, and one with the
// method's own bounds and budgets. Of that the noise is what was released or, where
// batches differ so that decisions do, noted and silenced.
func testRecursion(t *testing.T, m method, c Config, devices map[string]device.Device) {
	set := made(1, 120)
	for i := range set.Train.Labels {
		if i%3 == 0 { // no weights tell these classes apart, so that gradients stay
			set.Train.Labels[i] ^= 1
		}
	}
	c = lasting(c)
	c.Noise, c.EvalEvery = dpoptim.Seeded, 1000
	if c.Steps = ptr(5); m.steps > 0 {
		c.Steps = &m.steps
	}
	bare := c
	bare.Steps = ptr(4)
	if bare.Clip = 100; c.FeatureNorm != nil { // the longest gradient is shorter than √65
		bare.Clip = c.Clip // it follows from the features
	}
	if c.Private() {
		bare.NoiseMultiplier, bare.Epsilon, bare.PUR.Rho = ptr(0.0), nil, nil
	}
	if searches(c) {
		bare.Search.Clip = ptr(1000.0)
	}
	runs := []Config{bare}
	if c.Private() {
		runs = append(runs, c)
	}
	for kind, d := range devices {
		for i, c := range runs {
			noted := &drawn{Device: d, silent: i == 1 && searches(c) && !takesAll(c.Optimizer)}
			p := resolved(t, c, Options{Sources: sources(set), Device: d})
			t.Run(kind+[]string{" without noise", ""}[i], func(t *testing.T) {
				result, params := trainedOn(t, c, set, Options{Device: noted})
				if result.Steps != updatesOf(c, result) && !schedules(p) || i == 0 && (result.Epsilon != nil || result.Guarantee) {
					t.Fatalf("the result says %+v", result)
				}
				r := newReplay(t, p, noted)
				m.follow(r)
				r.compare(params)
				for _, branch := range m.takes {
					if i == 1 && r.took[branch] == 0 {
						t.Errorf("the run never came to %q: %v", branch, r.took)
					}
				}
			})
		}
	}
}
