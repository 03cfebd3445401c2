package features

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/encoder"
	"github.com/privgrad/privgrad/internal/patches"
	"github.com/privgrad/privgrad/internal/safetensors"
)

// A convolutional network that was trained on synthetic images alone, by scripts/encoder.py.

// trained is the spec whose constants hold the network, for images of every size.
var trained = Spec{Kind: "encoder", Whiten: Leaves, Mirror: true, Shape: [3]int{3, 32, 32}}

var encoderKind = kind{
	name:   "encoder",
	weight: .8,
	damp:   .7,
	halves: func(constant string) bool { return constant != meanName },
	check: func(shape [3]int) string {
		if shape[0] != encoder.Colors || min(shape[1], shape[2]) < encoder.Least {
			return "with 3 colors, of 16×16 pixels or more"
		}
		return ""
	},
	depth:  func([3]int) int { return encoder.Channels },
	shapes: func([3]int) map[string][]int { return encoder.Shapes() },
	fit:    func([3]int, func(share float64)) (map[string][]float32, error) { return trainedNetwork() },
	open: func(shape [3]int, mirror bool, constants map[string][]float32) layer {
		n := encoder.New(shape, mirror, constants)
		return layer{channels: encoder.Channels, rows: patches.Grid, cols: patches.Grid, keep: patches.Grid, worker: n.Worker}
	},
	program: encoder.Program,
}

// trainedNetwork is what was trained, without the whitening behind it.
func trainedNetwork() (map[string][]float32, error) {
	file, err := constantFiles.Open(constantPath(trained))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	tensors, _, err := safetensors.Read(file, maxFile)
	all := map[string][]float32{}
	for name, shape := range encoder.Shapes() {
		if err == nil {
			all[name], err = find(tensors, "encoder."+name, shape, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", constantPath(trained), err)
	}
	return all, nil
}
