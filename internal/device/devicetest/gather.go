package devicetest

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// gatherClaims are about the maps between a table's row and the first op.
var gatherClaims = claims[device.Device]{
	{"every map", testMaps},
	{"bytes without a map", func(t *testing.T, d device.Device) { testScaling(t, d, nil) }},
	{"maps that do not load", testWrongMaps},
}

// mapClaims test what each kind makes of a record.
var mapClaims = map[ir.MapKind]func(*testing.T, device.Device){
	ir.Scaled: func(t *testing.T, d device.Device) {
		for _, by := range [][2]float32{{1. / 64, -2}, {1 / 127.5, -1}, {1. / 255, 0}, {0, 0.25}, {-0x1p90, 7}} {
			testScaling(t, d, scaledBy(by[0], by[1]))
		}
	},
}

func testMaps(t *testing.T, d device.Device) {
	for _, kind := range ir.MapKinds() {
		if kind.Drawn() {
			continue // its claims are those of views
		}
		t.Run(kind.String(), func(t *testing.T) {
			if mapClaims[kind] == nil {
				t.Fatal("nothing is claimed of it")
			}
			mapClaims[kind](t, d)
		})
	}
}

// testScaling has a row with every byte, and a loss with slope −1, so that the row's gradient is minus what is gathered.
func testScaling(t *testing.T, d device.Device, g ir.Gather) {
	t.Helper()
	const width = 256
	c := &Case{Program: linear("minus", ir.Huber, width, 1, false), Params: make([]float32, width)}
	c.Rows = device.Rows{Count: 1, Width: width, Targets: []float32{1e30}, Gather: g}
	for b := range width {
		c.Features = append(c.Features, uint8(b))
	}
	m := ir.ScaledBy(1, 0)
	if g != nil {
		m = g[0]
	}
	for b, x := range Open(t, d, plain(t, c.Program).Schedule, c, 1).Of(t, []int32{0}, 0) {
		product := float64(b) * float64(m.Scale) // exactly, as a byte has 8 digits and a float32 24
		want := product + float64(m.Offset)
		// A device rounds the sum, and may round the product, each by 2⁻²⁴ of it unless float32 holds it; what both add is rounded
		// here by 2⁻⁵³, far less.
		off := 0.0
		for _, v := range []float64{product, want} {
			if float64(float32(v)) != v {
				off += math.Abs(v) * 0x1p-24 * (1 + 0x1p-20)
			}
		}
		if !(math.Abs(-float64(x)-want) <= off) {
			t.Errorf("%v: byte %d stands for %v, want %v up to %.3g", g, b, -x, want, off)
		}
	}
}

// testWrongMaps: a device says which map it lacks, and its table reads no map where that has no meaning.
func testWrongMaps(t *testing.T, d device.Device) {
	const unknown, count = ir.MapKind(math.MaxUint8), 37
	r := device.Rows{Count: count, Width: 3, Targets: make([]float32, count)}
	bytes, floats := make(device.Bytes, count*r.Width), make(device.Floats, count*r.Width)
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	half := ir.ScaledBy(0.5, 1)
	for what, c := range map[string]struct {
		gather ir.Gather
		values device.Features
		says   string
	}{
		"an unknown map":              {ir.Gather{{Kind: unknown}}, floats, "device " + d.Info().Name + " does not have the map " + unknown.String()},
		"an unknown map behind one":   {ir.Gather{half, {Kind: unknown}}, bytes, "device " + d.Info().Name + " does not have the map " + unknown.String()},
		"scaled floats":               {ir.Gather{half}, floats, "map scaled"},
		"scaled halves":               {ir.Gather{half}, make(device.Halves, count*r.Width), "map scaled"},
		"bytes that are scaled twice": {ir.Gather{half, half}, bytes, "map scaled twice"},
		"a scale of NaN":              {scaledBy(nan, 0), bytes, "map scaled has the scale NaN"},
		"an infinite offset":          {scaledBy(1, inf), bytes, "-Inf"},
	} {
		r.Gather = c.gather
		data, err := d.Load(r, c.values)
		if refuse(t, what, err); err == nil {
			must(t, data.Close())
		} else if !strings.Contains(err.Error(), c.says) || regexp.MustCompile(`\b(37|111)\b`).MatchString(err.Error()) {
			t.Errorf("%s: the message is %q, and should say %q and no count of records", what, err, c.says)
		}
	}
}
