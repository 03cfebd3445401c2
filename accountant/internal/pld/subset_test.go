package pld

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A drawn is a subset of rate q that is asked for a Gaussian sum: records at distance mu.
type drawn struct{ mu, q float64 }

func (d drawn) step(count int) Step { return Step{[]Pair{Gaussian(d.mu / 2)}, d.q, count, true} }

func density(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }

// pair are the densities at z of the data sets that are farthest apart in one round: the record
// is drawn and lies mu away from all others, or is like them. In the other direction they are exchanged.
func (d drawn) pair(z float64, direction int) (p, q float64) {
	p, q = (1-d.q)*density(z)+d.q*density(z-d.mu), density(z)
	if direction == add {
		return q, p
	}
	return p, q
}

// curveOf is H(γ) of one round in a direction, in closed form.
func (d drawn) curveOf(gamma float64, direction int) float64 {
	if direction == add { // H of the pair from that of its mirror image
		return 1 - gamma + gamma*d.curveOf(1/gamma, remove)
	}
	x := (gamma - (1 - d.q)) / d.q // γ = 1−q+q·x
	if x <= 0 {
		return 1 - gamma
	}
	z := math.Log(x)/d.mu + d.mu/2
	return d.q * (math.Erfc((z-d.mu)/math.Sqrt2) - x*math.Erfc(z/math.Sqrt2)) / 2
}

// attack is H(γ) of rounds each in its direction, by quadrature: what they give away of two data
// sets that exist.
func attack(rounds []drawn, directions int, gamma float64) float64 {
	d, direction := rounds[0], directions&1
	if len(rounds) == 1 {
		return d.curveOf(gamma, direction)
	}
	return simpson(func(z float64) float64 {
		p, q := d.pair(z, direction)
		return p * attack(rounds[1:], directions>>1, gamma*q/p)
	}, -9, 9+d.mu, nodesOfTest)
}

const nodesOfTest = 300

// largest is H(γ) of the pairs whose curves are the larger ones of both directions.
func largest(rounds []drawn, gamma float64) float64 {
	d := rounds[0]
	if len(rounds) == 1 {
		return math.Max(d.curveOf(gamma, remove), d.curveOf(gamma, add))
	}
	next := func(gamma float64) float64 { return largest(rounds[1:], gamma) }
	density := func(z float64) float64 {
		p, q := d.pair(z, remove)
		return p*next(gamma*q/p) + q*next(gamma*p/q)
	}
	// The other curve has a kink at 1.
	end := 9 + d.mu
	kink := min(end, math.Log((math.Exp(math.Abs(math.Log(gamma)))-1+d.q)/d.q)/d.mu+d.mu/2)
	same := (1 - d.q) * math.Erf(d.mu/2/math.Sqrt2)
	return same*next(gamma) + simpson(density, d.mu/2, kink, nodesOfTest) + simpson(density, kink, end, nodesOfTest)
}

// anyRounds are one to three of random noise and rates.
func anyRounds(r *rand.Rand) (rounds []drawn) {
	for range 1 + r.IntN(3) {
		rounds = append(rounds, drawn{math.Exp(-1.5 + 2.5*r.Float64()), math.Exp(-4.5 * r.Float64())})
	}
	// Quadrature is best where the last curve is the widest.
	slices.SortFunc(rounds, func(a, b drawn) int { return cmp.Compare(a.spread(), b.spread()) })
	return rounds
}

// spread is the deviation of e^loss.
func (d drawn) spread() float64 { return d.q * math.Sqrt(math.Expm1(d.mu*d.mu)) }

func subsetsOf(rounds []drawn) (steps []Step) {
	for _, d := range rounds {
		steps = append(steps, d.step(1))
	}
	return steps
}

// Subsets of a fixed size: the ends hold what quadrature finds of the pair, and no two data sets
// that are one record apart give away more, whatever their direction in each round.
func subsetsAgainstQuadrature(t *testing.T, schedules int) {
	const exact, tiny = 1e-6, 1e-13 // of quadrature
	r := rand.New(rand.NewPCG(21, 1))
	for range schedules {
		rounds := anyRounds(r)
		e := 2 * r.Float64()
		gamma := math.Exp(e)
		d, err := Delta(subsetsOf(rounds), true, e)
		check(t, err)
		want := largest(rounds, gamma)
		if !(d.Lower <= want*(1+exact)+tiny && d.Upper >= want*(1-exact)-tiny && d.Upper <= d.Lower*1.05+1e-6) {
			t.Errorf("%v at ε = %v: δ %v, want %v", rounds, e, d, want)
		}
		for way := range 1 << len(rounds) {
			if got := attack(rounds, way, gamma); !(got <= d.Upper*(1+exact)+tiny) {
				t.Errorf("%v at ε = %v: directions %b give away δ = %v, above %v", rounds, e, way, got, d.Upper)
			}
		}
	}
}

func TestSubsets(t *testing.T)     { subsetsAgainstQuadrature(t, 6) }
func TestLongSubsets(t *testing.T) { subsetsAgainstQuadrature(t, 100) }

// One round has the closed form, with what else is asked of the batch composed before it is
// amplified, and is attained.
func TestOneSubset(t *testing.T) {
	for _, pairs := range [][]Pair{{Gaussian(0.4)}, {Laplace(0.3)}, {Pure(0.2)}, {Ranged(0.3)}, {Gaussian(0.4), Laplace(0.1)}, {Gaussian(0.2), Gaussian(0.3), Pure(0.1)}} {
		for _, q := range []float64{0.02, 0.9} {
			for _, e := range []float64{0, 0.1} {
				all, err := Delta([]Step{{pairs, 1, 1, false}}, true, math.Log1p(math.Expm1(e)/q))
				check(t, err)
				got, err := Delta([]Step{{pairs, q, 1, true}}, true, e)
				check(t, err)
				if !(got.Lower <= q*all.Upper*(1+1e-9) && got.Upper >= q*all.Lower*(1-1e-9)) {
					t.Errorf("%v of %v at ε = %v: δ %v, want %v of %v", pairs, q, e, got, q, all)
				}
				if _, wide := pairs[0].law(1).(*ranged); !wide && !(got.Upper <= q*all.Upper*1.01+1e-6) {
					t.Errorf("%v of %v at ε = %v: δ %v is far above %v of %v", pairs, q, e, got, q, all)
				}
			}
		}
	}
}

// Many kinds are merged, and cost no less than one direction alone.
func TestLongSubsetsOfManyKinds(t *testing.T) {
	var steps, poisson []Step
	for i := range maxKinds + 4 {
		d := drawn{0.5 + 0.002*float64(i), 0.02}
		steps = append(steps, d.step(1))
		poisson = append(poisson, sampled(d.mu, d.q, 1))
	}
	all, err := Delta(steps, true, 0.5)
	check(t, err)
	one, err := Delta(poisson, false, 0.5)
	check(t, err)
	if !(all.Lower <= all.Upper && all.Upper >= one.Lower && all.Upper < 3*one.Upper) {
		t.Errorf("%v, %v in one direction", all, one)
	}
}
