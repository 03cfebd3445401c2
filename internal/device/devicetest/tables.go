package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// tableClaims are about the forms of a table's values, and about rows whose values are not finite.
var tableClaims = claims[device.Device]{
	{"one table in three forms", testTableForms},
	{"values as they are", testValues},
	{"any values", testAnyValues},
	{"rows that are not finite", testEndless},
	{"rows that are not finite, in whole numbers", testEndlessWhole},
	{"large rows are finite", testLargeRows},
	{"lengths", testLengths},
}

// tablePrograms begin with a convolution, with a layer of a network, and are nothing but one logit.
func tablePrograms() []*ir.Program {
	return []*ir.Program{program("thrice"), program("mlp-hinge"), linear("line", ir.Logistic, 21, 1, true)}
}

func floats(values []float64) device.Floats {
	f := make(device.Floats, len(values))
	for i, v := range values {
		f[i] = float32(v)
	}
	return f
}

func halves(f device.Floats) device.Halves {
	h := make(device.Halves, len(f))
	for i, v := range f {
		h[i] = half.FromFloat32(v)
	}
	return h
}

// asFloats is the case with floats of the same values.
func (c *Case) asFloats() *Case {
	var f device.Floats
	for row := range c.Rows.Count {
		f = append(f, floats(c.values(row))...)
	}
	return c.in(f)
}

// forms is a case of floats, and of halves, by name.
func (c *Case) forms() []formed {
	f := c.other.(device.Floats)
	return []formed{{"floats", c}, {"halves", c.in(halves(f))}}
}

type formed struct {
	name string
	*Case
}

// alike fails unless two cases with the same rows have the same bits everywhere: sums of gradients under some schedules,
// losses and scores.
func alike(t *testing.T, d device.Device, got, want *Case, rows []int32, clip float64) {
	t.Helper()
	each(t, d, all(t, want.Program), func(t *testing.T, s named) {
		x := Open(t, d, s.Schedule, got, len(rows))
		sum := Open(t, d, s.Schedule, want, len(rows)).Of(t, rows, clip)
		for range 2 { // the second after whatever the first left
			Same(t, x.Of(t, rows, clip), sum)
		}
	})
	s := strategies(t, want.Program)[0].Schedule
	if x, y := openLosses(t, d, s, got, len(rows)), openLosses(t, d, s, want, len(rows)); x.of(t, rows, 2) != y.of(t, rows, 2) {
		t.Error("the losses differ")
	}
	_, count := site{got, d, s, len(rows)}.counted(t).of(t, rows, clip)
	if _, other := (site{want, d, s, len(rows)}).counted(t).of(t, rows, clip); count != other {
		t.Errorf("the count is %v, want %v", count, other)
	}
	x := score(t, Open(t, d, s, got, len(rows)), got.Params)
	if y := score(t, Open(t, d, s, want, len(rows)), got.Params); fmt.Sprint(x) != fmt.Sprint(y) {
		t.Errorf("scores %+v, want %+v", x, y)
	}
}

func testTableForms(t *testing.T, d device.Device) {
	for _, p := range tablePrograms() {
		c := newCase(t, d, p, 7, 61) // halves can be what its bytes stand for
		clip := clipNorms(t, c)[1].norm
		for _, f := range c.asFloats().forms() {
			t.Run(p.Name+" "+f.name, func(t *testing.T) { alike(t, d, f.Case, c, c.All(), clip) })
		}
	}
}

// testValues has a loss with slope -1, so that a row's gradient is minus the row.
func testValues(t *testing.T, d device.Device) {
	const width, count = 37, 3
	c := &Case{Program: linear("minus", ir.Huber, width, 1, false), Params: make([]float32, width)}
	c.Rows = device.Rows{Count: count, Width: width, Targets: constant(count, 1e6)}
	rnd := rand.New(rand.NewPCG(62, 1))
	f, h := make(device.Floats, width*count), make(device.Halves, width*count)
	for i := range f {
		for f[i] = float32(math.NaN()); f[i]-f[i] != 0 || math.Abs(float64(f[i])) > 0x1p100; {
			f[i] = math.Float32frombits(rnd.Uint32())
		}
		for h[i] = 0x7c00; h[i]&0x7c00 == 0x7c00; {
			h[i] = uint16(rnd.Uint32())
		}
	}
	copy(f[width:], []float32{0x1p-149, -0x1p-126, 0.1, 0x1p100, 1})
	copy(h[width:], []uint16{0, 1, 0x3ff, 0x400, 0x8001, 0x83ff, 0x7bff, 0xfbff, 0x3555})
	for _, c := range []*Case{c.in(f), c.in(h)} {
		x := Open(t, d, plain(t, c.Program).Schedule, c, 2)
		for row := range count {
			want := floats(c.values(row))
			for i := range want {
				want[i] = 0 - want[i]
			}
			Same(t, x.Of(t, []int32{int32(row)}, 0), want)
		}
	}
}

// testAnyValues compares values that no byte stands for with the reference.
func testAnyValues(t *testing.T, d device.Device) {
	rnd := rand.New(rand.NewPCG(63, 1))
	for _, p := range tablePrograms() {
		c := newCase(t, d, p, 6, 63).asFloats()
		drawn := c.other.(device.Floats)
		for row := range c.Rows.Count {
			for tries := 0; tries == 0 || c.Kink(row) != "" || c.in(halves(drawn)).Kink(row) != ""; tries++ {
				if tries > 1000 {
					t.Fatalf("%s: hardly a row is far from every kink", p.Name)
				}
				for i := range c.Rows.Width {
					drawn[row*c.Rows.Width+i] = float32(rnd.NormFloat64())
				}
			}
		}
		for _, f := range c.forms() {
			clip := clipNorms(t, f.Case)[1].norm
			t.Run(p.Name+" "+f.name, func(t *testing.T) {
				each(t, d, all(t, p), func(t *testing.T, s named) {
					nearOne(t, Open(t, d, s.Schedule, f.Case, 4).Of(t, f.All()[:4], clip), oraclesOf(t, f.Case, s, f.All()[:4], clip), tolerance(d))
				})
				s := plain(t, p).Schedule
				sameScore(t, d, score(t, Open(t, d, s, f.Case, 4), c.Params), score(t, Open(t, reference.Open(), s, f.Case, 1), c.Params))
			})
		}
	}
}

// spoiled is a case of floats with three more rows that are not finite, each with a target that the loss accepts; and the same
// with rows that are finite, and targets that it refuses.
func (c *Case) spoiled(target float32) (bad, refused *Case) {
	w := c.Rows.Width
	values := slices.Concat(c.other.(device.Floats), constant(3*w, 0.25))
	n := len(values) - 3*w
	more := func(targets ...float32) *Case {
		d := c.in(slices.Clone(values))
		d.Rows.Targets = slices.Concat(c.Rows.Targets, targets)
		d.Rows.Count = len(d.Rows.Targets)
		return d
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	bad, refused = more(target, target, target), more(nan, nan, nan)
	f := bad.other.(device.Floats)
	f[n], f[n+w+w/2], f[n+3*w-1] = nan, inf, -inf
	return bad, refused
}

// among are five good rows and the bad ones between them.
var among = []int32{5, 0, 1, 6, 2, 3, 4, 7}

func testEndless(t *testing.T, d device.Device) {
	for _, p := range tablePrograms() {
		good := newCase(t, d, p, 5, 64).asFloats()
		clip := clipNorms(t, good)[1].norm
		bad, refused := good.spoiled(target(rand.New(rand.NewPCG(64, 1)), p))
		for i, f := range bad.forms() {
			t.Run(p.Name+" "+f.name, func(t *testing.T) {
				targets := slices.Clone(f.Rows.Targets)
				alike(t, d, f.Case, refused.forms()[i].Case, among, clip)
				if !slices.Equal(targets, f.Rows.Targets) {
					t.Error("the caller's targets have changed")
				}
				each(t, d, all(t, p), func(t *testing.T, s named) {
					x := Open(t, d, s.Schedule, f.Case, 4)
					Same(t, x.Of(t, []int32{5, 6, 7}, clip), make([]float32, x.size))
					x.Add(t, []int32{7}, clip)
					x.Add(t, nil, clip)
					Same(t, x.Of(t, []int32{0}, clip), Open(t, d, s.Schedule, good, 4).Of(t, []int32{0}, clip))
				})
				got, want := score(t, Open(t, d, plain(t, p).Schedule, f.Case, 3), good.Params), score(t, Open(t, d, plain(t, p).Schedule, good, 3), good.Params)
				sameScore(t, d, got, want)
			})
		}
	}
}

func testEndlessWhole(t *testing.T, d device.Device) {
	for _, p := range some(d, wholePrograms()) {
		bad, refused := wholeCase(t, p, 3).asFloats().spoiled(1 << 20)
		for _, f := range bad.forms() {
			each(t, d, whole(t, p), func(t *testing.T, s named) {
				rows := f.All()[1:] // whose sum is not zero
				x := openExact(t, d, s.Schedule, f.Case, len(rows))
				got, want := x.integers(t, rows, 1), openExact(t, d, s.Schedule, refused, len(rows)).integers(t, rows, 1)
				if !slices.Equal(got, want) {
					t.Errorf("%s: the sum is %v, want %v", f.name, got, want)
				}
				if got := x.integers(t, rows[len(rows)-3:], 1); slices.ContainsFunc(got, func(k int64) bool { return k != 0 }) {
					t.Errorf("%s: rows that are not finite add up to %v", f.name, got)
				}
			})
		}
	}
}

// testLargeRows has the largest values of each form: they are scored, whatever becomes of the logits.
func testLargeRows(t *testing.T, d device.Device) {
	c := &Case{Program: linear("large", ir.Huber, 2, 1, false), Params: []float32{0.5, 0.25}}
	c.Rows = device.Rows{Count: 2, Width: 2, Targets: []float32{0, 1}}
	for _, f := range []device.Features{device.Floats{math.MaxFloat32, -math.MaxFloat32, 1, 2}, device.Halves{0x7bff, 0xfbff, 1, 0x83ff}} {
		if s := score(t, Open(t, d, plain(t, c.Program).Schedule, c.in(f), 2), c.Params); s.Count != 2 {
			t.Errorf("%T: %d rows are scored, want 2", f, s.Count)
		}
	}
}

func testLengths(t *testing.T, d device.Device) {
	r := device.Rows{Count: 37, Width: 3, Targets: make([]float32, 37)}
	tables := map[string]device.Features{"no values": nil}
	for _, n := range []int{0, 110, 112} {
		tables[fmt.Sprintf("%d bytes", n)], tables[fmt.Sprintf("%d floats", n)], tables[fmt.Sprintf("%d halves", n)] = make(device.Bytes, n), make(device.Floats, n), make(device.Halves, n)
	}
	for what, f := range tables {
		_, err := d.Load(r, f)
		refuse(t, what+" for 37 rows of 3", err)
		if err != nil && regexp.MustCompile(`37|11[012]`).MatchString(err.Error()) {
			t.Errorf("the message tells about the data: %v", err)
		}
	}
	for _, f := range []device.Features{make(device.Bytes, 111), make(device.Floats, 111), make(device.Halves, 111)} {
		r := r
		_, err := d.Load(r, f)
		must(t, err)
		r.Targets = r.Targets[:36]
		_, err = d.Load(r, f)
		refuse(t, fmt.Sprintf("a %T with a target too few", f), err)
	}
}
