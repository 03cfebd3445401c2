package devicetest

import "github.com/privgrad/privgrad/internal/ir"

// Pattern is an integer from 0 to 4095 that looks random. scripts/models_golden.py has the same.
func Pattern(which, i int) uint32 {
	h := uint32(i) + uint32(1000003*(which+1))
	h *= 2654435761
	h ^= h >> 15
	h *= 2246822519
	h ^= h >> 13
	return h >> 20
}

// Direction is element i of a vector that looks random, from -1 to 1.
func Direction(which, i int) float64 { return float64(Pattern(which, i))/2048 - 1 }

// PatternPixel is a byte of an image.
func PatternPixel(which, i int) uint8 { return uint8(Pattern(which, i) / 16) }

// PatternParams are a program's parameters, as scripts/models_golden.py makes them: weights with several axes, smaller biases, and
// scales and gains near one.
func PatternParams(p *ir.Program) []float32 {
	values, kinds := make([]float32, p.NumParams()), kindsOf(p)
	for k, q := range p.Params {
		for i := range q.Size() {
			v := (float32(Pattern(k+1, i)) - 2048) / 8192
			switch kinds[k] {
			case bias:
				v /= 4
			case scale:
				v++
			}
			values[q.Offset+i] = v
		}
	}
	return values
}

// kind of a parameter.
type kind int

const (
	weight kind = iota
	bias
	scale
)

func kindsOf(p *ir.Program) []kind {
	kinds := make([]kind, len(p.Params))
	for _, op := range p.Ops {
		for i, k := range append([]int{op.Weight, op.Bias}, op.Given...) {
			switch {
			case k == ir.None:
			case i == 1:
				kinds[k] = bias
			case i > 1 || op.Kind == ir.GroupNorm:
				kinds[k] = scale
			}
		}
	}
	return kinds
}
