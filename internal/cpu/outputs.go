package cpu

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// Outputs runs a program that is a fixed map, such as the frozen part of a network. One goroutine uses it at a time.
type Outputs struct {
	n      *net
	params []float32
	rows   []int32
	dst    []float32
}

// outputsTogether is how many records go through a map together. It changes no bit.
const outputsTogether = 256

// NewOutputs compiles a map, with the values of its constants, for so many threads.
func NewOutputs(p *ir.Program, constants []float32, threads int) (*Outputs, error) {
	if err := p.ValidateMap(); err != nil {
		return nil, err
	}
	if err := repertoire.Check(p); err != nil {
		return nil, err
	}
	s := &ir.Schedule{Program: p}
	for i := range p.Ops {
		s.Steps = append(s.Steps, ir.Step{Kind: ir.Forward, Op: i})
	}
	o := &Outputs{n: compile(s, device.Options{Capacity: outputsTogether}, threads), params: constants}
	n := o.n
	phases := []phase{{each: []func(int, *worker){n.gather}}}
	for _, st := range s.Steps {
		for _, p := range n.compileStep(st) {
			phases = fused(phases, p)
		}
	}
	width := p.Outputs()
	phases = fused(phases, phase{each: []func(int, *worker){func(b int, _ *worker) {
		copy(row(o.dst, n.first+b, width), n.value(p.Logits(), b))
	}}})
	n.all = []phase{n.through(phases)}
	n.params = constants
	n.pack()
	return o, nil
}

// Of writes what the map makes of records with finite values, which lie one after the other. The outputs of a record have the same
// bits whatever other records there are.
func (o *Outputs) Of(dst, records []float32) error {
	n := o.n
	width := ir.Size(n.program.Shape)
	for i := len(o.rows); i < len(records)/width; i++ {
		o.rows = append(o.rows, int32(i))
	}
	count := len(records) / width
	t, err := load(device.Rows{Count: count, Width: width, Targets: make([]float32, count)}, device.Floats(records))
	if err != nil {
		return err
	}
	o.run(dst, t)
	return nil
}

func (o *Outputs) run(dst []float32, t *host.Table) {
	n := o.n
	o.dst, n.table, n.rows = dst, t, o.rows[:t.Count]
	for n.first = 0; n.first < t.Count; n.first += n.batch {
		n.batch = min(n.chunk, t.Count-n.first)
		n.run(n.all)
	}
	o.dst, n.table, n.rows, n.first = nil, nil, nil, 0 // the caller's memory
}

// Close ends its threads.
func (o *Outputs) Close() { o.n.Close() }
