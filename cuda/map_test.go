package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/recipes"
)

func openFake(t *testing.T, o fake.Options) (*Device, *fake.Driver) {
	t.Helper()
	f := fake.New(o)
	d, err := Open(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if n := f.Live(); n != 0 {
			t.Errorf("%d things of the driver are left", n)
		}
	})
	return d, f
}

// recipeFront is the front end of the recipe for a data set.
func recipeFront(t *testing.T, data string) *features.Front {
	t.Helper()
	r, err := recipes.Find(recipes.Best, data, [3]int{}, 8)
	if err != nil {
		t.Fatal(err)
	}
	front, err := features.New(features.Spec{Kind: r.Features, Whiten: features.Whitening(r.Whiten), Mirror: r.Mirror, Deskew: r.Deskew, Shape: r.Shape}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return front
}

// The front ends of recipes run on the device, also where it has little memory. Patches of each size, of images and of what pairs see, are one launch from their products to the
// means of cells, and values that live together do not lie one upon another.
func TestRecipesMap(t *testing.T) {
	d, _ := openFake(t, fake.Options{})
	for data, cells := range map[string]int{"mnist": 0, "fmnist": 2, "cifar10": 8} {
		front := recipeFront(t, data)
		if err := d.Maps(front); err != nil {
			t.Errorf("%s: the device %v", data, err)
		}
		p, constants := front.Program()
		l := layMap(p, constants)
		if len(l.cells) != cells {
			t.Errorf("%s: %d sizes of patches have a launch of their own, want %d", data, len(l.cells), cells)
		}
		checkLayout(t, l)
	}
}

// checkLayout goes through a layout's launches: what one writes overwrites nothing that is still to be read.
func checkLayout(t *testing.T, l *mapLayout) {
	t.Helper()
	p := l.program
	holds := map[ir.Value]bool{ir.Input: true}
	overlap := func(v, w ir.Value) bool {
		return l.at[v] < l.at[w]+int64(p.ValueSize(w)) && l.at[w] < l.at[v]+int64(p.ValueSize(v))
	}
	for i := range p.Ops {
		if l.skipped[i] {
			continue
		}
		y := ir.Value(i + 1)
		for v := range holds {
			if overlap(v, y) {
				delete(holds, v)
			}
		}
		for _, x := range l.reads(i) {
			if !holds[x] {
				t.Errorf("%s: op %d reads value %d, which was overwritten", p.Name, i, x)
			}
		}
		holds[y] = true
		if end := l.at[y] + int64(p.ValueSize(y)); end > l.size {
			t.Errorf("%s: value %d ends at %d of %d", p.Name, y, end, l.size)
		}
	}
	if !holds[p.Logits()] {
		t.Errorf("%s: no row is left", p.Name)
	}
	if all := p.ValueBytes() / 4; l.size > all/2 {
		t.Errorf("%s: values of %d elements take %d, places are not used again", p.Name, all, l.size)
	}
}

// rowsOf are a mapped table's halves and targets.
func rowsOf(t *testing.T, d *Device, data device.Data) (rows []uint16, targets []float32) {
	t.Helper()
	m := data.(*table)
	raw, to := make([]byte, 2*m.Count*m.Width), make([]byte, 4*m.Count)
	if err := d.do(func() error {
		return errors.Join(d.context.CopyOut(raw, m.features), d.context.CopyOut(to, m.targets))
	}); err != nil {
		t.Fatal(err)
	}
	for i := range m.Count * m.Width {
		rows = append(rows, binary.LittleEndian.Uint16(raw[2*i:]))
	}
	for i := range m.Count {
		targets = append(targets, math.Float32frombits(binary.LittleEndian.Uint32(to[4*i:])))
	}
	return rows, targets
}

// A front end of every kind gives the CPU's rows up to rounding, and the same bits by chunks of any size.
func TestMapByChunks(t *testing.T) {
	const n, bad, pixels = 3, 1, 64
	front, err := features.New(features.Spec{Kind: "scatter+patches", Whiten: features.None, Mirror: true, Deskew: true, Shape: [3]int{1, 8, 8}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, n*pixels)
	for i := range values {
		values[i] = float32(i*i%251) / 250
	}
	values[bad*pixels+5] = float32(math.Inf(1))
	want := front.Rows(features.Images{Values: values}, 2, nil)
	r := device.Rows{Count: n, Width: pixels, Targets: []float32{0, 1, 2}}
	d, _ := openFake(t, fake.Options{})
	data, err := d.Load(r, device.Floats(values))
	if err != nil {
		t.Fatal(err)
	}
	l := layMap(front.Program())
	var first []uint16
	for _, by := range [][2]int{{100, 1}, {2, 1}, {1, 2}} {
		together, parts := by[0], by[1]
		d.info.Memory = mappedShare * int64(together) * 4 * l.size
		mapped, err := d.Map(front, data, device.MapOptions{Parts: parts})
		if err != nil {
			t.Fatal(err)
		}
		got, targets := rowsOf(t, d, mapped)
		if err := mapped.Close(); err != nil {
			t.Error(err)
		}
		for b, target := range targets {
			if void := b == bad; (target != target) != void || !void && target != float32(b) {
				t.Errorf("record %d has the target %v", b, target)
			}
		}
		copy(got[bad*front.Width():], want[bad*front.Width():][:front.Width()]) // whose values nobody reads
		if first == nil {
			first = got
		}
		if !slices.Equal(got, first) {
			t.Errorf("by %d records in %d parts there are other bits", together, parts)
		}
	}
	nearCPU(t, "small images", first, want)
	d.info.Memory = mappedShare*4*l.size - 1
	if err := d.Maps(front); err == nil || !strings.Contains(err.Error(), "too little memory") {
		t.Errorf("a record that has no room: %v", err)
	}
}

// nearCPU compares rows with those that the CPU makes; void ones are the same.
func nearCPU(t *testing.T, what string, rows, want []uint16) {
	t.Helper()
	for i := range rows {
		got, cpu := float64(half.ToFloat32(rows[i])), float64(half.ToFloat32(want[i]))
		// Each is rounded by up to 2⁻¹¹ of itself; before that, they are up to 1e-5 of a row apart.
		if !(math.Abs(got-cpu) <= 0x1p-10*math.Abs(cpu)+1e-5*features.Scale) && rows[i] != want[i] {
			t.Fatalf("%s: value %d is %v, the CPU's %v", what, i, got, cpu)
		}
	}
}

// An image of each recipe's size has the CPU's row.
func TestLongRecipesMap(t *testing.T) {
	d, _ := openFake(t, fake.Options{})
	for _, data := range []string{"mnist", "fmnist", "cifar10"} {
		front := recipeFront(t, data)
		in := front.In()
		pixels := make([]uint8, ir.Size(in[:]))
		for i := range pixels { // a bright stroke on the ground, in colors
			y, x := i/in[2]%in[1], i%in[2]
			pixels[i] = uint8(max(0, 250-40*max(x-y/2-5, y/2+5-x)) + i%5)
		}
		images, err := d.Load(device.Rows{Count: 1, Width: len(pixels), Gather: device.Fractions, Targets: []float32{0}}, device.Bytes(pixels))
		if err != nil {
			t.Fatal(err)
		}
		mapped, err := d.Map(front, images, device.MapOptions{Parts: 1})
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := rowsOf(t, d, mapped)
		nearCPU(t, data, rows, front.Rows(features.Images{Bytes: pixels}, 2, nil))
	}
}

// simple is a front end of a program, for devices alone.
type simple struct {
	p         *ir.Program
	constants []float32
}

func (s simple) In() [3]int                                     { return [3]int(s.p.Shape) }
func (s simple) Width() int                                     { return s.p.Outputs() }
func (s simple) Program() (*ir.Program, []float32)              { return s.p, s.constants }
func (s simple) Fill(_ []uint16, _ []uint8, _ []float32, _ int) {}
func simpleFront(build func(b *fixed.Builder, x ir.Value)) *simple {
	return shaped([]int{1, 2, 2}, build)
}

func shaped(shape []int, build func(b *fixed.Builder, x ir.Value)) *simple {
	b := fixed.New("simple", shape)
	build(b, ir.Input)
	return &simple{b.Program, b.Constants}
}

// picked is half the sum of an image and of it in another order, in a row of length 1.
func picked() *simple {
	return simpleFront(func(b *fixed.Builder, x ir.Value) {
		y := b.HalfSum(x, []int{1, 2, 2}, []int{4}, []int32{0, 1, 2, 3}, []int32{3, 2, 1, 0})
		b.Add(ir.Op{Kind: ir.Unit, In: []ir.Value{y}, Shape: []int{4}, Out: []int{4}, Norm: 1})
	})
}

// What the device has no kernels for stays with the CPU.
func TestMapsRefuses(t *testing.T) {
	d, _ := openFake(t, fake.Options{})
	four := []int{1, 1, 2, 2}
	computed := simpleFront(func(b *fixed.Builder, x ir.Value) {
		b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{x}, Shape: []int{1, 2, 2}, Out: []int{2, 1, 1}, Window: ir.Square(2, 1, 0), Function: ir.Standardize,
			Given: []int{b.Constant("gain", []int{2}, []float32{1, 1})}}, b.Constant("w", []int{2, 1, 2, 2}, make([]float32, 8)))
	})
	if err := computed.p.ValidateMap(); err != nil {
		t.Fatal(err)
	}
	for name, front := range map[string]device.Front{
		"a Go function":            simple{},
		"a wrong program":          simpleFront(func(b *fixed.Builder, x ir.Value) { b.Constant("unused", []int{1}, []float32{1}) }),
		"a weight that is made":    computed,
		"a constant of four axes ": simpleFront(func(b *fixed.Builder, x ir.Value) { b.Affine(x, four, b.Scalar(2), ir.None) }),
	} {
		if err := d.Maps(front); err == nil || err.Error() != "has no kernels for them yet" {
			t.Errorf("%s: the device %v", name, err)
		}
	}
	if err := d.Maps(picked()); err != nil {
		t.Errorf("the device %v", err)
	}
	data, err := d.Load(device.Rows{Count: 1, Width: 4, Targets: []float32{0}}, device.Floats(make([]float32, 4)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Map(computed, data, device.MapOptions{}); err == nil || err.Error() != "device cuda has no kernels for them yet" {
		t.Errorf("it maps all the same: %v", err)
	}
	other, _ := openFake(t, fake.Options{})
	if _, err := other.Map(picked(), data, device.MapOptions{}); err == nil {
		t.Error("another GPU's table is mapped")
	}
}

// Every op that a network has may stand in a front end, also those that no front end of package features has: a public network may.
func TestMapOfNetworkOps(t *testing.T) {
	front := shaped([]int{2, 4, 4}, func(b *fixed.Builder, x ir.Value) {
		shape := []int{2, 4, 4}
		one := func(op ir.Op, weight ...int) {
			op.In, op.Shape = []ir.Value{x}, shape
			if op.Out == nil {
				op.Out = shape
			}
			x = b.Add(op, weight...)
			shape = op.Out
		}
		ones := func(n int) int {
			return b.Constant(fmt.Sprint("ones", len(b.Constants)), []int{n}, slices.Repeat([]float32{1}, n))
		}
		one(ir.Op{Kind: ir.GroupNorm, Groups: 2, Epsilon: 1e-5}, ones(2))
		one(ir.Op{Kind: ir.GELU})
		one(ir.Op{Kind: ir.LeakyReLU, Slope: .25})
		one(ir.Op{Kind: ir.MaxPool, Window: ir.Square(2, 1, 0), Out: []int{2, 3, 3}})
		one(ir.Op{Kind: ir.Tanh})
		one(ir.Op{Kind: ir.AvgPool, Window: ir.Square(2, 1, 0), Out: []int{2, 2, 2}})
		one(ir.Op{Kind: ir.LayerNorm, Epsilon: 1e-5}, ones(2))
		one(ir.Op{Kind: ir.Sigmoid})
		shape = []int{8}
		one(ir.Op{Kind: ir.Dense, Out: []int{3}}, b.Constant("dense", []int{3, 8}, []float32{1, 2, 3, 4, 5, 6, 7, 8, -1, 2, -3, 4, -5, 6, -7, 8, 0, 1, 0, 1, 0, 1, 0, 1}))
	})
	if err := front.p.ValidateMap(); err != nil {
		t.Fatal(err)
	}
	d, _ := openFake(t, fake.Options{})
	if err := d.Maps(front); err != nil {
		t.Fatal(err)
	}
	const n = 3
	values := make([]float32, n*32)
	for i := range values {
		values[i] = float32(i*i%53)/53 - .3
	}
	data, err := d.Load(device.Rows{Count: n, Width: 32, Targets: make([]float32, n)}, device.Floats(values))
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := d.Map(front, data, device.MapOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := rowsOf(t, d, mapped)
	for i := range n {
		for k, want := range referenceRow(front, values[32*i:][:32]) {
			if v := float64(half.ToFloat32(got[3*i+k])); !(math.Abs(v-want) <= 0x1p-11*math.Abs(want)+1e-4) { // of sums of eight terms up to 8
				t.Errorf("value %d of record %d is %v, want %v", k, i, v, want)
			}
		}
	}
}

// referenceRow is what the reference makes of a record.
func referenceRow(f *simple, record []float32) []float64 {
	wide := func(x []float32) (y []float64) {
		for _, v := range x {
			y = append(y, float64(v))
		}
		return y
	}
	return reference.Values(f.p, wide(f.constants), wide(record), device.Float32)[f.p.Logits()]
}

// Every call of the driver fails once while a table is mapped: it is told, and nothing is left behind.
func TestEveryCallOfMapFails(t *testing.T) {
	work := func(f *fake.Driver) error {
		d, err := Open(f, 0)
		if err != nil {
			return err
		}
		data, err := d.Load(device.Rows{Count: 2, Width: 4, Targets: []float32{0, 1}}, device.Floats(make([]float32, 8)))
		if err == nil {
			_, err = d.Map(picked(), data, device.MapOptions{Parts: 2})
		}
		return errors.Join(err, d.Close())
	}
	type at struct {
		call string
		n    int
	}
	var calls []at
	if err := work(fake.New(fake.Options{Fail: func(call string, n int) int {
		calls = append(calls, at{call, n})
		return 0
	}})); err != nil {
		t.Fatal(err)
	}
	if len(calls) < 40 {
		t.Fatalf("there are %d calls", len(calls))
	}
	for _, c := range calls {
		for _, code := range []int{driver.OutOfMemory, driver.Lost} {
			if c.call == "run" && code != driver.Lost {
				continue
			}
			f := fake.New(fake.Options{Fail: func(call string, n int) int {
				if call == c.call && n == c.n {
					return code
				}
				return 0
			}})
			// The next image of a module may load; and who lets go of memory tells nobody of a lost GPU: the next call does.
			if err := work(f); err == nil && c.call != "cuModuleLoadDataEx" && c.call != "cuCtxSetCurrent" {
				t.Errorf("%s %d fails with code %d, and nobody is told", c.call, c.n, code)
			}
			if n := f.Live(); n != 0 {
				t.Errorf("%s %d fails with code %d, and %d things are left", c.call, c.n, code, n)
			}
		}
	}
}

// A device that is closed in the middle of a part ends the work.
func TestMapOnClosedDevice(t *testing.T) {
	f := fake.New(fake.Options{})
	d, err := Open(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.Load(device.Rows{Count: 4, Width: 4, Targets: make([]float32, 4)}, device.Floats(make([]float32, 16)))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	_, err = d.Map(picked(), data, device.MapOptions{Parts: 4, Stopped: func() error {
		if asked++; asked == 2 {
			return d.Close()
		}
		return nil
	}})
	if !errors.Is(err, errClosed) || f.Live() != 0 {
		t.Errorf("it ends with %v, and %d things are left", err, f.Live())
	}
}
