package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/cuda/model"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// modelledPrefix begins the names of devices that are not there: modelled:h100.
const modelledPrefix = "modelled:"

// Modelled says whether a device's name is one of ModelStep's.
func Modelled(name string) bool { return strings.HasPrefix(name, modelledPrefix) }

// ModelledDevices lists them.
func ModelledDevices() (names []string) {
	for _, n := range model.Names() {
		names = append(names, modelledPrefix+n)
	}
	return names
}

// AModel is what every modelled figure is shown with.
const AModel = "a model, not a measurement"

// ModelledStep is a training step's time on a GPU that is not there.
type ModelledStep struct {
	Kind      string        `json:"kind"`     // AModel
	Modelled  bool          `json:"modelled"` // true
	Device    string        `json:"device"`
	Machine   model.Machine `json:"machine"`
	Model     string        `json:"model"`
	Mode      string        `json:"mode"`
	Precision string        `json:"precision"`
	Strategy  *string       `json:"strategy"`
	Batch     int           `json:"batch"`
	Together  int           `json:"physical_batch"`
	Seconds   float64       `json:"step_seconds_modelled"`

	// The other keys of a StepResult; what was not measured is null.
	Activation        string  `json:"activation"`
	GEMM              string  `json:"gemm"`
	Data              string  `json:"data"`
	Threads           *int    `json:"threads"`
	Steps             int     `json:"steps_timed"`         // 0
	Median            float64 `json:"step_seconds_median"` // Seconds again
	ExamplesPerSecond float64 `json:"examples_per_second"`
	PeakRSS           *int64  `json:"peak_rss_bytes"`
	Parameters        int     `json:"parameters"`
	FLOPsPerExample   int64   `json:"flops_per_example"`

	Graphs   int             `json:"graphs"`
	Launches int             `json:"launches"`
	Floors   float64         `json:"launch_floor_seconds"` // of graphs and launches, in Seconds
	DRAM     int64           `json:"dram_bytes"`
	Roofline float64         `json:"roofline_seconds"`
	Notes    []string        `json:"assumptions"`
	Layers   []ModelledLayer `json:"layers,omitempty"`
	Kernels  []model.Kernel  `json:"kernels,omitempty"`
}

// ModelledLayer is what of a step's time belongs to a layer.
type ModelledLayer struct {
	Name     string  `json:"layer"`
	Choice   string  `json:"choice"`
	Forward  float64 `json:"forward_seconds_modelled"`
	Backward float64 `json:"backward_seconds_modelled"`
	Gradient float64 `json:"gradient_seconds_modelled"`
}

// ModelStep models the step that Step would time on a GPU: it records the step as on one, runs some blocks of every
// launch, and adds modelled times up. The figures are the same on every machine.
func ModelStep(o StepOptions) (*ModelledStep, error) {
	name := strings.TrimPrefix(o.Device, modelledPrefix)
	machine := model.Find(name)
	if machine == nil {
		return nil, usage.Errorf("unknown device %q: choose one of %s", o.Device, strings.Join(ModelledDevices(), ", "))
	}
	if o.GEMM == devices.GEMMCuBLAS {
		return nil, usage.Errorf("gemm %s: NVIDIA's library cannot be modelled; leave --gemm out", o.GEMM)
	}
	m, driver := model.New(machine)
	o.Images = nil // any others would take other times
	o.modelled = func() (device.Device, error) { return cuda.Open(driver, 0) }
	if err := o.check(); err != nil {
		return nil, err
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	steps, err := o.sgd(w)
	if err != nil {
		return nil, err
	}
	defer steps.Close()
	for range 2 { // the first steps also zero what steps start from
		m.Take()
		if _, err := steps.several(cuda.Together); err != nil {
			return nil, err
		}
	}
	r := &ModelledStep{
		Kind: AModel, Modelled: true, Device: o.Device, Machine: *machine, Model: o.Model, Mode: o.Mode, Precision: w.options.Precision.String(),
		Batch: o.Batch, Together: w.schedule.Chunk, Notes: append(model.Assumptions(), perStep), Roofline: o.roofline(w, machine),
	}
	all, graphs := m.Take()
	r.add(all, graphs)
	r.Activation, r.GEMM, r.Data, r.Parameters, r.FLOPsPerExample = o.Activation, o.GEMM, w.set.Name, w.program.NumParams(), w.program.StepFLOPs()
	r.Median, r.ExamplesPerSecond = r.Seconds, float64(o.Batch)/r.Seconds
	if o.Mode == "private" {
		strategy := string(perexample.Canonical(perexample.Strategy(o.Strategy)))
		r.Strategy = &strategy
	}
	if o.Explain {
		r.Kernels = all[:r.Launches]
	}
	if o.Explain && o.Mode == "private" {
		r.Layers, err = o.modelledLayers(w, steps)
	}
	return r, err
}

// perStep says what a step's share is.
var perStep = fmt.Sprintf("%d steps are modelled, without a wait between them, and a step's time is their mean; its graphs and launches are rounded up, and its kernels are those of the first step", cuda.Together)

// add adds the launches and the starts of the graphs of cuda.Together steps up, all of which do the same.
func (r *ModelledStep) add(all []model.Kernel, graphs int) {
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

// Groups are the kinds of launches.
func (r *ModelledStep) Groups() []model.Grouped { return model.Group(r.Kernels) }

// roofline is what the products of a step alone would take at the GPU's full rate: no kernel can be faster that makes them.
func (o *StepOptions) roofline(w *workload, m *model.Machine) float64 {
	return float64(o.Batch) * float64(w.program.StepFLOPs()) / m.FLOPs(w.options.Precision)
}

// modelledLayers runs a step once more, with clocks between its layers.
func (o *StepOptions) modelledLayers(w *workload, s *stepper) ([]ModelledLayer, error) {
	spent := s.Profile()
	if _, err := s.step(); err != nil {
		return nil, err
	}
	times := spent()
	var all []ModelledLayer
	for _, l := range perexample.Explain(w.schedule, w.device.Info().Costs) {
		layer := ModelledLayer{Name: l.Name, Choice: string(l.Chosen().Choice)}
		for i, st := range w.schedule.Steps {
			if st.Op != l.Op || i >= len(times) {
				continue
			}
			switch st.Kind {
			case ir.Forward:
				layer.Forward += times[i].Seconds()
			case ir.InputGrad:
				layer.Backward += times[i].Seconds()
			default:
				layer.Gradient += times[i].Seconds()
			}
		}
		all = append(all, layer)
	}
	return all, nil
}

// modelledKey draws the noise of modelled steps, which are the same every time. No data are there.
var modelledKey = stream.Key{1}
