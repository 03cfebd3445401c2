package main

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/sass"
	"github.com/privgrad/privgrad/nn"
)

// kernel names one: modules may have kernels of the same name.
type kernel struct{ module, name string }

// dynamicShared gives, by architecture and kernel, the most shared memory that a launch asks for beside the kernel's own: for a
// named model, for patches of a color image of 32×32, for some layer normalizations, or for a learned rule of two layers as wide as its kernel takes. Kernels that are not here have none.
func dynamicShared() (map[string]map[kernel]int, error) {
	var programs []*ir.Program
	for _, info := range nn.Names() {
		if info.Input == [3]int{} { // its launches follow from the data
			continue
		}
		model, err := nn.Build(info.Name, nn.Options{})
		if err != nil {
			return nil, err
		}
		network, err := model.Lower()
		if err != nil {
			return nil, err
		}
		programs = append(programs, network.Program)
	}
	all := map[string]map[kernel]int{}
	for _, a := range sass.Architectures {
		most := map[kernel]int{}
		add := func(l kernels.Launch) {
			k := kernel{l.Module, l.Name}
			most[k] = max(most[k], l.Shared)
		}
		for _, p := range programs {
			for i := range p.Ops {
				for _, l := range launches(&p.Ops[i]) {
					add(l)
				}
			}
			if t := kernels.FindTrunk(p, a.SharedOptIn); t != nil {
				b := kernels.Batch{Capacity: 1}
				for _, t := range []*kernels.Trunk{t, t.General()} {
					add(kernels.TrunkForward(b, t, &kernels.Table{}, 0, 0, 0, 0))
					add(kernels.TrunkBackward(b, t, 0, 0, false, 0, 0, 0, 0))
				}
			}
		}
		add(kernels.CellMeans(kernels.Batch{Capacity: 1}, &ir.Op{Shape: []int{1024, 29, 29}}, 0, 0, 0, [2]kernels.Excess{}, 0))
		for _, rows := range [][]int{{64, 256}, {64, 255}, {1, 512}, {1, 511}} { // no named model has any
			op := &ir.Op{Kind: ir.LayerNorm, Shape: rows, Bias: 1}
			add(kernels.LayerNormBackward(kernels.Batch{Capacity: 1}, op, kernels.NormBack{}))
		}
		for _, l := range kernels.DenseTiles() {
			add(l)
		}
		for _, hidden := range []int{20, 32, 64} {
			l, err := kernels.Project(0, device.LSTM{Layers: 2, Hidden: hidden, Context: 3}, 1, 0, 0, 0, 0)
			if err != nil {
				return nil, err
			}
			add(l)
		}
		for k, shared := range most {
			if shared > a.SharedOptIn {
				return nil, fmt.Errorf("kernel %s of module %s asks for %d bytes of shared memory, %s has %d", k.name, k.module, shared, a.Name, a.SharedOptIn)
			}
		}
		all[a.Name] = most
	}
	return all, nil
}

// launches are those of a convolution or a group normalization that take shared memory, in planes and in pixels.
func launches(op *ir.Op) []kernels.Launch {
	switch op.Kind {
	case ir.Conv:
		return convolution(op)
	case ir.GroupNorm:
		b := kernels.Batch{Capacity: 1}
		all := []kernels.Launch{kernels.GroupNorm(b, op, 0, 0, 0, 0, 0), kernels.GroupNormStore(b, op, 0, 0, 0, 0, 0, 0)} // which has all channels
		for _, p := range []device.Precision{device.TF32, device.BF16} {
			all = append(all, kernels.Math(p).GroupNormActivated(b, op, 0, 0, 0, 0, 0, 0), kernels.Math(p).GroupNormBackward(b, op, kernels.NormBack{}))
		}
		return all
	}
	return nil
}

func convolution(op *ir.Op) []kernels.Launch {
	b := kernels.Batch{Capacity: 1}
	all := []kernels.Launch{
		kernels.ConvForward(b, op, 0, 0, 0, 0), kernels.ConvInputGrad(b, op, 0, 0, 0, false), kernels.ConvStore(b, op, 0, 0, 0, 0, 0),
		kernels.ConvSum(b, op, 0, 0, 0, 0, 0),
	}
	if op.Function == ir.Standardize {
		out, k, _ := op.Columns()
		for _, stride := range []int{0, 1} { // by fours, and not
			all = append(all, kernels.StandardizeMeasure(b, &kernels.Standardized{Out: out, K: k, Stride: stride}, 0))
		}
	}
	for _, p := range []device.Precision{device.TF32, device.BF16} {
		if m := kernels.Math(p); kernels.Products(op) && m.FitsGradient(op) {
			all = append(all, m.GradientNorm(b, op, 0, 0, 0), m.GradientStore(b, op, 0, 0, 0, 0, 0), m.GradientSum(b, op, 0, 0, 0, 0, 0),
				m.GradientAdd(b, op, 0, 0, 0, 0, 0))
		}
		all = append(all, kernels.Math(p).ProductTiles()...)
	}
	return all
}
