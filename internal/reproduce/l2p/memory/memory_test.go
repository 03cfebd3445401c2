package memory

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/reproducetest"
	"github.com/privgrad/privgrad/train"
)

func TestMemoryOfMetaTraining(t *testing.T) {
	f, o := Table("made"), reproducetest.Tiny(t)
	o.Work = 0.01
	kept := unrolls
	t.Cleanup(func() { unrolls = kept })
	unrolls = []int{200, 1000} // of which 40 and 100 steps are left
	o.Sources["fmnist"] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return reproducetest.Images(2000), nil }}
	s := reproducetest.Run(t, f, o)
	reproducetest.CheckOutputs(t, f, s, reproduce.QuickLabel)
	for i, c := range s.Claims[:4] { // the fifth is of time
		if c.Verdict != reproduce.Agrees {
			t.Errorf("claim %d: %s (%s): %s", i, c.Claim, c.Found, c.Verdict)
		}
	}
}

// The gradient of the deep network against central differences, and its clipped sum
// against the definition.
func TestPerceptrons(t *testing.T) {
	f, err := newPerceptrons(reproducetest.Images(2000))
	if err != nil {
		t.Fatal(err)
	}
	params, grad := make([]float64, f.Params()), make([]float64, f.Params())
	r := rand.New(rand.NewPCG(1, 2))
	f.Start(r, params)
	for i := range params {
		params[i] += 0.3 * r.NormFloat64()
	}
	f.Loss(params, grad)
	for i := range params {
		kept := params[i]
		var side [2]float64
		for k, h := range []float64{1e-5, -1e-5} {
			params[i] = kept + h
			side[k] = f.Loss(params, nil)
		}
		params[i] = kept
		if want := (side[0] - side[1]) / 2e-5; math.Abs(grad[i]-want) > 1e-7 {
			t.Errorf("parameter %d: %v, want %v", i, grad[i], want)
		}
	}
	const clip = 0.5
	want, got, one := make([]float64, len(params)), make([]float64, len(params)), make([]float64, len(params))
	for i := range 5 {
		f.ClippedSum(params, []int{i}, math.Inf(1), one)
		norm := math.Sqrt(inner(one, one))
		if i == 0 && norm < clip {
			t.Fatalf("a gradient of norm %v: the case tests nothing", norm)
		}
		for k, v := range one {
			want[k] += v * min(1, clip/norm)
		}
	}
	f.ClippedSum(params, []int{0, 1, 2, 3, 4}, clip, got)
	for k := range got {
		if math.Abs(got[k]-want[k]) > 1e-12 {
			t.Fatalf("coordinate %d: %v, want %v", k, got[k], want[k])
		}
	}
}
