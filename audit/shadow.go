package audit

import (
	"math"

	"github.com/privgrad/privgrad/audit/reach"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/train"
)

// A shadow follows a run without its noise, and so knows every sum that the run may
// have, to the last digit: what an adversary who knows the program, the parameters
// and all records works out at home.
type shadow struct {
	game   *game
	device device.Device
	data   device.Data
	engine *train.Engine
	params []float32
	both   [2][]float32
	rows   []int32
	slot   uint64
}

func (g *game) newShadow() (s *shadow, err error) {
	key, err := stream.NewKey()
	if err != nil {
		return nil, err
	}
	p := *g.plan
	p.Sigma = 0
	noise, err := p.Stream(key)
	if err != nil {
		return nil, err
	}
	s = &shadow{game: g, params: make([]float32, len(g.params))}
	for w := range s.both {
		s.both[w] = make([]float32, len(g.params))
	}
	if s.device, err = g.open(); err != nil {
		return nil, err
	}
	if s.data, err = s.device.Load(g.records.rows, g.records.features); err == nil {
		s.engine, err = p.Engine(s.device, s.data, noise)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// sums are those of a batch at a run's parameters, without the canary and with it.
func (s *shadow) sums(run *train.Engine, beside []int32) ([2][]float32, error) {
	if err := run.Params(s.params); err != nil {
		return s.both, err
	}
	s.rows = append(s.rows[:0], beside...)
	for w := range s.both {
		if w == 1 {
			s.rows = append(s.rows, s.game.records.canary[1])
		}
		s.slot++
		if err := s.engine.SetParams(s.params); err != nil {
			return s.both, err
		}
		if err := s.engine.Step(s.rows, s.slot, 1); err != nil {
			return s.both, err
		}
		if err := s.engine.Released(s.both[w]); err != nil {
			return s.both, err
		}
	}
	return s.both, nil
}

func (s *shadow) close() {
	if s.engine != nil {
		s.engine.Close()
	}
	if s.data != nil {
		s.data.Close()
	}
	s.device.Close()
}

// noise is what the latest step was told of it.
func (l *lane) noise() reach.Noise {
	n := reach.Noise{Std: l.scalars[device.NoiseStd]}
	if l.game.config.Noise == "exact" {
		n.Step = math.Ldexp(1, math.Ilogb(float64(l.scalars[device.Clip]))-20) // docs/exact.md
	}
	return n
}

// tapped is a device that tells the scalars of every step that its nets run.
type tapped struct {
	device.Device
	scalars *[device.Slots]float32
}

func (d tapped) Compile(s *plan.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return tappedNet{n, d.scalars}, err
}

type tappedNet struct {
	device.Net
	scalars *[device.Slots]float32
}

func (n tappedNet) Record(body func(device.Queue)) (device.Step, error) {
	s, err := n.Net.Record(body)
	return tappedStep{s, n.scalars}, err
}

type tappedStep struct {
	device.Step
	scalars *[device.Slots]float32
}

func (s tappedStep) Run(in *device.Inputs) error {
	*s.scalars = in.Scalars
	return s.Step.Run(in)
}
