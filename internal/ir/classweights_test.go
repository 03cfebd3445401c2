package ir_test

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
)

// A program has one weight a class, of a size that float32 takes.
func TestClassWeights(t *testing.T) {
	margins := program("linear-logistic")
	margins.ClassWeights = []float32{2, 3}
	softmax := program("dense-wide") // of three classes
	softmax.ClassWeights = []float32{1, 2, 3}
	for _, p := range []*ir.Program{margins, softmax} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	if a, b, c := margins.Weight(-1), margins.Weight(1), softmax.Weight(2); a != 2 || b != 3 || c != 3 {
		t.Errorf("the weights are %v, %v and %v", a, b, c)
	}
	if w := program("linear-logistic").Weight(-1); w != 1 {
		t.Errorf("without weights a record has %v", w)
	}
	regression := program("linear-huber")
	for want, wrong := range map[string]struct {
		of      *ir.Program
		weights []float32
	}{
		"has no classes":          {regression, []float32{1, 1}},
		"2 classes and 3 class":   {margins, []float32{1, 2, 3}},
		"must be from 1e-06":      {margins, []float32{1, 0}},
		"3 classes and 0 class":   {softmax, []float32{}},
		"must be from 1e-06 to 1": {softmax, []float32{1, 1, 2e6}},
	} {
		p := *wrong.of
		p.ClassWeights = wrong.weights
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func program(name string) *ir.Program {
	for _, p := range devicetest.Programs() {
		if p.Name == name {
			return p
		}
	}
	return nil
}
