package engine

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/linesearch"
	"github.com/privgrad/privgrad/perexample"
)

// asking is a private method that declares what a test has it declare, and leaves the
// asking to the test.
type asking struct{ dpoptim.Declaration }

func (asking) Traits() dpoptim.Traits                             { return dpoptim.Traits{Name: "asking", Private: true} }
func (asking) Check(c dpoptim.Settings) (dpoptim.Settings, error) { return c, nil }
func (asking) Step() (int, error)                                 { return 1, nil }
func (asking) State() []dpoptim.State                             { return nil }
func (a asking) Open(dpoptim.Engine) (dpoptim.Steps, error)       { return a, nil }
func (asking) Complete(c dpoptim.Settings, _ dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	return c, dpoptim.Notes{}, nil
}
func (a asking) Declare(dpoptim.Settings, dpoptim.Facts) (dpoptim.Declaration, error) {
	return a.Declaration, nil
}

func always(noise accountant.Mechanism) func(float64) (dpoptim.Release, error) {
	return func(float64) (dpoptim.Release, error) { return dpoptim.Release{Noise: noise, Bound: 1}, nil }
}

// asker asks an engine's questions, each of which is recorded when it is asked first.
type asker struct {
	*Engine
	supply    *supply
	summing   dpoptim.Sum
	searching dpoptim.Search
}

func (a *asker) sum(ask dpoptim.SumAsk) (err error) {
	if a.summing == nil {
		if a.summing, err = a.Sum(dpoptim.SumQuery{}); err != nil {
			return err
		}
	}
	return a.summing.Ask(ask)
}

func (a *asker) search(r *dpoptim.Release) (err error) {
	if a.searching == nil {
		if a.searching, err = a.Search(a.Gradient()); err != nil {
			return err
		}
	}
	_, err = a.searching.Ask(r, dpoptim.Candidates{Etas: []float64{1, 0.5, 0.25}, Biases: make([]float64, 3), Group: &linesearch.Group{}})
	return err
}

// What a method of these tests declares.
var (
	gaussian    = accountant.Gaussian{NoiseMultiplier: 2}
	noisySearch = accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, MaxTrials: 3, Queries: accountant.Generic, ThresholdScale: 4, QueryScale: 8}

	gradients = dpoptim.Ask{Question: dpoptim.Gradients, Release: always(gaussian)}
	norms     = dpoptim.Ask{Question: dpoptim.Norms, Release: always(gaussian), Batch: dpoptim.OfSum}
	searches  = dpoptim.Ask{Question: dpoptim.Searches, Size: 3, Release: always(noisySearch)}
	shared    = dpoptim.Ask{Question: dpoptim.Searches, Size: 3, Release: always(noisySearch), Batch: dpoptim.OfSum}
	byPapers  = dpoptim.Ask{Question: dpoptim.Searches, Size: 3, Release: always(noisySearch), Batch: dpoptim.ByPapers}
	seldom    = dpoptim.Ask{Question: dpoptim.Searches, Size: 3, Release: always(noisySearch), Every: 2}
)

func declare(b dpoptim.Budget, asks ...dpoptim.Ask) dpoptim.Declaration {
	return dpoptim.Declaration{Budget: b, Asks: asks}
}

func aSum(a *asker) error    { return a.sum(dpoptim.SumAsk{}) }
func aSearch(a *asker) error { return a.search(nil) }

// aPaidSum is of a batch that pays for a search, too.
func aPaidSum(a *asker) error {
	return a.sum(dpoptim.SumAsk{Besides: []accountant.Mechanism{noisySearch}})
}

var undeclared = map[string]struct {
	declared dpoptim.Declaration
	before   func(*asker) error // which is allowed
	refused  func(*asker) error
	want     string
}{
	"an undeclared search": {declare(dpoptim.Committed, gradients), aSum,
		aSearch, "asks for a search, which it has not declared"},
	"an undeclared sum": {declare(dpoptim.Committed, searches), aSearch,
		aSum, "asks for a gradient, which it has not declared"},
	"an undeclared majority": {declare(dpoptim.Adaptive, gradients), aSum,
		func(a *asker) error { _, err := a.Majority(); return err }, "asks for a majority, which it has not declared"},
	"an undeclared report": {declare(dpoptim.Committed, gradients), aSum,
		func(a *asker) error { _, err := a.Report(nil); return err }, "asks for a report, which it has not declared"},
	"an un-noised loss": {declare(dpoptim.Committed, gradients), aSum,
		func(a *asker) error { _, err := a.Loss(); return err }, "is private, and asks for an un-noised loss"},
	"a sum twice in a step": {declare(dpoptim.Committed, gradients), aSum,
		aSum, "more often than it has declared"},
	"a search twice in a step": {declare(dpoptim.Committed, gradients, searches), aSearch,
		aSearch, "more often than it has declared"},
	"a committed sum with noise of its own": {declare(dpoptim.Committed, gradients), nil,
		func(a *asker) error {
			return a.sum(dpoptim.SumAsk{Release: &dpoptim.Release{Noise: accountant.Gaussian{NoiseMultiplier: 1}, Bound: 1}})
		}, "noise of its own"},
	"a committed search with noise of its own": {declare(dpoptim.Committed, gradients, searches), nil,
		func(a *asker) error { return a.search(&dpoptim.Release{Noise: noisySearch, Bound: 1}) }, "noise of its own"},
	"a filtered sum without noise": {declare(dpoptim.Adaptive, gradients), nil,
		func(a *asker) error { return a.sum(dpoptim.SumAsk{Release: &dpoptim.Release{Bound: 1}}) }, "with <nil> as its noise"},
	"a search of the last step's batch": {declare(dpoptim.Committed, gradients, shared), func(a *asker) error {
		if err := aSum(a); err != nil {
			return err
		}
		a.supply.slot++
		return nil
	}, aSearch, "of the batch of a sum that it has not asked for in step 2"},
	"a search of the last step's batch, by the papers": {declare(dpoptim.Committed, gradients, byPapers), nil,
		aSearch, "of the batch of a sum that it has not asked for in step 1"},
	"a search between its steps": {declare(dpoptim.Committed, gradients, seldom), func(a *asker) error { err := a.search(nil); a.supply.slot++; return err },
		aSearch, "in step 2 of the schedule more often than it has declared"},
	"a search of a batch that has not paid for it": {declare(dpoptim.Adaptive, gradients, shared), aSum,
		aSearch, "of a batch that has not paid for it"},
	"a search with less noise than its batch has paid for": {declare(dpoptim.Adaptive, gradients, shared), aPaidSum,
		func(a *asker) error {
			less := noisySearch
			less.QueryScale /= 2
			return a.search(&dpoptim.Release{Noise: less, Bound: 1})
		}, "of a batch that has not paid for it"},
	"a paid search again": {declare(dpoptim.Adaptive, gradients, shared), func(a *asker) error {
		if err := aPaidSum(a); err != nil {
			return err
		}
		return a.search(nil)
	}, aSearch, "of a batch that has not paid for it"},
	"a norm of a sum at another bound": {declare(dpoptim.Adaptive, gradients, norms), nil,
		func(a *asker) error {
			s, err := a.Sum(dpoptim.SumQuery{Norm: true})
			if err != nil {
				return err
			}
			return s.Ask(dpoptim.SumAsk{Release: &dpoptim.Release{Noise: gaussian, Bound: 1e6}})
		}, "asks for a sum at a bound of 1e+06, and declares its norm at 1"},
	"a filtered search of another law": {declare(dpoptim.Adaptive, gradients, searches), aSum,
		searchBy(func(n *accountant.NoisyBTLS) { n.Noise = accountant.BTLSLaplace }), "asks for a search of"},
	"a filtered search of other queries": {declare(dpoptim.Adaptive, gradients, searches), aSum,
		searchBy(func(n *accountant.NoisyBTLS) { n.Queries = accountant.SharedBaseline }), "asks for a search of"},
	"a filtered search of fewer trials": {declare(dpoptim.Adaptive, gradients, searches), aSum,
		searchBy(func(n *accountant.NoisyBTLS) { n.MaxTrials = 1 }), "and 1 trials, and has declared"},
}

// searchBy asks for a search of another noise than the declared one.
func searchBy(change func(*accountant.NoisyBTLS)) func(*asker) error {
	return func(a *asker) error {
		n := noisySearch
		change(&n)
		return a.search(&dpoptim.Release{Noise: n, Bound: 1})
	}
}

// What was not declared, or not so, is refused before its noise exists: nothing is
// charged, no batch drawn, and the position of the noise stays free.
func TestUndeclaredIsRefused(t *testing.T) {
	for name, test := range undeclared {
		t.Run(name, func(t *testing.T) {
			c, _ := logistic(t, asking{test.declared}, 2)
			s := &supply{rows: []int32{1, 2, 3}}
			c.Supply = s
			a := &asker{Engine: open(t, c), supply: s}
			if test.before != nil {
				check(t, test.before(a))
			}
			draw, admitted := s.draw, len(s.admitted)
			err := test.refused(a)
			if err == nil || !strings.Contains(err.Error(), "optimizer asking ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if s.draw != draw || len(s.admitted) != admitted || !c.Noise.Claim(draw+1) {
				t.Errorf("noise positions were claimed from %d on, %d batches drawn, %d releases charged", draw+1, s.draw-draw, len(s.admitted)-admitted)
			}
		})
	}
}

// Noise is what was declared whatever a method sets: a batch without records shows it.
func TestNoiseIsSetBehindTheMethod(t *testing.T) {
	c, network := logistic(t, asking{declare(dpoptim.Committed, gradients, norms)}, 2)
	s := &supply{}
	c.Supply = s
	e := open(t, c)
	sum, err := e.Sum(dpoptim.SumQuery{Norm: true})
	check(t, err)
	check(t, sum.Ask(dpoptim.SumAsk{}))
	want := e.inputs.Scalars
	s.slot++
	check(t, sum.Ask(dpoptim.SumAsk{Set: func(s *dpoptim.Scalars) { *s = dpoptim.Scalars{} }}))
	for _, k := range []dpoptim.Slot{device.Clip, device.NoiseStd, device.NoiseStep} {
		if got := e.inputs.Scalars[k]; got != want[k] || got == 0 {
			t.Errorf("number %d is %v, and %v where the method sets nothing", k, got, want[k])
		}
	}
	released := make([]float32, len(network.Params()))
	check(t, e.Read(e.Gradient(), released))
	norm, err := sum.Norm()
	check(t, err)
	if norm == 0 || !slices.ContainsFunc(released, func(v float32) bool { return v != 0 }) {
		t.Errorf("no noise: norm %v, sum %v", norm, released)
	}
}

// So is that of the count by which a clip norm moves.
func TestCountNoiseIsSetBehindTheMethod(t *testing.T) {
	c, network := logistic(t, asking{declare(dpoptim.Committed, gradients)}, 2)
	var err error
	c.Schedule, err = perexample.Private(network.Program, perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat})
	check(t, err)
	c.Adaptation, err = NewAdaptation(perexample.Adaptive{Quantile: 0.5, Floor: 0.1, Ceiling: 10}, 1, 30, c.Noise)
	check(t, err)
	a := &asker{Engine: open(t, c)}
	check(t, a.sum(dpoptim.SumAsk{Set: func(s *dpoptim.Scalars) { *s = dpoptim.Scalars{} }}))
	count := make([]float32, 1)
	check(t, a.Read(a.Adaptation.released, count))
	if count[0] == 0 {
		t.Error("a count of no records has no noise")
	}
}

// parted is a device whose sums are totals of so many parts.
type parted struct {
	device.Device
	parts int
}

func (d parted) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return partedNet{n, d.parts}, err
}

type partedNet struct {
	device.Net
	parts int
}

func (n partedNet) Parts() int { return n.parts }

// The noise of gradients and of their norm covers the rounding of every part of a total.
func TestNoiseCoversEveryPart(t *testing.T) {
	var std [2][2]float64
	var step [2]float64
	slots := [2]device.Slot{device.NoiseStd, device.NormStd}
	const parts = 50
	for i, n := range []int{1, parts} {
		c, network := logistic(t, asking{declare(dpoptim.Committed, gradients, norms)}, 2)
		c.Device = parted{c.Device, n}
		e := open(t, c)
		sum, err := e.Sum(dpoptim.SumQuery{Norm: true})
		check(t, err)
		check(t, sum.Ask(dpoptim.SumAsk{}))
		step = [2]float64{float64(e.inputs.Scalars[device.NoiseStep]), float64(e.inputs.Scalars[device.NormStep])}
		for k, slot := range slots {
			std[i][k] = float64(e.inputs.Scalars[slot])
			if more := gaussian.NoiseMultiplier * (parts - 1) * math.Sqrt(float64(len(network.Params()))) * step[k]; i == 1 && std[1][k]-std[0][k] < more*(1-1e-3) {
				t.Errorf("noise %d grew from %v to %v for %d parts, and should by %v", slot, std[0][k], std[1][k], parts, more)
			}
		}
	}
	// A part of a sum, or of losses, must not be cut off.
	c, _ := logistic(t, asking{declare(dpoptim.Committed, gradients)}, 2)
	c.Device, c.Rows = parted{c.Device, 2}, mostShared
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "a batch may have 4194304 records") {
		t.Errorf("a batch that is too large for two parts: %v", err)
	}
}
