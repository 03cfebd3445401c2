package train

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device/reference"
)

// Without noise a schedule is gradient descent bit for bit: that of dp-sgd on all records at the same
// learning rate, with a clip norm that no gradient reaches. A ball that no weights leave changes no bit.
func TestPURWithoutNoise(t *testing.T) {
	trained := func(set func(*Config)) []float32 {
		c := small()
		c.Noise, c.NoiseMultiplier, c.Batch, c.FeatureNorm, c.L2, c.LR = dpoptim.Seeded, ptr(0.0), nil, ptr(3.0), 0.05, nil
		c.Steps = ptr(12)
		set(&c)
		_, params := trainedOn(t, c, made(1, 120), Options{})
		return params
	}
	m := 0.05 + math.Pow(math.Hypot(3, 1), 2)/4
	descent := func(rate float64) []float32 {
		return trained(func(c *Config) {
			c.LR, c.SamplingRate, c.Clip = &rate, ptr(1.0), math.Hypot(3, 1)
			c.Neighbouring = "replace-one"
		})
	}
	if rms(descent(1/m)) == 0 {
		t.Fatal("descent goes nowhere")
	}
	for _, c := range []struct {
		optimizer string
		set       func(*Config)
		rate      float64
	}{
		{"pur-a", func(*Config) {}, 1 / (m * 2)},
		{"pur-b", func(c *Config) { c.Radius = ptr(1000.0) }, 1 / (m * 2)},
		{"pur-c", func(*Config) {}, 1 / (m * 2)},
		{"pur-c", func(c *Config) { c.PUR.K = ptr(2.0) }, 1 / (m * (1 + 2.0*2.0))},
		{"noisy-gd", func(*Config) {}, 1 / m},
	} {
		got := trained(func(config *Config) { config.Optimizer = c.optimizer; c.set(config) })
		if want := descent(c.rate); !slices.Equal(got, want) {
			t.Errorf("%s: the parameters are %v, those of descent %v", c.optimizer, got[:4], want[:4])
		}
	}
}

// Released weights stay in the ball, whatever the noise.
func TestPURStaysInTheBall(t *testing.T) {
	for _, optimizer := range []string{"pur-b", "pur-c", "noisy-gd", "bassily-sgd"} {
		c := small()
		onAll(optimizer, func(c *Config) { c.Radius, c.Epsilon = ptr(0.25), ptr(20.0) })(&c)
		if c.Steps = nil; optimizer == "bassily-sgd" {
			c.Batch, c.Steps = ptr(40.0), ptr(30)
		}
		r, params := trainedOn(t, c, made(1, 400), Options{Device: reference.Open()})
		if norm := rms(params) * math.Sqrt(float64(len(params))); norm > 0.25*(1+1e-6) || norm < 0.05 || r.Steps < 1 {
			t.Errorf("%s: after %d steps the weights have norm %v", optimizer, r.Steps, norm)
		}
	}
}

// A run of the oracle repeats, and says that it is not private.
func TestOracleRepeats(t *testing.T) {
	c := small()
	onAll("pur-oracle", func(*Config) {})(&c)
	r, first := trainedOn(t, c, made(1, 200), Options{})
	_, second := trainedOn(t, c, made(1, 200), Options{})
	c.Seed = 2
	_, other := trainedOn(t, c, made(1, 200), Options{})
	if !slices.Equal(first, second) || slices.Equal(first, other) {
		t.Error("the noise does not follow the seed")
	}
	if r.Guarantee || r.Epsilon != nil || len(r.NoGuarantee) == 0 {
		t.Errorf("the result says %+v", r)
	}
}
