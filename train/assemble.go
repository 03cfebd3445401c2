package train

import (
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// The parts of a run, as its plan puts them together: for runs, and for audits of
// them, which must test what runs use.

// Sampler draws the batches of a table of n records. The key must be used for
// nothing else.
func (p *Plan) Sampler(n int, key stream.Key) (datasets.Sampler, error) {
	if p.Config.fixedSize() {
		return datasets.NewSubsets(n, p.PublicN, int(p.ExpectedBatch), key, p.cipher())
	}
	return datasets.NewPoisson(n, p.SamplingRate, key, p.cipher())
}

// Stream is what the run's mechanisms draw from.
func (p *Plan) Stream(key stream.Key) (*stream.Stream, error) { return stream.New(p.cipher(), key) }

// Engine puts the network, with the mechanism that was priced and the optimizer,
// on a device. Its parameters are zero until they are set.
func (p *Plan) Engine(d device.Device, data device.Data, noise *stream.Stream) (*Engine, error) {
	adapt, err := p.adaptation(noise)
	if err != nil {
		return nil, err
	}
	m := func(n device.Net) (mechanism.Mechanism, error) { return p.mechanism(noise, n) }
	o := device.Options{Capacity: p.Capacity, Exact: p.Config.exact(), CuBLAS: p.Config.cuBLAS(), Precision: p.precision}
	if p.Config.searches() {
		return NewDescent(d, p.Schedule, o, data, m, p.optimizer, p.ExpectedBatch, p.Config.L2, p.filtered())
	}
	if p.schedules() {
		norm := func(n device.Net) (*mechanism.Norm, error) { return p.normMechanism(n, noise) }
		return NewProtected(d, p.Schedule, o, data, m, norm, p.optimizer)
	}
	return NewEngine(d, p.Schedule, o, data, m, adapt, p.optimizer)
}
