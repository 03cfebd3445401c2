package runtime

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	stdruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx"
)

// library is ONNX Runtime, if it is there.
func library(t *testing.T) *Library {
	t.Helper()
	l, err := Find()
	if err != nil {
		t.Skip(err)
	}
	return l
}

// written is a graph as a file.
func written(t *testing.T, g *onnx.Graph) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := g.Write(&b, "test", "1", nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// drawn are numbers of a seed.
func drawn(seed uint64, n int) []float32 {
	r, x := rand.New(rand.NewPCG(seed, 1)), make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// The shapes of the network.
const (
	channels, side = 3, 20
	filters, rows  = 24, 16
)

var recordSize = channels * side * side

// network convolves, pools and normalizes, so that a sum of many numbers in another order would give other bits.
func network(t *testing.T) []byte {
	g := onnx.New("net")
	x := g.Input("x", onnx.Float32, channels, side, side)
	w := g.Floats("w", []int{filters, channels, 5, 5}, drawn(1, filters*channels*25))
	y := g.Op("Conv", []onnx.Value{x, w}, onnx.Ints("pads", 2, 2, 2, 2))
	y = g.Op("HardSwish", []onnx.Value{y})
	y = g.Op("AveragePool", []onnx.Value{y}, onnx.Ints("kernel_shape", 2, 2), onnx.Ints("strides", 2, 2))
	y = g.Reshape(y, filters*side*side/4)
	v := g.Floats("v", []int{filters * side * side / 4, rows}, drawn(2, filters*side*side/4*rows))
	y = g.Op("MatMul", []onnx.Value{y, v})
	g.Output("y", g.Op("Softmax", []onnx.Value{y}), rows)
	return written(t, g)
}

func opened(t *testing.T, l *Library, model []byte) *Session {
	t.Helper()
	s, err := l.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func row(t *testing.T, s *Session, record []float32) []float32 {
	t.Helper()
	dst := make([]float32, rows)
	if err := s.Run(dst, record); err != nil {
		t.Fatal(err)
	}
	return dst
}

// same compares bits.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// A row is a function of its record: in any order, after any record, in a session of its own and beside others.
func TestRowsDependOnTheirRecordAlone(t *testing.T) {
	l := library(t)
	model := network(t)
	const records = 12
	in, alone := make([][]float32, records), make([][]float32, records)
	for i := range in {
		in[i] = drawn(uint64(100+i), recordSize)
		s := opened(t, l, model)
		alone[i] = row(t, s, in[i])
		s.Close()
	}
	if same(alone[0], alone[1]) {
		t.Fatal("two records have the same row")
	}
	s := opened(t, l, model)
	bad := slices.Clone(in[0])
	bad[7] = float32(math.NaN())
	large := slices.Clone(in[0])
	for i := range large {
		large[i] = math.MaxFloat32
	}
	for i := records - 1; i >= 0; i-- { // from the last on, with damaged ones between them
		if got := row(t, s, in[i]); !same(got, alone[i]) {
			t.Errorf("record %d: in another order its row is %v, alone %v", i, got, alone[i])
		}
		if nan := row(t, s, bad); !math.IsNaN(float64(nan[0])) {
			t.Errorf("a record with a NaN has the row %v", nan)
		}
		row(t, s, large)
	}
	var all sync.WaitGroup
	for range 4 {
		mine := opened(t, l, model)
		all.Go(func() {
			for i := range 10 * records {
				got := make([]float32, rows)
				if err := mine.Run(got, in[i%records]); err != nil || !same(got, alone[i%records]) {
					t.Errorf("record %d: beside others its row is %v, alone %v: %v", i%records, got, alone[i%records], err)
				}
			}
		})
		all.Go(func() { // a shared session gives every goroutine its own row, too
			for i := range records {
				got := make([]float32, rows)
				if err := s.Run(got, in[i]); err != nil || !same(got, alone[i]) {
					t.Errorf("record %d of a shared session: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}

// A small network has the values that its formula gives.
func TestValues(t *testing.T) {
	g := onnx.New("affine")
	x := g.Input("x", onnx.Float32, 3)
	y := g.Op("MatMul", []onnx.Value{x, g.Floats("w", []int{3, 2}, []float32{1, 2, 3, 4, 5, 6})})
	g.Output("y", g.Op("Add", []onnx.Value{y, g.Floats("b", []int{2}, []float32{10, 20})}), 2)
	s := opened(t, library(t), written(t, g))
	if in, out := s.In(), s.Out(); !slices.Equal(in, []int{3}) || !slices.Equal(out, []int{2}) {
		t.Errorf("shapes %v and %v", in, out)
	}
	got := make([]float32, 2)
	if err := s.Run(got, []float32{1, -1, 2}); err != nil || !same(got, []float32{18, 30}) { // whole numbers are exact
		t.Errorf("%v: %v", got, err)
	}
	for _, err := range []error{s.Run(got, got), s.Run(got[:1], []float32{1, 2, 3})} {
		if err == nil || !strings.Contains(err.Error(), "takes a record of 3 values to a row of 2") {
			t.Errorf("a wrong length: %v", err)
		}
	}
	s.Close()
	s.Close() // may be said twice
	if err := s.Run(got, []float32{1, 2, 3}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}

// What cannot be run one record at a time, always to the same row, is refused, and says why.
func TestOpenRefuses(t *testing.T) {
	l := library(t)
	for name, c := range map[string]struct {
		graph func(g *onnx.Graph)
		says  string
	}{
		"two inputs": {func(g *onnx.Graph) {
			a, b := g.Input("a", onnx.Float32, 2), g.Input("b", onnx.Float32, 2)
			g.Output("y", g.Op("Add", []onnx.Value{a, b}), 2)
		}, "2 inputs"},
		"two outputs": {func(g *onnx.Graph) {
			a := g.Input("a", onnx.Float32, 2)
			g.Output("y", a, 2)
			g.Output("z", a, 2)
		}, "2 outputs"},
		"pixels": {func(g *onnx.Graph) {
			g.Output("y", g.Cast(g.Input("a", onnx.Uint8, 2), onnx.Float32), 2)
		}, "elements of type 2"},
		"random": {func(g *onnx.Graph) {
			a := g.Input("a", onnx.Float32, 2)
			g.Output("y", g.Op("Add", []onnx.Value{a, g.Op("RandomNormalLike", []onnx.Value{a})}), 2)
		}, "draws random numbers"},
		"one row of all": {func(g *onnx.Graph) {
			a := g.Input("a", onnx.Float32, 2)
			two := g.Op("Concat", []onnx.Value{a, a}, onnx.Int("axis", 0))
			g.Output("y", two, 2)
		}, "the axes 2×2"},
		"an op that nobody has": {func(g *onnx.Graph) {
			g.Output("y", g.Op("Nonsense", []onnx.Value{g.Input("a", onnx.Float32, 2)}), 2)
		}, "ONNX Runtime: "},
	} {
		g := onnx.New(name)
		c.graph(g)
		s, err := l.Open(written(t, g))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, without %q", name, err, c.says)
		}
		if s != nil {
			s.Close()
		}
	}
	for _, model := range [][]byte{nil, []byte("no file of ONNX")} {
		if _, err := l.Open(model); err == nil {
			t.Errorf("%q is a graph", model)
		}
	}
}

// A record for which the graph fails gives an error that says nothing of it, leaves the row as it was and spoils no later one.
func TestRunFails(t *testing.T) {
	g := onnx.New("lookup")
	x := g.Input("x", onnx.Float32, 1)
	table := g.Floats("t", []int{3}, []float32{5, 6, 7})
	const int64s = 7
	g.Output("y", g.Op("Gather", []onnx.Value{table, g.Cast(x, int64s)}), 1)
	s := opened(t, library(t), written(t, g))
	got := []float32{-1}
	var failure *Failure
	err := s.Run(got, []float32{9})
	if !errors.As(err, &failure) || !strings.Contains(failure.Message, "ONNX Runtime: ") || strings.Contains(err.Error(), "9") || got[0] != -1 {
		t.Errorf("an index of no row: %v, %v, %+v", got, err, failure)
	}
	if err := s.Run(got, []float32{2}); err != nil || got[0] != 7 {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// Neither runs nor sessions nor failures keep memory.
func TestNoLeak(t *testing.T) {
	if stdruntime.GOOS != "linux" {
		t.Skip("resident memory is read from /proc")
	}
	l := library(t)
	// A record of 256 KiB that is kept each time, or a session's weights of 1 MiB, would be seen at once.
	const values = 1 << 16
	g := onnx.New("large")
	x := g.Input("x", onnx.Float32, values)
	y := g.Op("Mul", []onnx.Value{x, g.Floats("w", []int{values}, drawn(1, values))})
	g.Output("y", g.Op("ReduceSum", []onnx.Value{y, g.Numbers(1)}, onnx.Int("keepdims", 1)), 1)
	model := written(t, g)
	s := opened(t, l, model)
	record, dst := drawn(2, values), make([]float32, 1)
	runs := func(n int) {
		for range n {
			if err := s.Run(dst, record); err != nil {
				t.Fatal(err)
			}
		}
	}
	sessions := func(n int) {
		for range n {
			other, err := l.Open(model)
			if err != nil {
				t.Fatal(err)
			}
			other.Close()
			if _, err := l.Open(model[:len(model)/2]); err == nil {
				t.Fatal("half a file is a graph")
			}
		}
	}
	runs(100)
	sessions(20)
	before := resident(t)
	runs(10_000)
	sessions(200)
	// What leaks of 100 bytes a run would be 1 MB, below what the allocator and Go's heap keep; of a record or a row of the tensors 2.6 GB.
	if grown := resident(t) - before; grown > 32<<20 {
		t.Errorf("10,000 runs and 200 sessions kept %d bytes", grown)
	}
}

func resident(t *testing.T) int {
	stdruntime.GC()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestRecent(t *testing.T) {
	for version, want := range map[string]bool{
		"1.19.0": true, "1.19.2": true, "1.32.0": true, "1.100.0-rc1": true, "1.18.1": false, "1.9.0": false, "2.0.0": false, "0.5": false, "": false, "x": false,
	} {
		if recent(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}
