package pld

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func together(records int, mu, q float64, count int) Step {
	return Step{[]Pair{Gaussian(mu).Of(records)}, q, count, false}
}

// weightOf is the probability of j of n.
func weightOf(n, j int, q float64) float64 {
	a, _ := math.Lgamma(float64(n) + 1)
	b, _ := math.Lgamma(float64(j) + 1)
	c, _ := math.Lgamma(float64(n-j) + 1)
	return math.Exp(a - b - c + float64(j)*math.Log(q) + float64(n-j)*math.Log1p(-q))
}

// A groupAbove has the masses of half-lines under both distributions of a group.
type groupAbove [][2]float64

func newGroupAbove(records int, mu, q float64, twoSided bool) (all groupAbove) {
	weights := make([]float64, records+1)
	for j := range weights {
		weights[j] = weightOf(records, j, q)
	}
	for z := -40.0; z < 40+mu*float64(records); z += 0.01 {
		p, without := 0.0, 0.0
		for j, w := range weights {
			if w < 1e-25 {
				continue
			}
			p += w * upper(z-float64(j)*mu)
			if twoSided {
				without += w * upper(z+float64(j)*mu)
			}
		}
		if !twoSided {
			without = upper(z)
		}
		all = append(all, [2]float64{p, without})
	}
	return all
}

// curve is H(γ) with the group against without, or the other way round, whichever is larger. It is a little below the
// true one, as the half-lines are a list of them.
func (all groupAbove) curve(gamma float64) (most float64) {
	for _, x := range all {
		most = max(most, x[0]-gamma*x[1], (1-x[1])-gamma*(1-x[0]))
	}
	return most
}

// One batch has its curve in closed form, also of large groups and of little noise.
func TestGroupOfOneBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	for i := range 20 {
		records, mu, q := 1+r.IntN(12), math.Exp(-2+3*r.Float64()), math.Exp(-5*r.Float64())*0.95
		if i%8 == 7 {
			records, mu, q = 300+r.IntN(900), 0.02, 0.002+0.1*r.Float64()
		}
		for _, twoSided := range []bool{false, true} {
			lines := newGroupAbove(records, mu, q, twoSided)
			for _, e := range []float64{0, 0.3, 1, 4} {
				d, err := Delta([]Step{together(records, mu, q, 1)}, twoSided, e)
				check(t, err)
				const rounding = 1e-10 // of sums of masses of about 1
				want := lines.curve(math.Exp(e))
				if d.Upper < want-rounding || d.Lower > want*(1+1e-3)+rounding || d.Upper > 1.05*want+10*rounding {
					t.Errorf("%d records, mu %v, rate %v, two-sided %v, epsilon %v: %v, not %v", records, mu, q, twoSided, e, d, want)
				}
			}
		}
	}
}

// A group of one, by the law of groups, is one record.
func TestGroupLawOfOne(t *testing.T) {
	for _, twoSided := range []bool{false, true} {
		for _, c := range []struct{ mu, q float64 }{{1, 0.01}, {0.3, 0.2}, {4, 0.001}, {0.05, 0.9}} {
			mu := c.mu
			if twoSided {
				mu *= 2
			}
			l, err := newGroup(mu, c.q, 1, twoSided)
			check(t, err)
			solve := func(l law) Interval {
				made := &composition{measures: map[string]*[directions]ends{}, kinds: []kind{{l, l, 100}}}
				check(t, made.refine(1e-6))
				r, err := made.epsilon(1e-6)
				check(t, err)
				return r
			}
			got, want := solve(l), solve(gaussian{c.mu, c.q, twoSided})
			if got.Lower > want.Upper || want.Lower > got.Upper || math.Abs(got.Upper-want.Upper) > width(want.Upper) {
				t.Errorf("%v: %v, %v by the law of one", c, got, want)
			}
		}
	}
}

// No records in the plane, taken in and out, have a larger curve than the pair on the line: all of them at one
// place, and those that are taken out at its mirror image.
func TestGroupsOfRecords(t *testing.T) {
	const mu, h, reach = 1.1, 0.1, 8
	r := rand.New(rand.NewPCG(1, 2))
	curve := func(q, gamma float64, in, out [][2]float64) (sum float64) {
		// centers are those of a mixture with their weights.
		centers := func(records [][2]float64) (c [][3]float64) {
			c = [][3]float64{{0, 0, 1}}
			for _, v := range records {
				for _, x := range c {
					c = append(c, [3]float64{x[0] + v[0], x[1] + v[1], x[2] * q})
				}
				for i := range len(c) / 2 {
					c[i][2] *= 1 - q
				}
			}
			return c
		}
		p, without := centers(in), centers(out)
		density := func(c [][3]float64, x, y float64) (sum float64) {
			for _, c := range c {
				sum += c[2] * math.Exp(-((x-c[0])*(x-c[0])+(y-c[1])*(y-c[1]))/2)
			}
			return sum
		}
		far := reach + mu*3
		for x := -far; x < far; x += h {
			for y := -far; y < far; y += h {
				sum += max(0, density(p, x, y)-gamma*density(without, x, y))
			}
		}
		return sum * h * h / (2 * math.Pi)
	}
	records := func(n int, at float64, random bool) (all [][2]float64) {
		for range n {
			v := [2]float64{at, 0}
			if random {
				sin, cos := math.Sincos(2 * math.Pi * r.Float64())
				size := mu * math.Min(1, 1.5*r.Float64())
				v = [2]float64{size * cos, size * sin}
			}
			all = append(all, v)
		}
		return all
	}
	larger := 0
	for range 16 {
		in, out := r.IntN(4), r.IntN(4)
		q, gamma := r.Float64(), math.Exp(1.5*r.NormFloat64())
		worst := curve(q, gamma, records(in, mu, false), records(out, -mu, false))
		if got := curve(q, gamma, records(in, 0, true), records(out, 0, true)); got > worst+1e-3 {
			t.Errorf("%d in, %d out, rate %v, gamma %v: %v above %v", in, out, q, gamma, got, worst)
		}
		if fewer := curve(q, gamma, records(max(in-1, 0), mu, false), records(out, -mu, false)); fewer > worst+1e-3 {
			t.Errorf("%d in, %d out, rate %v, gamma %v: fewer records have %v above %v", in, out, q, gamma, fewer, worst)
		}
		if near := curve(q, gamma, records(in, mu/2, false), records(out, -mu/2, false)); worst > near+1e-2 {
			larger++
		}
	}
	if larger == 0 {
		t.Error("no curve tells distances apart: the test shows nothing")
	}
}

// More records are easier to tell, and so are nearer to certain ones.
func TestGroupsGrow(t *testing.T) {
	for _, replaceOne := range []bool{false, true} {
		last := Interval{}
		for _, records := range []int{1, 2, 3, 5, 8, 20, 50} {
			r := epsilon(t, []Step{together(records, 0.2, 0.01, 500)}, replaceOne, 1e-6)
			if r.Upper < last.Lower || r.Upper < last.Upper-width(r.Upper) {
				t.Errorf("%d records: %v after %v", records, r, last)
			}
			all := epsilon(t, []Step{together(records, 0.2, 1, 500)}, replaceOne, 1e-6)
			if r.Lower > all.Upper {
				t.Errorf("%d records: %v on batches, %v on all records", records, r, all)
			}
			last = r
		}
	}
}

// What all records are asked is one record's at so many times the distance.
func TestGroupsWithoutSampling(t *testing.T) {
	for _, replaceOne := range []bool{false, true} {
		for name, pair := range map[string]func(float64) Pair{"gaussian": Gaussian, "laplace": Laplace, "pure": Pure, "ranged": Ranged} {
			solve := func(p Pair) Interval {
				r, err := Epsilon([]Step{{[]Pair{p}, 1, 3, false}}, replaceOne, 1e-5)
				check(t, err)
				return r
			}
			if got, want := solve(pair(0.1).Of(8)), solve(pair(0.8)); got != want {
				t.Errorf("%s: %v, not %v", name, got, want)
			}
		}
	}
}

// Losses beyond what a float64 holds are infinite ones, never left out; too large a group is refused at once.
func TestGroupsTooLarge(t *testing.T) {
	for _, c := range []struct {
		records int
		mu, q   float64
	}{{1000, 3, 0.1}, {1200, 0.2, 0.2}, {1000, 2, 0.01}, {90, 25, 0.5}} {
		for _, replaceOne := range []bool{false, true} {
			if r, err := Epsilon([]Step{together(c.records, c.mu, c.q, 3)}, replaceOne, 1e-5); err == nil && r.Upper < 400 {
				t.Errorf("%v: %v", c, r)
			}
			d, err := Delta([]Step{together(c.records, c.mu, c.q, 1)}, replaceOne, 1)
			if err == nil && d.Upper < 0.99 {
				t.Errorf("%v: delta %v", c, d)
			}
		}
	}
	for _, c := range []struct {
		records int
		q       float64
	}{{100000, 0.5}, {100000, 0.01}, {50, 0.9999}} {
		if _, err := Epsilon([]Step{together(c.records, 1, c.q, 3)}, false, 1e-5); !errors.Is(err, ErrGroup) {
			t.Errorf("%v: %v", c, err)
		}
	}
	batch := Step{[]Pair{Gaussian(1).Of(2), Laplace(1).Of(2)}, 0.1, 1, false}
	subsets := together(2, 1, 0.1, 1)
	subsets.Subsets = true
	for what, s := range map[string]Step{"other noise": batch, "subsets": subsets} {
		if _, err := Epsilon([]Step{s}, what == "subsets", 1e-5); err == nil {
			t.Errorf("%s: several records on a batch are priced", what)
		}
	}
}

// Groups that are merged cost no less than each for itself.
func TestMergedGroups(t *testing.T) {
	var steps []Step
	for i := range maxKinds + 100 {
		steps = append(steps, together(4, 0.1*(1+0.2*float64(i)/maxKinds), 0.01, 1))
	}
	merged, err := Epsilon(steps, false, 1e-5)
	check(t, err)
	low, high := epsilon(t, []Step{together(4, 0.1, 0.01, len(steps))}, false, 1e-5), epsilon(t, []Step{together(4, 0.125, 0.01, len(steps))}, false, 1e-5)
	if merged.Upper < low.Lower || merged.Lower > high.Upper || merged.Upper < merged.Lower {
		t.Errorf("%v of merged kinds, between %v and %v", merged, low, high)
	}
	one := group{1, 0.1, 5, false}
	shape, axes := parameters(one)
	if other, _ := parameters(group{1, 0.1, 6, false}); with(one, axes) != law(one) || shape == other {
		t.Error("groups of different size are merged")
	}
}

// Two-sided, the loss has two logarithms, and an error of each.
func TestGroupSlackOfBothSides(t *testing.T) {
	for _, c := range []struct{ mu, q, records float64 }{{1, 0.01, 2}, {0.3, 0.2, 40}, {0.02, 0.1, 900}} {
		one, err := newGroup(c.mu, c.q, c.records, false)
		check(t, err)
		both, err := newGroup(2*c.mu, c.q, c.records, true) // a replaced record is as far as one that is added and one that is removed
		check(t, err)
		if both.slack() < 2*one.slack() {
			t.Errorf("%v: losses are off by %v one-sided, and by %v two-sided", c, one.slack(), both.slack())
		}
	}
}
