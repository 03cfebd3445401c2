package main

import (
	"fmt"
	"time"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/model"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// aModel is what every figure is shown with.
const aModel = "a model, not a measurement"

// result is a training step's time on a GPU that is not there.
type result struct {
	Kind              string         `json:"kind"`     // aModel
	Modelled          bool           `json:"modelled"` // true
	GPU               string         `json:"gpu"`
	Machine           model.Machine  `json:"machine"`
	Model             string         `json:"model"`
	Mode              string         `json:"mode"`
	Precision         string         `json:"precision"`
	Strategy          *string        `json:"strategy"` // null of a plain step
	Activation        string         `json:"activation"`
	Batch             int            `json:"batch"`
	Together          int            `json:"physical_batch"`
	Seconds           float64        `json:"step_seconds"`
	ExamplesPerSecond float64        `json:"examples_per_second"`
	Parameters        int            `json:"parameters"`
	FLOPsPerExample   int64          `json:"flops_per_example"`
	Graphs            int            `json:"graphs"`
	Launches          int            `json:"launches"`
	Floors            float64        `json:"launch_floor_seconds"` // of graphs and launches, in Seconds
	DRAM              int64          `json:"dram_bytes"`
	Roofline          float64        `json:"roofline_seconds"`
	Notes             []string       `json:"assumptions"`
	Layers            []layer        `json:"layers,omitempty"`
	Kernels           []model.Kernel `json:"kernels,omitempty"`
}

// layer is what of a step's time belongs to a layer.
type layer struct {
	Name     string  `json:"layer"`
	Choice   string  `json:"choice"`
	Forward  float64 `json:"forward_seconds"`
	Backward float64 `json:"backward_seconds"`
	Gradient float64 `json:"gradient_seconds"`
}

// modelStep models the step that bench.Step would time on a GPU: it records the step as on one, runs some blocks of
// every launch, and adds modelled times up. The figures are the same on every machine. explain gives layers and kernels.
func modelStep(gpu string, o bench.StepOptions, explain bool) (*result, error) {
	machine := model.Find(gpu)
	if machine == nil {
		return nil, usage.Unknown("gpu", gpu, model.Names())
	}
	m, driver := model.New(machine)
	o.On = func() (device.Device, error) { return cuda.Open(driver, 0) }
	p, err := bench.Prepare(&o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	for range 2 { // the first steps also zero what steps start from
		m.Take()
		if err := p.Make(cuda.Together); err != nil {
			return nil, err
		}
	}
	r := &result{
		Kind: aModel, Modelled: true, GPU: gpu, Machine: *machine, Model: o.Model, Mode: o.Mode, Precision: p.Precision.String(), Activation: o.Activation,
		Batch: o.Batch, Together: p.Schedule.Chunk, Parameters: p.Program.NumParams(), FLOPsPerExample: p.Program.StepFLOPs(),
		// No kernel can be faster that makes a step's products.
		Roofline: float64(o.Batch) * float64(p.Program.StepFLOPs()) / machine.FLOPs(p.Precision),
		Notes:    append(model.Assumptions(), perStep),
	}
	all, graphs := m.Take()
	r.add(all, graphs)
	r.ExamplesPerSecond = float64(o.Batch) / r.Seconds
	private := o.Mode == "private"
	if private {
		r.Strategy = new(string(perexample.Canonical(perexample.Strategy(o.Strategy))))
	}
	if explain {
		r.Kernels = all[:r.Launches]
	}
	if explain && private {
		r.Layers, err = layers(p)
	}
	return r, err
}

// perStep says what a step's share is.
var perStep = fmt.Sprintf("%d steps are modelled, without a wait between them, and a step's time is their mean; its graphs and launches are rounded up, and its kernels are those of the first step", cuda.Together)

// add adds the launches and the starts of the graphs of cuda.Together steps up, all of which do the same.
func (r *result) add(all []model.Kernel, graphs int) {
	const steps = cuda.Together
	r.Graphs, r.Launches = (graphs+steps-1)/steps, (len(all)+steps-1)/steps
	total := time.Duration(graphs) * model.GraphFloor
	floor := total
	for i := range all {
		total += all[i].Duration()
		floor += all[i].FloorDuration()
		r.DRAM += all[i].Counts.DRAM
	}
	r.Seconds, r.Floors, r.DRAM = (total / steps).Seconds(), (floor / steps).Seconds(), r.DRAM/steps
}

// layers runs a step once more, with clocks between its layers.
func layers(p *bench.Prepared) ([]layer, error) {
	times, err := p.Times()
	if err != nil {
		return nil, err
	}
	var all []layer
	for _, of := range perexample.Explain(p.Schedule, ir.Costs{}) { // what was chosen is not priced
		l := layer{Name: of.Name, Choice: string(of.Choice)}
		for i, s := range p.Schedule.Steps {
			if s.Op != of.Op || i >= len(times) {
				continue
			}
			switch s.Kind {
			case ir.Forward:
				l.Forward += times[i].Seconds()
			case ir.InputGrad:
				l.Backward += times[i].Seconds()
			default:
				l.Gradient += times[i].Seconds()
			}
		}
		all = append(all, l)
	}
	return all, nil
}
