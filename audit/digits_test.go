package audit

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/privgrad/privgrad/audit/audittest"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/train"
)

// enoughRight is the least number of right answers in n games that a claim allows no adversary to reach with more than
// this probability.
const tooRare = 1e-9

// enoughRight: in a game between two worlds an answer is right with probability (1 + δ(0))/2 at most, δ(0) being the
// most by which the probabilities of an event may differ (docs/audit.md). Of n games, as many in each world, the
// number of right answers is a sum of independent trials; that it is n·p or more above by one is likeliest where all
// of them have the mean's probability (Hoeffding 1956, theorem 4).
func enoughRight(n int, k *claim) int {
	p := (1 + k.curve[0].delta) / 2
	for right, beyond := n, 0.0; ; right-- {
		if beyond += probability(right, n, p); beyond > tooRare {
			return right + 1
		}
	}
}

func TestEnoughRight(t *testing.T) {
	for _, x := range []struct{ n, want int }{{40, 39}, {400, 264}} {
		k := gaussian(0.05)
		if got := enoughRight(x.n, k); got != x.want {
			t.Errorf("%d of %d, want %d", got, x.n, x.want)
		}
	}
}

// onlyDigits is a claim that leaves little to see, of ε = 0.16, and an adversary who sees the last digits.
func onlyDigits(noise string) Config {
	c := Default()
	c.Canary, c.NoiseMultiplier, c.SamplingRate, c.Steps = Digits, 20, 1, 1
	c.Clip, c.Device, c.Noise = 0.15, "cpu", noise // σ = 3: multiples of floats by 2 would leave few floats out
	return c
}

// adds puts noise onto the sums of the CPU device in another way.
func adds(add adding) func() (device.Device, error) {
	return func() (device.Device, error) {
		d, err := cpu.Open(1)
		return addingDevice{d, add}, err
	}
}

// answers counts the right ones among games that are half of each world.
func answers(t *testing.T, g *game, games int) int {
	t.Helper()
	x, err := g.runs(context.Background(), games/2)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for i := range x[0] {
		if x[0][i] <= 0 {
			right++
		}
		if x[1][i] > 0 {
			right++
		}
	}
	return right
}

// One release tells a record from its last digits, whatever ε says, where noise is added in floats; where it is added
// as it should be, it does not. Keys are fresh: a correct program fails here with probability 1e-9 in each case.
func TestDigits(t *testing.T) {
	games := 400
	if *full {
		games = 20_000
	}
	for _, x := range []struct {
		name, noise string
		add         adding
	}{
		{"secure", "secure", nil},
		{"exact", "exact", nil},
		{"fused in floats", "secure", fusedInFloats},
		{"added in floats", "secure", addedInFloats},
	} {
		t.Run(x.name, func(t *testing.T) {
			g, err := prepare(onlyDigits(x.noise))
			if err != nil {
				t.Fatal(err)
			}
			if x.add != nil {
				g.open = adds(x.add)
			}
			right, enough := answers(t, g, games), enoughRight(games, g.claim)
			t.Logf("%d of %d answers are right at ε = %.3g; %d are too many", right, games, g.claim.epsilon, enough)
			if (right >= enough) != (x.add != nil) {
				t.Errorf("%d of %d answers are right, the claim allows fewer than %d", right, games, enough)
			}
		})
	}
}

// people is a set of images, the last of which is the record in question.
func people(rows int) *datasets.Set {
	random := rand.New(rand.NewPCG(8, 9))
	split := datasets.Split{Shape: [3]int{1, 28, 28}}
	for range rows {
		split.Labels = append(split.Labels, uint8(random.IntN(2)))
		for range 28 * 28 {
			split.Features = append(split.Features, uint8(random.Uint32()))
		}
	}
	return &datasets.Set{Name: "people", Classes: 2, ClassNames: []string{"a", "b"}, Train: split, PublicN: 40, PerClass: []int{20, 20}}
}

// The same from the files of run directories.
func TestDirectories(t *testing.T) {
	games := 40
	if *full {
		games = 400
	}
	claim, err := newClaim(onlyDigits("secure"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, noise string
		add         adding
	}{{"secure", "secure", nil}, {"exact", "exact", nil}, {"fused in floats", "secure", fusedInFloats}} {
		for _, o := range []struct {
			name    string
			with    func(*train.Config)
			tensors []string
		}{
			{"momentum", func(c *train.Config) { c.Momentum = 0.9 }, []string{audittest.Model, audittest.Parameters, audittest.FirstMoment}},
			{"dp-adam", func(c *train.Config) { c.Optimizer = "dp-adam" }, []string{audittest.FirstMoment, audittest.SecondMoment}},
		} {
			t.Run(x.name+", "+o.name, func(t *testing.T) {
				var worlds [2]audittest.World
				for w := range worlds {
					c := train.Default()
					one, delta, rate, sigma := 1, 1e-5, 1.0, 20.0
					c.Data, c.Model, c.Device, c.Threads, c.Noise = "people", "logistic", "cpu", 1, x.noise
					c.Steps, c.Delta, c.SamplingRate, c.NoiseMultiplier, c.LR = &one, &delta, &rate, &sigma, &rate
					o.with(&c)
					set := people(40 + w)
					worlds[w] = audittest.World{Config: c, Options: train.Options{Sources: map[string]train.Source{
						"people": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }},
					}}}
					if x.add != nil {
						if worlds[w].Options.Device, err = adds(x.add)(); err != nil {
							t.Fatal(err)
						}
					}
				}
				adversary := audittest.New(t, worlds)
				right := make([]int, len(o.tensors))
				for i := range games {
					w := i % 2
					run := worlds[w].Options
					run.Out = filepath.Join(t.TempDir(), strconv.Itoa(i))
					r, err := train.Run(context.Background(), worlds[w].Config, run)
					if err != nil {
						t.Fatal(err)
					}
					if !r.Guarantee || math.Abs(*r.Epsilon-claim.epsilon) > 1e-6 {
						t.Fatalf("guarantee %v, ε %v; the audit's claim is %v", r.Guarantee, *r.Epsilon, claim.epsilon)
					}
					for k, tensor := range o.tensors {
						if (adversary.LogRatio(t, run.Out, tensor) > 0) == (w == 1) {
							right[k]++
						}
					}
				}
				enough := enoughRight(games, claim)
				t.Logf("%v of %d answers are right, from %v", right, games, o.tensors)
				if most := slices.Max(right); (slices.Min(right) >= enough) != (x.add != nil) || (most >= enough) != (x.add != nil) {
					t.Errorf("%d of %d answers are right, the claim allows fewer than %d", most, games, enough)
				}
			})
		}
	}
}
