package devicetest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// testClassWeights compares sums with those of each record's gradient by itself, times the weight of its class, and clipped by
// hand. Weights must come before clipping, and not after: then no share exceeds the clip norm.
func testClassWeights(t *testing.T, d device.Device) {
	for _, name := range []string{"dense-no-bias", "thrice", "group-norm", "linear-logistic", "mlp-hinge"} {
		t.Run(name, func(t *testing.T) {
			c := newCase(t, d, program(name), 9, 1)
			weighted := *c
			weighted.Program = weightedProgram(c.Program)
			s := made(perexample.Private(weighted.Program, perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat}))(t)
			if n, err := d.Compile(s, device.Options{Capacity: 2, Precision: precision(d)}); err == nil {
				must(t, n.Close())
			} else if strings.Contains(err.Error(), "has no class weights") {
				t.Skip(err)
			}
			gradients := gradients(t, c)
			for i, g := range gradients {
				class := 0
				if target := c.Rows.Targets[i]; c.Program.Loss == ce {
					class = int(target)
				} else if target == 1 {
					class = 1
				}
				for j := range g {
					g[j] *= weighted.Program.ClassWeights[class]
				}
			}
			for _, x := range some(d, private(t, weighted.Program)) {
				t.Run(x.name, func(t *testing.T) {
					f := Open(t, d, x.Schedule, &weighted, c.Rows.Count)
					for _, clip := range []float64{medianNorm(gradients), 1e9} {
						Near(t, f.Of(t, c.All(), clip), clippedSum(gradients, clip), tolerance(d))
					}
				})
			}
		})
	}
}

// weightedProgram has another weight for each class, some above 1.
func weightedProgram(p *ir.Program) *ir.Program {
	weighted := *p
	for class := range max(p.Outputs(), 2) {
		weighted.ClassWeights = append(weighted.ClassWeights, float32(0.25*math.Pow(3, float64(class))))
	}
	return &weighted
}

func medianNorm(gradients [][]float32) float64 {
	var norms []float64
	for _, g := range gradients {
		norms = append(norms, Norm(g))
	}
	slices.Sort(norms)
	// Between two norms, so that rounding puts no record on the other side.
	middle := len(norms) / 2
	return (norms[middle-1] + norms[middle]) / 2
}

func clippedSum(gradients [][]float32, clip float64) []float32 {
	sum := make([]float32, len(gradients[0]))
	for _, g := range gradients {
		share := 1.0
		if n := Norm(g); n > clip {
			share = clip / n
		}
		for j, x := range g {
			sum[j] += float32(share * float64(x))
		}
	}
	return sum
}
