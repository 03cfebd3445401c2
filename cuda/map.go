package cuda

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

var _ device.Mapper = (*Device)(nil)

// Features. A front end's records come out of a table in the GPU's memory and go into another, some at a time: what lies between is the values of
// a chunk of records, of which those live together that the ops still to come read.

// Memory for the values of a chunk: at most so many bytes, and one part of the GPU's memory in so many.
const (
	mostMapped  = 2 << 30
	mappedShare = 8
)

const otherDevice = "make the features on the CPU: use --device cpu"

// Maps is nil for programs of ops that the device has, of which one record's values have room.
func (d *Device) Maps(front device.Front) error {
	p, constants := front.Program()
	if p == nil || p.ValidateMap() != nil || slices.ContainsFunc(p.Ops, func(op ir.Op) bool { return !hasFrontOp(&op) }) {
		return errors.New("has no kernels for them yet")
	}
	if l := layMap(p, constants); l.together(1, d.mapped()) < 1 {
		return errors.New("has too little memory for them")
	}
	return nil
}

// mapped is the memory for the values of a chunk.
func (d *Device) mapped() int64 { return min(mostMapped, d.info.Memory/mappedShare) }

// Map makes the rows chunk after chunk, without the host.
func (d *Device) Map(front device.Front, from device.Data, o device.MapOptions) (device.Data, error) {
	t, _ := from.(*table)
	if t == nil || t.device != d {
		return nil, device.CheckFront(front, nil, nil)
	}
	if err := device.CheckFront(front, &t.Rows, ofForm(t.form)); err != nil {
		return nil, err
	}
	if err := d.Maps(front); err != nil {
		return nil, fmt.Errorf("device %s %w", name, err)
	}
	to := &table{Rows: device.Rows{Count: t.Count, Width: front.Width()}, memory: memory{device: d}, form: kernels.Halves, maps: kernels.MapsOf(nil)}
	m := &mapping{memory: memory{device: d}, from: t, to: to}
	m.program, m.constants = front.Program()
	err := d.do(func() error {
		if err := m.open(ceil(t.Count, cmp.Or(o.Parts, 50))); err != nil {
			return errors.Join(err, m.free(), to.release())
		}
		d.owners = append(d.owners, to, m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.all(o), d.drop(m)); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

func ceil(n, d int) int { return (n + d - 1) / d }

// ofForm has no values, of a form.
func ofForm(f kernels.Form) device.Features {
	switch f {
	case kernels.Floats:
		return device.Floats(nil)
	case kernels.Halves:
		return device.Halves(nil)
	}
	return device.Bytes(nil)
}

// mapLayout is a front end in the order of its launches, and where its values lie in a chunk.
type mapLayout struct {
	program *ir.Program
	cells   map[int]*cells // by the op that they end with
	skipped map[int]bool   // ops that are part of cells
	at      []int64        // of a value: elements of a record before it
	size    int64          // elements of a record that live together
	widest  int            // elements of a record's largest value
	moments int            // bytes, of the op that leaves most of a record
	many    []int          // numbers of examples that a record is, 1 first
}

// layMap gives values places. A value's place is free again behind the last op that reads it.
func layMap(p *ir.Program, constants []float32) *mapLayout {
	l := &mapLayout{program: p, cells: map[int]*cells{}, skipped: map[int]bool{}, at: make([]int64, len(p.Ops)+1), many: []int{1}}
	for i := range p.Ops {
		if c := cellsAt(p, constants, i); c != nil {
			l.cells[i] = c
			for _, k := range c.replaced {
				l.skipped[k] = k != i
			}
		}
	}
	last := make([]int, len(p.Ops)+1) // op that reads a value
	for i := range p.Ops {
		for _, v := range l.reads(i) {
			last[v] = i
		}
	}
	last[p.Logits()] = len(p.Ops)
	type stretch struct {
		from, to int64
		last     int
	}
	var live []stretch
	put := func(v ir.Value, op int) {
		live = slices.DeleteFunc(live, func(s stretch) bool { return s.last < op })
		size, at := int64(p.ValueSize(v)), int64(0)
		size = (size + alignment/4 - 1) / (alignment / 4) * (alignment / 4)
		for _, s := range live { // by their places
			if at+size <= s.from {
				break
			}
			at = s.to
		}
		l.at[v] = at
		live = append(live, stretch{at, at + size, last[v]})
		slices.SortFunc(live, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
		l.size, l.widest = max(l.size, at+size), max(l.widest, p.ValueSize(v))
	}
	put(ir.Input, 0)
	for i := range p.Ops {
		if l.skipped[i] {
			continue
		}
		put(ir.Value(i+1), i)
		op := &p.Ops[i]
		l.moments = max(l.moments, frontMoments(op))
		if op.Kind == ir.Planes && l.cells[i] == nil && !slices.Contains(l.many, op.Shape[0]) {
			l.many = append(l.many, op.Shape[0])
		}
	}
	return l
}

// reads lists the values that the launch of op i reads.
func (l *mapLayout) reads(i int) []ir.Value {
	switch c := l.cells[i]; {
	case l.skipped[i]:
		return nil
	case c != nil:
		return c.quotient.In
	}
	return l.program.Ops[i].In
}

// together is how many records, at most n, go through a front end together in so many bytes.
func (l *mapLayout) together(n int, bytes int64) int {
	return int(min(int64(n), bytes/(4*l.size+int64(l.moments)), kernels.MaxElements/int64(l.widest)))
}

// mapping is a table on its way through a front end.
type mapping struct {
	memory
	program   *ir.Program
	constants []float32
	from, to  *table
	stream    driver.Stream
	layout    *mapLayout
	chunk     int // records
	values    driver.Ptr
	moments   driver.Ptr
	targets   driver.Ptr
	params    kernels.Ptr
	index     []kernels.Ptr // by op
	runs      []kernels.Ptr // as layout.many
	live      int           // records that the runs have
	between   []kernels.Launch
}

// open makes room for chunks of parts of so many records, and for the result.
func (m *mapping) open(part int) error {
	m.layout = layMap(m.program, m.constants)
	most := m.layout.together(max(part, 1), m.device.mapped())
	m.chunk = ceil(max(part, 1), ceil(max(part, 1), most))
	var err error
	for _, room := range []struct {
		of    *memory
		at    *driver.Ptr
		bytes int64
	}{
		{&m.memory, &m.values, 4 * m.layout.size * int64(m.chunk)},
		{&m.memory, &m.moments, int64(m.layout.moments * m.chunk)},
		{&m.memory, &m.targets, 4 * int64(m.chunk)},
		{&m.to.memory, &m.to.features, 2 * int64(m.to.Count) * int64(m.to.Width)},
		{&m.to.memory, &m.to.targets, 4 * int64(m.to.Count)},
	} {
		if *room.at, err = room.of.alloc(room.bytes, "features", otherDevice); err != nil {
			return err
		}
	}
	if err := m.copyConstants(); err != nil {
		return err
	}
	if m.stream, err = m.device.context.NewStream(); err != nil {
		return m.device.failed("a front end", err)
	}
	m.between, err = m.launches()
	return err
}

// copyConstants brings in what does not depend on records: constants, lists of elements, and the numbers of the rows of a chunk.
func (m *mapping) copyConstants() error {
	put := func(b []byte) (kernels.Ptr, error) {
		p, err := m.alloc(int64(len(b)), "a front end", otherDevice)
		if err == nil && len(b) > 0 {
			err = m.device.failed("copying a front end", m.device.context.CopyIn(p, b))
		}
		return kernels.Ptr(p), err
	}
	var err error
	if m.params, err = put(bytesOf(m.constants)); err != nil {
		return err
	}
	m.index = make([]kernels.Ptr, len(m.program.Ops))
	for i := range m.program.Ops {
		if list := m.program.Ops[i].Index; list != nil {
			if m.index[i], err = put(bytesOf(list)); err != nil {
				return err
			}
		}
	}
	for i := range m.layout.many {
		run := make([]byte, kernels.RunBytes)
		for b := 0; i == 0 && b < m.chunk; b++ {
			run = binary.LittleEndian.AppendUint32(run, uint32(b))
		}
		at, err := put(run)
		if err != nil {
			return err
		}
		m.runs = append(m.runs, at)
	}
	return nil
}

// batch is a chunk of records each of which is so many examples.
func (m *mapping) batch(each int) kernels.Batch {
	return kernels.Batch{Run: m.runs[slices.Index(m.layout.many, each)], Capacity: each * m.chunk}
}

func (m *mapping) value(v ir.Value) kernels.Ptr {
	return kernels.Ptr(m.values) + kernels.Ptr(4*m.layout.at[v]*int64(m.chunk))
}

func (m *mapping) param(q int) kernels.Ptr {
	if q == ir.None {
		return 0
	}
	return m.params + kernels.Ptr(4*m.program.Params[q].Offset)
}

// launches are those of a chunk from its input to its rows, without both.
func (m *mapping) launches() (all []kernels.Launch, err error) {
	p := m.program
	for i := range p.Ops {
		op := &p.Ops[i]
		if m.layout.skipped[i] {
			continue
		}
		if c := m.layout.cells[i]; c != nil {
			x := c.quotient.In
			all = append(all, kernels.CellMeans(m.batch(1), c.quotient, m.value(x[0]), m.value(x[1]), m.param(c.share), c.excesses, m.value(ir.Value(i+1))))
			continue
		}
		o := &frontOp{
			Batch: m.batch(1), Op: op, program: p, y: m.value(ir.Value(i + 1)), weight: m.param(op.Weight), bias: m.param(op.Bias),
			index: m.index[i], moments: kernels.Ptr(m.moments), many: m.batch,
		}
		for _, v := range op.In {
			o.x, o.inputs = append(o.x, m.value(v)), append(o.inputs, p.ValueSize(v))
		}
		list, err := frontOps[op.Kind](o)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// all maps part after part.
func (m *mapping) all(o device.MapOptions) (failed error) {
	stopped := o.Stopped
	o.Stopped = func() error {
		if failed != nil || stopped == nil {
			return failed
		}
		return stopped()
	}
	err := o.Work(m.from.Count, func(lo, hi int) { failed = m.device.do(func() error { return m.part(lo, hi) }) })
	return cmp.Or(failed, err)
}

// part maps the records from lo to hi, the end excluded, and waits for them.
func (m *mapping) part(lo, hi int) error {
	const doing = "making features"
	for ; lo < hi; lo += m.chunk {
		if err := m.some(lo, min(m.chunk, hi-lo)); err != nil {
			return m.device.failed(doing, err)
		}
	}
	return m.device.failed(doing, m.stream.Sync())
}

// some maps a chunk of n records.
func (m *mapping) some(first, n int) error {
	if n != m.live {
		for i, each := range m.layout.many {
			if err := m.stream.Set(driver.Ptr(m.runs[i]+kernels.RunLive), uint32(n*each), 1); err != nil {
				return err
			}
		}
		m.live = n
	}
	b, from := m.batch(1), m.from.inMemory()
	from.Values += uint64(first * from.Width * from.Form.Bytes())
	from.Targets += uint64(4 * first)
	if err := m.launch(kernels.Gather(b, from, m.value(ir.Input), kernels.Ptr(m.targets))); err != nil {
		return err
	}
	for _, l := range m.between {
		if err := m.launch(l); err != nil {
			return err
		}
	}
	to := kernels.Ptr(m.to.features) + uint64(2*first*m.to.Width)
	return m.launch(kernels.Rows(b, m.to.Width, m.value(m.program.Logits()), kernels.Ptr(m.targets), to, kernels.Ptr(m.to.targets)+uint64(4*first)))
}

func (m *mapping) launch(l kernels.Launch) error {
	f, err := m.device.function(&l)
	if err != nil {
		return err
	}
	if err := m.stream.Launch(driver.Launch{Function: f, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Args: l.Args}); err != nil {
		return fmt.Errorf("kernel %s: %w", l.Name, err)
	}
	return nil
}

// free waits for what was put on the stream.
func (m *mapping) free() error {
	var errs []error
	if m.stream != nil {
		errs = append(errs, m.device.failed("closing a front end", errors.Join(m.stream.Sync(), m.stream.Close())))
		m.stream = nil
	}
	return m.device.joined(append(errs, m.release()))
}
