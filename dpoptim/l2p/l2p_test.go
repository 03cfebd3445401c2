package l2p

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/safetensors"
)

// made is a protector of random weights.
func made(projector, scheduler string) *Protector {
	r := rand.New(rand.NewPCG(1, 2))
	weights := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(r.NormFloat64())
		}
		return w
	}
	p := &Protector{Card: Card{
		Format: Format, Name: "made", Summary: "of a test", Tasks: []string{"quadratic"},
		Public:       []Public{{Data: "mnist", Classes: []int{1, 2}}, {Data: "cifar10"}},
		EpsilonRange: [2]float64{0.05, 0.2}, Delta: 1e-8, Neighbouring: "add-remove", Steps: 40, Scale: 0.05, Recipe: "none",
		Projector: Part{Kind: projector}, Scheduler: Part{Kind: scheduler},
	}}
	if projector == Learned {
		p.Card.Projector = Part{Kind: Learned, Layers: 2, Hidden: 5, LogSign: true}
		p.Projector = weights(p.Card.Projector.LSTM(ProjectorContext).Weights())
	}
	if scheduler == Learned {
		p.Card.Scheduler = Part{Kind: Learned, Layers: 1, Hidden: 4}
		p.Scheduler = weights(p.Card.Scheduler.LSTM(SchedulerContext).Weights())
	}
	return p
}

// What is written is read back, for every mixture of learned parts.
func TestFiles(t *testing.T) {
	for _, p := range []*Protector{made(Identity, Constant), made(Learned, Constant), made(Identity, Learned), made(Learned, Learned)} {
		path := filepath.Join(t.TempDir(), "made.safetensors")
		if err := p.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("read %+v, want %+v: %v", got, p, err)
		}
	}
}

// Files that do not belong together, and cards that no run can follow, are refused.
func TestReadRefuses(t *testing.T) {
	for want, change := range map[string]func(c *Card, tensors *[]safetensors.Tensor){
		"is missing, or has another shape": func(c *Card, _ *[]safetensors.Tensor) { c.Projector.Hidden = 6 },
		"are not of its card":              func(c *Card, _ *[]safetensors.Tensor) { c.Scheduler = Part{Kind: Constant} },
		"an LSTM of 0 layers":              func(c *Card, _ *[]safetensors.Tensor) { c.Projector.Layers = 0 },
		"an LSTM of -1 hidden":             func(c *Card, _ *[]safetensors.Tensor) { c.Projector.Hidden = -1 },
		"unknown projector": func(c *Card, _ *[]safetensors.Tensor) {
			c.Projector = Part{Kind: "gru"}
			c.Scheduler = Part{Kind: Constant}
		},
		"format 2":              func(c *Card, _ *[]safetensors.Tensor) { c.Format = 2 },
		"a name of letters":     func(c *Card, _ *[]safetensors.Tensor) { c.Name = "../x" },
		"no public_data":        func(c *Card, _ *[]safetensors.Tensor) { c.Public = nil },
		"not those of its card": func(_ *Card, x *[]safetensors.Tensor) { (*x)[0].Data[1]++ },
		"0 steps":               func(c *Card, _ *[]safetensors.Tensor) { c.Steps = 0 },
		"scale -1":              func(c *Card, _ *[]safetensors.Tensor) { c.Scale = -1 },
		"epsilon range":         func(c *Card, _ *[]safetensors.Tensor) { c.EpsilonRange = [2]float64{2, 1} },
		`tensor "projector.lstm.weight_ih_l0": not a usable safetensors file: a value is not finite`: func(_ *Card, x *[]safetensors.Tensor) { (*x)[0].Data[1] = float32(math.NaN()) },
		"not a usable safetensors":          func(_ *Card, x *[]safetensors.Tensor) { *x = nil },
		"tensor scheduler.output.bias of s": func(_ *Card, x *[]safetensors.Tensor) { *x = (*x)[:len(*x)-1] },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "made.safetensors")
		if err := made(Learned, Learned).Write(path); err != nil {
			t.Fatal(err)
		}
		b, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		tensors, _, err := safetensors.Read(b, 1<<20)
		b.Close()
		if err != nil {
			t.Fatal(err)
		}
		card := made(Learned, Learned).Card
		card.Weights = made(Learned, Learned).digest()
		change(&card, &tensors)
		text, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if tensors != nil {
			err = safetensors.Write(f, tensors, nil)
		}
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(CardPath(path), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if p, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v, %v", want, p != nil, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.safetensors")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := made(Learned, Constant).Write(filepath.Join(t.TempDir(), "made.bin")); err == nil {
		t.Error("a name without suffix is taken")
	}
}

// Records overlap where the name and a class do.
func TestOverlap(t *testing.T) {
	c := made(Identity, Constant).Card
	c.Public = append(c.Public, PublicTable("a/people.csv.gz"))
	for _, x := range []struct {
		data    string
		classes []int
		want    string
	}{
		{"mnist", nil, "mnist"}, {"mnist", []int{3, 5}, ""}, {"mnist", []int{3, 2}, "mnist"},
		{"cifar10", []int{3, 5}, "cifar10"}, {"fmnist", []int{1}, ""},
		{"csv:/b/people.csv", nil, "csv:people.csv"}, {"csv:people.csv.gz", nil, "csv:people.csv"}, {"csv:b/others.csv", nil, ""},
	} {
		if got := c.Overlap(x.data, x.classes); got != x.want {
			t.Errorf("%s %v overlaps %q, want %q", x.data, x.classes, got, x.want)
		}
	}
}

var known = Setting{Steps: 20, Params: 400, Clip: 2, Batch: 100, Least: 0.5, Planned: 3}

// Noise keeps to its range whatever is released: strictly between σ_min and 2σ_g − σ_min,
// up to rounding at the ends.
func TestNoiseRange(t *testing.T) {
	low, high := math.Inf(1), 0.0
	for _, scale := range []float32{20, -20} { // saturates at either end
		p := made(Learned, Learned)
		for i := range p.Scheduler {
			p.Scheduler[i] *= scale
		}
		r := rand.New(rand.NewPCG(3, 4))
		state := make([]float64, p.schedulerState())
		for step := 1; step < 2000; step++ {
			x := math.Pow(10, 40*r.Float64()-20)
			m := p.next(known, Released{Step: step, Left: r.Float64(), Multiplier: 1, Norm2: x, Norm: r.NormFloat64() * x}, state)
			low, high = min(low, m), max(high, m)
		}
	}
	if !(low >= 0.5) || !(high <= 5.5) || low > 0.6 || high < 5.4 {
		t.Errorf("noise from %v to %v, the range is 0.5 to 5.5", low, high)
	}
	if m := made(Learned, Constant).next(known, Released{Step: 1}, nil); m != 3 {
		t.Errorf("a constant scheduler chooses %v, 3 is planned", m)
	}
}

// Inputs are of order 1 whatever the network and the noise: a released mean gradient of
// norm C with its noise has coordinates of mean square 1 in the projector's unit, and the
// level is the noise's share.
func TestUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, params := range []int{2, 1000, 300_000} {
		for _, multiplier := range []float64{0, 0.7, 50, 1e4} {
			s := known
			s.Params = params
			noise := multiplier * s.Clip / s.Batch
			sum := 0.0
			for range params {
				x := s.Gain(multiplier) * (s.Clip/math.Sqrt(float64(params)) + noise*r.NormFloat64())
				sum += x * x
			}
			// The relative deviation of a mean of so many squares is √(2/n) at most, cross
			// terms included below 3√(1/n): 7 of them are exceeded with less than 1e-9.
			mean, tolerance := sum/float64(params), 21/math.Sqrt(float64(params))
			if params > 2 && math.Abs(mean-1) > tolerance {
				t.Errorf("%d parameters, noise %v: mean square %v", params, multiplier, mean)
			}
			if want := noise * s.Gain(multiplier); math.Abs(s.level(multiplier)-want) > 1e-12 {
				t.Errorf("level %v, want %v", s.level(multiplier), want)
			}
		}
	}
	if l := known.level(0); l != 0 {
		t.Errorf("without noise its level is %v", l)
	}
}

func TestSettingRefuses(t *testing.T) {
	for name, change := range map[string]func(*Setting){
		"steps": func(s *Setting) { s.Steps = 0 }, "parameters": func(s *Setting) { s.Params = 0 },
		"clip": func(s *Setting) { s.Clip = 0 }, "batch": func(s *Setting) { s.Batch = math.Inf(1) },
		"order": func(s *Setting) { s.Least = 4 }, "negative": func(s *Setting) { s.Least = -1 },
		"infinite": func(s *Setting) { s.Planned = math.Inf(1) }, "no number": func(s *Setting) { s.Planned = math.NaN() },
	} {
		s := known
		change(&s)
		if s.validate() == nil {
			t.Errorf("%s: %+v is taken", name, s)
		}
	}
	if err := known.validate(); err != nil {
		t.Error(err)
	}
}

// A protector that is at hand is completed as one that was found, but for its file.
func TestNewWith(t *testing.T) {
	s := dpoptim.Settings{LRSchedule: dpoptim.Constant, Accountant: accountant.PLD, Neighbouring: "add-remove"}
	s, notes, err := NewWith(made(Learned, Constant), Settings{}).Complete(s, dpoptim.Network{Data: "fmnist"})
	if err != nil || *s.LR != 0.05 || *s.Steps != 40 || notes.DefaultsFrom == "" || len(notes.NoGuarantee) != 0 {
		t.Errorf("rate %v, steps %v, %+v: %v", s.LR, s.Steps, notes, err)
	}
	if _, _, err := New(Settings{}).Complete(s, dpoptim.Network{}); err == nil || !strings.Contains(err.Error(), "needs a protector") {
		t.Errorf("no protector: %v", err)
	}
}
