package train

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/safetensors"
)

// Each test here is named after what went wrong in another system.

func trainedOn(t *testing.T, c Config, set *datasets.Set, o Options) (*Result, []float32) {
	t.Helper()
	o.Sources, o.Out = sources(set), filepath.Join(t.TempDir(), "run")
	r := finished(t, c, o)
	tensors, _, err := safetensors.Read(strings.NewReader(string(read(t, o.Out, rundir.Model))), 1<<20)
	check(t, err)
	var params []float32
	for _, x := range tensors {
		params = append(params, x.Data...)
	}
	return r, params
}

// gradientless is a set whose every training label is out of range, so that
// all gradients are zero and updates are noise alone.
func gradientless() *datasets.Set {
	set := made(1, 400)
	for i := range set.Train.Labels {
		set.Train.Labels[i] = 250
	}
	return set
}

// endless is the same of records with a value that is not finite.
func endless() *datasets.Set {
	set := made(1, 400)
	for i, b := range set.Train.Features {
		value := float32(b)/127.5 - 1
		if i%64 == 0 {
			value = float32(math.Inf(1 - i/64%2*2))
		}
		set.Train.Values = append(set.Train.Values, value)
	}
	set.Train.Features = nil
	return set
}

// rms is the root mean square of what training added to zero weights.
func rms(x []float32) float64 {
	s := 0.0
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s / float64(len(x)))
}

// noiseOnly trains on no gradient and compares the weights' spread with √T·ησC/(qN).
// The spread's square is a χ² of 65 degrees over 65: it leaves (½, 2)² with
// probability below 1e-9 (Laurent and Massart 2000, lemma 1, gives 2e-10).
func noiseOnly(t *testing.T, change func(*Config), want float64) {
	t.Helper()
	c := small()
	c.Classes = nil
	change(&c)
	set := gradientless()
	set.Classes, set.ClassNames, set.PerClass = 2, set.ClassNames[:2], []int{200, 200}
	set.Test.Labels, set.Test.Features = nil, nil
	if c.PublicN != nil { // that of a set that was published with so many
		set.PublicN = *c.PublicN
	}
	_, params := trainedOn(t, c, set, Options{})
	if len(params) != 65 {
		t.Fatalf("%d weights", len(params))
	}
	if got := rms(params); got < want/2 || got > want*2 {
		t.Errorf("noise of %.3g in the weights, want %.3g", got, want)
	}
}

// Noise meant for a sum was added to a mean (jax #383): updates were drowned.
func TestNoiseIsAddedToTheSum(t *testing.T) {
	c := small()
	noiseOnly(t, func(c *Config) { c.Clip = 3; c.NoiseMultiplier = ptr(5.0) },
		math.Sqrt(float64(*c.Steps))**c.LR*5*3 / *c.Batch)
}

// Noise grew with the number of accumulated micro-batches (optax #527), or was
// drawn at every one (TF-privacy).
func TestPhysicalBatchesShareOneNoise(t *testing.T) {
	c := small()
	noiseOnly(t, func(c *Config) { c.MaxPhysicalBatch = 1 }, math.Sqrt(float64(*c.Steps))**c.LR*1 / *c.Batch)
}

// The expected batch was computed from the private number of records (opacus
// #571), or the sum divided by the realised batch (TF-privacy, optax).
func TestNormaliserIsPublic(t *testing.T) {
	c := small()
	many, _ := trainedOn(t, c, made(1, 400), Options{})
	few, _ := trainedOn(t, c, made(1, 31), Options{})
	for _, r := range []*Result{many, few} {
		if r.PublicN != 200 || r.ExpectedBatch != *c.Batch || r.SamplingRate != *c.Batch/200 || *r.Epsilon != *many.Epsilon {
			t.Errorf("N %d, expected batch %v, rate %v, ε %v", r.PublicN, r.ExpectedBatch, r.SamplingRate, *r.Epsilon)
		}
	}
	noiseOnly(t, func(c *Config) { c.PublicN = ptr(4000) }, math.Sqrt(float64(*c.Steps))**c.LR / *c.Batch)
}

// Accumulation was dropped from the sampling rate: ε .72 reported, 5.6 real
// (jax-privacy #287).
func TestPhysicalBatchIsNoSamplingRate(t *testing.T) {
	c := small()
	whole, _ := trainedOn(t, c, made(1, 400), Options{})
	c.MaxPhysicalBatch = 4
	parts, _ := trainedOn(t, c, made(1, 400), Options{})
	if *whole.Epsilon != *parts.Epsilon || whole.SamplingRate != parts.SamplingRate {
		t.Errorf("ε %v and %v", *whole.Epsilon, *parts.Epsilon)
	}
}

// The reported ε is the accountant's for what was released, and resuming or
// evaluating does not change it (opacus #117, #373, #429).
func TestEpsilonIsTheAccountants(t *testing.T) {
	c := small()
	c.TrainLossNoise = ptr(2.0)
	r, _ := trainedOn(t, c, made(1, 400), Options{})
	q := r.SamplingRate
	want, err := accountant.Account([]accountant.Event{
		accountant.PoissonBatch(q, 24, accountant.Gaussian{NoiseMultiplier: 1}),
		accountant.PoissonBatch(q, 5, accountant.Gaussian{NoiseMultiplier: 2}), // after 5, 10, 15, 20 and 24
	}, accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5})
	check(t, err)
	if math.Abs(*r.Epsilon-want.Epsilon) > 1e-12*want.Epsilon {
		t.Errorf("ε %v, want %v", *r.Epsilon, want.Epsilon)
	}
	if r.TrainLoss == nil || !strings.HasPrefix(*r.TrainLossIs, "noisy, charged") {
		t.Errorf("training loss %v", r.TrainLoss)
	}
	// A calibrated run pays for its losses as well.
	c.NoiseMultiplier, c.Epsilon = nil, ptr(3.0)
	r, _ = trainedOn(t, c, made(1, 400), Options{})
	if *r.Epsilon > 3 || *r.Epsilon < 3*(1-1e-4) {
		t.Errorf("calibrated to 3, reports %v", *r.Epsilon)
	}
}

// Privacy that is off must say so everywhere.
func TestWhatIsNoGuaranteeSaysSo(t *testing.T) {
	for why, change := range map[string]func(*Config){
		"no noise was added": func(c *Config) { c.NoiseMultiplier = ptr(0.0) },
		"seeded noise":       func(c *Config) { c.Noise = dpoptim.Seeded },
		"paper accounting":   func(c *Config) { c.Accountant = "paper" },
		"neither bounds nor": func(c *Config) { c.Optimizer, c.NoiseMultiplier = "sgd", nil },
		"un-noised training": func(c *Config) { c.DataIsPublic = true },
	} {
		c := small()
		change(&c)
		r, _ := trainedOn(t, c, made(1, 400), Options{})
		if r.Guarantee || !strings.Contains(strings.Join(r.NoGuarantee, "; "), why) {
			t.Errorf("%s: guarantee %v because %v", why, r.Guarantee, r.NoGuarantee)
		}
		if off := *small().NoiseMultiplier; c.NoiseMultiplier == nil || *c.NoiseMultiplier != off {
			if r.Epsilon != nil {
				t.Errorf("%s: ε %v", why, *r.Epsilon)
			}
		}
	}
}

// The secure generator was dropped in one path (opacus, per-layer distributed).
// Here two secure runs, or exact ones, with one seed share no noise, neither in
// the weights nor in the training loss nor after a resumption.
func TestSecureNoiseIsNeverRepeated(t *testing.T) {
	for _, noise := range []string{dpoptim.Secure, dpoptim.Exact} {
		t.Run(noise, func(t *testing.T) { testNoiseIsNeverRepeated(t, noise) })
	}
}

func testNoiseIsNeverRepeated(t *testing.T, noise string) {
	c := small()
	c.TrainLossNoise, c.Seed, c.Noise = ptr(5.0), 7, noise
	set := gradientless()
	set.TestIsPublic = false
	c.Classes = nil
	set.Classes, set.ClassNames, set.PerClass = 2, set.ClassNames[:2], []int{200, 200}
	run := func(stop int) (after, end []float32, loss float64) {
		o := Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 1}
		ctx, cut := stopAt(t, o, stop, true)
		ends(ctx, t, c, cut, ErrInterrupted)
		cp, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
		check(t, err)
		r := finished(t, c, o)
		last, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
		check(t, err)
		return cp.Params, last.Params, *r.TrainLoss
	}
	// Both stop after the same update, so that what follows would be equal if
	// the resumed process took the first one's noise.
	a1, a2, lossA := run(11)
	b1, b2, lossB := run(11)
	if lossA == lossB {
		t.Error("two runs drew one noise for the training loss")
	}
	same := [3]int{}
	for i := range a1 {
		for j, equal := range []bool{a1[i] == b1[i], a2[i]-a1[i] == b2[i]-b1[i], a2[i]-a1[i] == a1[i]} {
			if equal {
				same[j]++
			}
		}
	}
	// Two of 65 draws may agree by chance; five of them do with probability below
	// 1e-20.
	if same[0] > 4 || same[1] > 4 || same[2] > 4 {
		t.Errorf("of 65 weights, %d moved alike in two runs, %d after a resumption, %d before and after it", same[0], same[1], same[2])
	}
}
