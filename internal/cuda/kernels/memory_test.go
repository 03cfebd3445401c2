package kernels_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// A machine is a GPU's memory, on which the kernels that are shipped run.
type machine struct {
	t      testing.TB
	memory gputest.Machine
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	return &machine{t: t, memory: gputest.New(t)}
}

func (m *machine) run(l kernels.Launch) {
	m.t.Helper()
	image, err := m.memory.Image(func(capability, version int) ([][]byte, error) { return kernels.Images(l.Module, capability, version) })
	if errors.Is(err, kernels.ErrNoCubin) {
		m.t.Skip(err)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.execute(image, l)
}

func (m *machine) execute(text []byte, l kernels.Launch) {
	m.t.Helper()
	if err := m.memory.Launch(l.Module, text, l.Name, l.Grid, l.Block, l.Shared, l.Args); err != nil {
		m.t.Fatal(err)
	}
}

// alloc is memory that holds b, and nothing beyond it. No bytes have no address.
func (m *machine) alloc(b []byte) kernels.Ptr {
	m.t.Helper()
	if len(b) == 0 {
		return 0
	}
	p, err := m.memory.Alloc(len(b))
	if err == nil {
		err = m.memory.Write(p, b)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

func (m *machine) read(p kernels.Ptr, dst []byte) {
	m.t.Helper()
	if len(dst) == 0 {
		return
	}
	if err := m.memory.Read(dst, p); err != nil {
		m.t.Fatal(err)
	}
}

// put copies values to new device memory.
func put[T any](m *machine, x []T) kernels.Ptr {
	m.t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
		m.t.Fatal(err)
	}
	return m.alloc(b.Bytes())
}

// get copies n values out.
func get[T any](m *machine, p kernels.Ptr, n int) []T {
	m.t.Helper()
	x := make([]T, n)
	raw := make([]byte, binary.Size(x))
	m.read(p, raw)
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, x); err != nil {
		m.t.Fatal(err)
	}
	return x
}

// inputs is what a run supplies.
type inputs struct {
	live    int32
	draw    uint64
	scalars [28]float32
	rows    []int32
}

func (in *inputs) bytes() []byte {
	b := make([]byte, kernels.RunBytes+4*len(in.rows))
	binary.LittleEndian.PutUint32(b[kernels.RunLive:], uint32(in.live))
	binary.LittleEndian.PutUint64(b[kernels.RunDraw:], in.draw)
	for i, s := range in.scalars {
		binary.LittleEndian.PutUint32(b[kernels.RunScalars+4*i:], math.Float32bits(s))
	}
	for i, r := range in.rows {
		binary.LittleEndian.PutUint32(b[kernels.RunRows+4*i:], uint32(r))
	}
	return b
}

// batch is a batch of a run with a clip norm and, where it is given, the step of a grid. Its rows begin at 3 where there are live ones.
func (m *machine) batch(live, capacity int, clip float32, step ...float32) kernels.Batch {
	in := inputs{live: int32(live)}
	in.scalars[device.Clip] = clip
	copy(in.scalars[device.NoiseStep:][:1], step)
	first := 0
	if live > 0 {
		first = 3
		in.live += 3
	}
	return kernels.Batch{Run: m.alloc(in.bytes()), First: first, Capacity: capacity}
}

func filled[T any](n int, x T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = x
	}
	return s
}

var nan32 = float32(math.NaN())

func normals32(rnd *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(scale * rnd.NormFloat64())
	}
	return x
}

// same compares bits, but for those of NaN.
func same[T float32 | float64](a, b T) bool {
	if a != a || b != b {
		return a != a && b != b
	}
	return a == b && math.Signbit(float64(a)) == math.Signbit(float64(b))
}

func allSame[T float32 | float64](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: has %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !same(got[i], want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
