package bench

import (
	"fmt"
	"time"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// Layer is what a strategy does with one layer of a step, and what it takes.
// FLOPs, bytes and seconds are those of the parameters' gradients, of their
// norms and of the clipped sum; forward and backward seconds come beside.
type Layer struct {
	Name string `json:"layer"`
	Alternative
	Measured     float64       `json:"seconds_measured"` // a step
	Forward      float64       `json:"forward_seconds"`
	Backward     float64       `json:"backward_seconds"`
	Alternatives []Alternative `json:"alternatives"`
}

// Alternative is what a layer could do.
type Alternative struct {
	Choice    string  `json:"choice"`
	FLOPs     int64   `json:"flops_per_example"`
	Bytes     int64   `json:"bytes_per_example"`
	Estimated float64 `json:"seconds_estimated"` // a step, by nominal speeds
}

// explain runs more steps for half of the time, with a clock at every step of
// the schedule.
func (o *StepOptions) explain(s *ir.Schedule, info device.Info, spent func() []time.Duration, step func() error) ([]Layer, error) {
	if spent == nil {
		return nil, fmt.Errorf("device %s cannot time single layers", info.Name)
	}
	steps := 0
	for start := time.Now(); steps == 0 || time.Since(start).Seconds() < o.Seconds/2; steps++ {
		if err := step(); err != nil {
			return nil, err
		}
	}
	times := spent()
	if len(times) != len(s.Steps) {
		return nil, fmt.Errorf("device %s cannot time single layers", info.Name)
	}
	price := func(a perexample.Alternative) Alternative {
		return Alternative{string(a.Choice), a.FLOPs, a.Bytes, a.Seconds * float64(o.Batch) / float64(info.Threads)}
	}
	var layers []Layer
	for _, l := range perexample.Explain(s, info.Costs) {
		layer := Layer{Name: l.Name, Alternative: price(l.Chosen())}
		for _, a := range l.Alternatives {
			layer.Alternatives = append(layer.Alternatives, price(a))
		}
		for i, st := range s.Steps {
			if st.Op != l.Op {
				continue
			}
			seconds := times[i].Seconds() / float64(steps) / float64(info.Threads)
			switch st.Kind {
			case ir.Forward:
				layer.Forward += seconds
			case ir.InputGrad:
				layer.Backward += seconds
			default:
				layer.Measured += seconds
			}
		}
		layers = append(layers, layer)
	}
	return layers, nil
}
