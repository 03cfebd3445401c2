package audit

import (
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// eachView is a device that takes every view of a unit for a record: it clips each, and adds all.
type eachView struct{ device.Device }

type eachViewNet struct {
	device.Net
	views int
	rows  *ir.Schedule
}

type eachViewStep struct {
	device.Step
	views int
	rows  *ir.Schedule
}

func (d eachView) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	apart := *s
	apart.Several, apart.UnitRows = 1, 0
	o.Capacity *= s.Views()
	net, err := d.Device.Compile(&apart, o)
	return eachViewNet{net, s.Views(), s}, err
}

func (n eachViewNet) Record(f func(device.Queue)) (device.Step, error) {
	s, err := n.Net.Record(f)
	return eachViewStep{s, n.views, n.rows}, err
}

func (s eachViewStep) Run(in *device.Inputs) error {
	apart := *in
	apart.Rows = nil
	for _, row := range in.Rows {
		for k := range s.views {
			apart.Rows = append(apart.Rows, s.rows.Row(row, k))
		}
	}
	return s.Step.Run(&apart)
}

// ofEachView plants the device.
func ofEachView(_ *testing.T, g *game) {
	open := g.open
	g.open = func() (device.Device, error) {
		d, err := open()
		return eachView{d}, err
	}
}
