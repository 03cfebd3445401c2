package imported

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/lower"
	"github.com/privgrad/privgrad/internal/usage"
)

// frozen is the part of a network that is not trained.
type frozen struct {
	file      []byte // an ONNX file of it alone
	program   *ir.Program
	constants []float32
	elsewhere func() (features.Runner, error) // of one thread; nil where there is a program

	lock sync.Mutex
	idle map[int]features.Runner // by threads: opening one takes long beside a small table
}

// front makes the front end of a frozen part, which reads records normalized.
func front(p *lower.Prefix, n config.Normalization, shape [3]int) (*features.Front, bool, error) {
	if got, want := ir.Size(shape[:]), ir.Size(p.In); got != want {
		return nil, false, usage.Errorf("it reads %d values a record, of shape %v, and the records have %d, of shape %v: change --image-size, or export the network for that size", want, p.In, got, shape[:])
	}
	if channels := len(n.Mean); channels > 1 && channels != shape[0] {
		return nil, false, usage.Errorf("normalize has %d means, and the records have %d channels: give one for each, or one for all", channels, shape[0])
	}
	file, err := p.Model.Encode()
	if err != nil {
		return nil, false, err
	}
	f := &frozen{file: file, idle: map[int]features.Runner{}}
	if p.Program != nil {
		f.program, f.constants = normalized(apart(p.Program), p.Constants, n, shape)
	} else if f.elsewhere, err = byRuntime(file, p, n, shape); err != nil {
		return nil, true, err
	}
	out := [3]int{1, 1, 1}
	copy(out[:], p.Out)
	made, err := features.Frozen(shape, out, f)
	if err != nil {
		return nil, false, err
	}
	return made, p.Program == nil, made.Probe(1)
}

func (f *frozen) Program() (*ir.Program, []float32) { return f.program, f.constants }

func (f *frozen) Write(w io.Writer) error {
	_, err := io.Copy(w, bytes.NewReader(f.file))
	return err
}

// Open takes a runner that is idle, or makes one.
func (f *frozen) Open(threads int) (features.Runner, error) {
	f.lock.Lock()
	r := f.idle[threads]
	delete(f.idle, threads)
	f.lock.Unlock()
	var err error
	switch {
	case r != nil:
	case f.program != nil:
		r, err = cpu.NewOutputs(f.program, f.constants, threads)
	default:
		r, err = several(f.elsewhere, threads)
	}
	return &lent{r, f, threads}, err
}

// Rest closes the idle runners.
func (f *frozen) Rest() {
	f.lock.Lock()
	defer f.lock.Unlock()
	for _, r := range f.idle {
		r.Close()
	}
	clear(f.idle)
}

// lent is a runner that goes back when it is closed.
type lent struct {
	features.Runner
	of      *frozen
	threads int
}

func (l *lent) Close() {
	l.of.lock.Lock()
	defer l.of.lock.Unlock()
	if old := l.of.idle[l.threads]; old != nil {
		old.Close()
	}
	l.of.idle[l.threads] = l.Runner
}

// apart gives the constants names that no parameter of what is trained has.
func apart(p *ir.Program) *ir.Program {
	q := *p
	q.Params = slices.Clone(p.Params)
	for i := range q.Params {
		q.Params[i].Name = "frozen." + q.Params[i].Name
	}
	return &q
}

// normalized is a map behind the normalization of what it reads.
func normalized(p *ir.Program, constants []float32, n config.Normalization, shape [3]int) (*ir.Program, []float32) {
	if n.Identity() {
		return p, constants
	}
	q := &ir.Program{Name: p.Name, Shape: shape[:], Params: slices.Clone(p.Params)}
	constants = slices.Clone(constants)
	of := []int{1}
	if len(n.Mean) > 1 {
		of = []int{shape[0], 1, 1}
	}
	affine := ir.Op{Kind: ir.Affine, Name: "normalize", In: []ir.Value{ir.Input}, Shape: shape[:], Out: shape[:], Weight: len(q.Params), Bias: len(q.Params) + 1}
	scales, shifts := n.Affine()
	for i, values := range [][]float32{scales, shifts} {
		q.Params = append(q.Params, ir.Param{Name: [...]string{"normalize.weight", "normalize.bias"}[i], Shape: of, Offset: len(constants)})
		constants = append(constants, values...)
	}
	q.Ops = append(q.Ops, affine)
	for _, op := range p.Ops {
		op.In = slices.Clone(op.In)
		for i := range op.In { // the records are value 1 now, and every other is one further
			op.In[i]++
		}
		q.Ops = append(q.Ops, op)
	}
	return q, constants
}
