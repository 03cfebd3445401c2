package record_test

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// A device without class weights refuses a program that has some, by its name, and takes all others.
func TestNoClassWeights(t *testing.T) {
	m, err := nn.Build("logistic", nn.Options{Input: [3]int{1, 1, 3}})
	if err != nil {
		t.Fatal(err)
	}
	network, err := m.Lower()
	if err != nil {
		t.Fatal(err)
	}
	r := record.Repertoire{Device: "plain", Ops: func(ir.Kind) bool { return true }}
	for want, weights := range map[string][]float32{"": nil, "device plain has no class weights: choose device cpu": {1, 2}} {
		p := *network.Program
		p.ClassWeights = weights
		s, err := perexample.Plain(&p)
		if err != nil {
			t.Fatal(err)
		}
		err = record.Check(s, device.Options{Capacity: 1}, r)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("weights %v: %v", weights, err)
		}
	}
}
