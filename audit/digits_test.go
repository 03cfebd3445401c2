package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/audit/audittest"
	"github.com/privgrad/privgrad/internal/audit/reach"
	"github.com/privgrad/privgrad/internal/audit/verdict"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/train"
)

// tooRare is the probability with which a correct program fails a test of right answers, at most.
const tooRare = 1e-9

// enoughRight is the least number of right answers in n games, half of them in each world, that a claim allows any
// adversary to reach with probability tooRare at most. docs/explain/auditing.md derives it.
func enoughRight(n int, k *verdict.Claim) int {
	p := (1 + k.Curve[0].Delta) / 2
	for right, beyond := n, 0.0; ; right-- {
		if beyond += probability(right, n, p); beyond > tooRare {
			return right + 1
		}
	}
}

// gaussian is what one Gaussian of this μ claims at ε = 0.
func gaussian(mu float64) *verdict.Claim {
	return &verdict.Claim{Curve: []verdict.Point{{Delta: math.Erf(mu / 2 / math.Sqrt2), Up: 1, Down: 1}}}
}

// The limits come from tails at p = 0.509972518195238 that were summed in Python, with 60 decimals.
func TestEnoughRight(t *testing.T) {
	for _, x := range []struct{ n, want int }{{40, 39}, {400, 264}, {20_000, 10_624}} {
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
func adds(add adding) func() (device.Device, error) { return addsDrawn(add, normals) }

// addsDrawn draws it in another way, too.
func addsDrawn(add adding, draw func(*stream.Reader, int) []float64) func() (device.Device, error) {
	return func() (device.Device, error) {
		d, err := cpu.Open(1)
		return addingDevice{d, add, draw}, err
	}
}

// answers counts the right ones among games that are half of each world.
func answers(t *testing.T, g *game, games int) int {
	t.Helper()
	x, err := g.runs(context.Background(), games/2)
	check(t, err)
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
func TestDigits(t *testing.T) { answerDigits(t, 400) }

func TestLongDigits(t *testing.T) { answerDigits(t, 20_000) }

func answerDigits(t *testing.T, games int) {
	for _, x := range []struct {
		name, noise string
		add         adding
		tells       bool
	}{
		{"secure", "secure", nil, false},
		{"exact", "exact", nil, false},
		{"fused in floats", "secure", fusedInFloats, true},
		{"added in floats", "secure", addedInFloats, true},
		{"added on a grid", "secure", addedOnAGrid, false},
		{"added beside a grid", "secure", addedBesideAGrid, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			games := games
			g, err := prepare(onlyDigits(x.noise))
			check(t, err)
			if x.add != nil {
				g.open = adds(x.add)
			}
			if x.tells {
				games = min(games, 2000) // which is plenty for what is told nearly every time
			}
			right, enough := answers(t, g, games), enoughRight(games, g.claim)
			t.Logf("%d of %d answers are right at ε = %.3g; %d are too many", right, games, g.claim.Epsilon, enough)
			if (right >= enough) != x.tells {
				t.Errorf("%d of %d answers are right, the claim allows fewer than %d", right, games, enough)
			}
		})
	}
}

// The noise is as wide as the claim asks for what the canary really moves a sum by: in floats, and rounded to the grid.
func TestNoiseCoversTheSums(t *testing.T) {
	for _, x := range []struct{ noise, strategy string }{{"secure", "materialise"}, {"secure", "ghost"}, {"secure", "bookkeeping"}, {"exact", "materialise"}} {
		c := onlyDigits(x.noise)
		c.Strategy = x.strategy
		g, err := prepare(c)
		check(t, err)
		l, err := g.newLane(0)
		check(t, err)
		if _, err := l.Run(1); err != nil {
			t.Fatal(err)
		}
		noise, square := reach.NoiseOf(&l.scalars), 0.0
		for i, without := range l.release.sums[0] {
			moved := float64(l.release.sums[1][i]) - float64(without)
			if noise.Step > 0 {
				moved = noise.Step * (math.RoundToEven(float64(l.release.sums[1][i])/noise.Step) - math.RoundToEven(float64(without)/noise.Step))
			}
			square += moved * moved
		}
		if moved := math.Sqrt(square); float64(noise.Std) < c.NoiseMultiplier*moved || moved < 0.99*c.Clip {
			t.Errorf("%s, %s: the canary moves a sum by %v, the noise is of deviation %v", x.noise, x.strategy, moved, noise.Std)
		}
		l.Close()
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

// figures are what run directories hold that is computed from a release, by the settings of a run that writes it.
var figures = []struct {
	name  string
	quick bool // also where the noise is added in floats
	with  func(*train.Config)
	mu    float64 // of the whole run
	reads func(testing.TB, [2]audittest.World) []func(dir string) float64
}{
	{"momentum", true, func(c *train.Config) { c.Momentum = 0.9 }, 1.0 / 20, tensors(audittest.Model, audittest.Parameters, audittest.FirstMoment)},
	{"dp-adam", false, func(c *train.Config) { c.Optimizer = "dp-adam" }, 1.0 / 20, tensors(audittest.FirstMoment, audittest.SecondMoment)},
	// 64 gradients of multiplier 128, and as many losses.
	{"training losses", true, func(c *train.Config) { still(c); c.TrainLossNoise = c.NoiseMultiplier }, math.Sqrt2 * 8 / 128, metrics(audittest.NewLosses)},
	// 64 gradients of multiplier 128, and counts of 96: twice their deviation, 960/20.
	{"clip norms", false, func(c *train.Config) { still(c); c.Clipping, c.PublicN = "adaptive", new(960) }, 8 * math.Hypot(1.0/128, 1.0/96), metrics(audittest.NewCounts)},
}

// still asks for 64 figures at parameters that do not move.
func still(c *train.Config) {
	c.Steps, c.NoiseMultiplier, c.LR, c.EvalEvery = new(64), new(128.0), new(1e-30), 1
}

func tensors(names ...string) func(testing.TB, [2]audittest.World) []func(string) float64 {
	return func(t testing.TB, worlds [2]audittest.World) (all []func(string) float64) {
		a := audittest.New(t, worlds)
		for _, name := range names {
			all = append(all, func(dir string) float64 { return a.LogRatio(t, dir, name) })
		}
		return all
	}
}

func metrics(adversary func(testing.TB, [2]audittest.World) *audittest.Metrics) func(testing.TB, [2]audittest.World) []func(string) float64 {
	return func(t testing.TB, worlds [2]audittest.World) []func(string) float64 {
		a := adversary(t, worlds)
		return []func(string) float64{func(dir string) float64 { return a.LogRatio(t, dir) }}
	}
}

// The same from the files of run directories that promise a guarantee.
func TestDirectories(t *testing.T) { readDirectories(t, true, 40) }

// TestLongDirectories takes all figures, in more games.
func TestLongDirectories(t *testing.T) { readDirectories(t, false, 400) }

func readDirectories(t *testing.T, quick bool, games int) {
	for _, f := range figures {
		for _, x := range []struct {
			name, noise string
			quick       bool
			add         adding
		}{
			{"secure", "secure", true, nil},
			{"exact", "exact", false, nil},
			{"fused in floats", "secure", f.quick, fusedInFloats},
		} {
			if quick && !x.quick || x.noise == "exact" && f.name == "clip norms" {
				continue // refused, as docs/proofs/exact-noise.md says
			}
			t.Run(x.name+", "+f.name, func(t *testing.T) {
				games := games
				if x.add != nil {
					games = 40 // a planted fault is told every time
				}
				var worlds [2]audittest.World
				for w := range worlds {
					c := train.Default()
					c.Data, c.Model, c.Device, c.Threads, c.Noise = "people", "logistic", "cpu", 1, x.noise
					c.Steps, c.Delta, c.SamplingRate, c.NoiseMultiplier, c.LR = new(1), new(1e-5), new(1.0), new(20.0), new(1.0)
					f.with(&c)
					set := people(40 + w)
					if c.PublicN != nil {
						set.PublicN = *c.PublicN
					}
					worlds[w] = audittest.World{Config: c, Options: train.Options{Sources: map[string]train.Source{
						"people": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }},
					}}}
					if x.add != nil {
						var err error
						if worlds[w].Options.Device, err = adds(x.add)(); err != nil {
							t.Fatal(err)
						}
					}
				}
				reads := f.reads(t, worlds)
				right := make([]int, len(reads))
				for i, dir := range directories(t, worlds, games) {
					for k, read := range reads {
						if (read(dir) > 0) == (i%2 == 1) {
							right[k]++
						}
					}
				}
				enough := enoughRight(games, gaussian(f.mu))
				t.Logf("%v of %d answers are right", right, games)
				for _, n := range right {
					if (n >= enough) != (x.add != nil) {
						t.Errorf("%d of %d answers are right, the claim allows fewer than %d", n, games, enough)
					}
				}
			})
		}
	}
}

// directories are of runs in either world by turns, several at a time, as they mostly wait for the disk.
func directories(t *testing.T, worlds [2]audittest.World, games int) []string {
	t.Helper()
	dirs, errs, root := make([]string, games), make([]error, games), t.TempDir()
	next := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range next {
				o := worlds[i%2].Options
				o.Out = filepath.Join(root, strconv.Itoa(i))
				r, err := train.Run(context.Background(), worlds[i%2].Config, o)
				if err == nil && !(r.Guarantee && *r.Epsilon < 0.4) {
					err = fmt.Errorf("guarantee %v, ε %v", r.Guarantee, *r.Epsilon)
				}
				dirs[i], errs[i] = o.Out, err
			}
		})
	}
	for i := range games {
		next <- i
	}
	close(next)
	workers.Wait()
	check(t, errors.Join(errs...))
	return dirs
}
