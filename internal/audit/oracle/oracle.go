// Package oracle says what a record of an audit adds to a sum.
package oracle

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// An Oracle knows what a record adds to a sum: its gradient by the reference
// device, from a schedule that neither measures nor clips, clipped here. It
// shares nothing with what is audited but the network.
type Oracle struct {
	plan   *plan.Plan
	net    device.Net
	sum    device.Step
	read   device.Step
	vector device.Vector
	draw   uint64
	buffer []float32
}

// Open has one of a table of records. Close it.
func Open(p *plan.Plan, rows device.Rows, features device.Bytes) (o *Oracle, err error) {
	schedule, err := perexample.Plain(p.Network.Program)
	if err != nil {
		return nil, err
	}
	d := reference.Open()
	data, err := d.Load(rows, features)
	if err != nil {
		return nil, err
	}
	o = &Oracle{plan: p, buffer: make([]float32, p.Network.Program.NumParams())}
	if o.net, err = d.Compile(schedule, device.Options{Capacity: 1}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.net.Close()
		}
	}()
	if err = o.net.Write(o.net.Params(), p.Network.Params()); err != nil {
		return nil, err
	}
	if o.vector, err = o.net.NewVector(1); err != nil {
		return nil, err
	}
	sum, err := o.net.NewSum()
	if err != nil {
		return nil, err
	}
	if o.sum, err = o.net.Record(func(q device.Queue) { q.ClippedSum(sum, data) }); err != nil {
		return nil, err
	}
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(0, "audit oracle, never drawn from"))
	if err != nil {
		return nil, err
	}
	m := mechanism.NewUnprotected(1, noise)
	o.read, err = o.net.Record(func(q device.Queue) { m.Release(q, o.vector, sum) })
	return o, err
}

func (o *Oracle) Close() error { return o.net.Close() }

// Share gives what a row adds to a sum, and the norm of its gradient.
func (o *Oracle) Share(row int32) ([]float32, float64, error) {
	o.draw++
	if err := o.sum.Run(&device.Inputs{Rows: []int32{row}}); err != nil {
		return nil, 0, err
	}
	if err := o.read.Run(&device.Inputs{Draw: o.draw}); err != nil {
		return nil, 0, err
	}
	if err := o.net.Read(o.vector, o.buffer); err != nil {
		return nil, 0, err
	}
	norm := math.Sqrt(square(o.buffer))
	if !(norm <= math.MaxFloat32) {
		return nil, 0, fmt.Errorf("the gradient of a synthetic record is not finite: choose another --seed")
	}
	share := make([]float32, len(o.buffer))
	clip(share, o.buffer, o.plan)
	return share, norm, nil
}

// clip writes the clipped gradient, by the definitions of perexample's clippings.
func clip(dst, g []float32, p *plan.Plan) {
	all := p.Network.Program.Params
	kind, bound := perexample.Clipping(p.Config.Clipping), p.Config.Clip
	groups := [][]ir.Param{all}
	if kind == perexample.PerLayer {
		groups = nil
		for _, op := range p.Network.Program.Ops {
			var layer []ir.Param
			for _, i := range op.Parameters() {
				layer = append(layer, all[i])
			}
			if len(layer) > 0 {
				groups = append(groups, layer)
			}
		}
		bound /= math.Sqrt(float64(len(groups)))
	}
	for _, group := range groups {
		sum := 0.0
		for _, q := range group {
			part := g[q.Offset : q.Offset+q.Size()]
			sum += square(part)
		}
		if sum == 0 {
			continue
		}
		factor := min(1, bound/math.Sqrt(sum))
		if kind == perexample.Automatic {
			factor = bound / (math.Sqrt(sum) + ir.AutomaticGamma)
		}
		for _, q := range group {
			for i := q.Offset; i < q.Offset+q.Size(); i++ {
				dst[i] = float32(factor * float64(g[i]))
			}
		}
	}
}

// square is the squared length of a vector.
func square(v []float32) float64 {
	s := 0.0
	for _, x := range v {
		s += float64(x) * float64(x)
	}
	return s
}
