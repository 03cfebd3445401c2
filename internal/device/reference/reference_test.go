package reference_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// What the suite compares is the reference itself, which no schedule changes: here it looks at what else is promised.
func TestConformance(t *testing.T) {
	devicetest.Run(t, func(*testing.T) device.Device { return devicetest.Sampled(reference.Open(), 5) })
}

// TestGradients compares gradients with central differences. A difference over
// 2h errs by h²·f‴/6 through curvature and by 2⁻⁵³·f/h through rounding, both
// below 1e-9 here; no row lies within devicetest.Margin of a kink, which is
// farther than h moves a value.
func TestGradients(t *testing.T) {
	const h, tolerance = 1e-6, 1e-7
	for _, p := range devicetest.Programs() {
		t.Run(p.Name, func(t *testing.T) {
			c := devicetest.NewCase(t, p, 4, 21)
			table, err := reference.Load(c.Rows, c.Features)
			if err != nil {
				t.Fatal(err)
			}
			s, err := perexample.Plain(p)
			if err != nil {
				t.Fatal(err)
			}
			params := make([]float64, len(c.Params))
			for i, x := range c.Params {
				params[i] = float64(x)
			}
			rnd := rand.New(rand.NewPCG(21, 2))
			// Some coordinates of every parameter, so that none is missed.
			var at []int
			for _, q := range p.Params {
				for range min(12, q.Size()) {
					at = append(at, q.Offset+rnd.IntN(q.Size()))
				}
			}
			moved := 0
			for _, row := range c.All() {
				if kink := c.Kink(int(row)); kink != "" {
					t.Fatalf("row %d lies at a kink of %s", row, kink)
				}
				g := reference.Gradient(s, params, table, row)
				for _, i := range at {
					x := params[i]
					params[i] = x + h
					up := reference.Loss(p, params, table, row)
					params[i] = x - h
					down := reference.Loss(p, params, table, row)
					params[i] = x
					if up != down {
						moved++
					}
					if d := (up - down) / (2 * h); !(math.Abs(d-g[i]) <= tolerance*(1+math.Abs(d))) {
						t.Errorf("row %d, coordinate %d: the gradient is %.9g, the difference quotient %.9g", row, i, g[i], d)
					}
				}
			}
			if moved < len(at)/2 {
				t.Errorf("only %d of %d coordinates move a loss", moved, len(at)*len(c.All()))
			}
		})
	}
}

// TestLosses checks every loss against its formula at a few points, and its
// derivative against central differences between its corners.
func TestLosses(t *testing.T) {
	const h = ir.HuberHingeWidth
	for _, test := range []struct {
		loss            ir.Loss
		z, target, want float64
	}{
		{ir.Logistic, 0, 1, math.Ln2},
		{ir.Logistic, 3, -1, math.Log(1 + math.Exp(3))},
		{ir.Logistic, -800, 1, 800},
		{ir.Logistic, 800, 1, 0},
		{ir.Hinge, 0.25, 1, 0.75},
		{ir.Hinge, 0.25, -1, 1.25},
		{ir.Hinge, 1.5, 1, 0},
		{ir.HuberHinge, 1 + h, 1, 0},
		{ir.HuberHinge, 1, 1, h / 4},
		{ir.HuberHinge, 1 - h, 1, h},
		{ir.HuberHinge, -2, 1, 3},
		{ir.HuberHinge, -1, -1, h / 4},
		{ir.Huber, 1, 0.5, 0.125},
		{ir.Huber, 0, 1, 0.5},
		{ir.Huber, 0, 3, 2.5},
		{ir.Huber, 0, -3, 2.5},
	} {
		if got := host.Loss(test.loss, []float64{test.z}, float32(test.target), nil); math.Abs(got-test.want) > 1e-15*(1+test.want) {
			t.Errorf("%s at %v with target %v is %v, want %v", test.loss, test.z, test.target, got, test.want)
		}
	}
	for _, loss := range []ir.Loss{ir.Logistic, ir.Hinge, ir.HuberHinge, ir.Huber} {
		for _, target := range []float32{-1, 1} {
			for z := -4.013; z < 4; z += 0.017 { // meets no corner
				at := func(z float64) float64 { return host.Loss(loss, []float64{z}, target, nil) }
				g := make([]float64, 1)
				host.Loss(loss, []float64{z}, target, g)
				if d := (at(z+1e-6) - at(z-1e-6)) / 2e-6; math.Abs(d-g[0]) > 1e-6 {
					t.Errorf("%s at %v with target %v has the derivative %v, the difference quotient is %v", loss, z, target, g[0], d)
				}
			}
		}
	}
	// A sure and wrong network, a sure and right one, and one whose
	// probabilities are known.
	for _, test := range []struct {
		z            []float64
		target       float32
		loss         float64
		first, other float64
	}{
		{[]float64{math.Log(3), 0}, 0, math.Log(4.0 / 3), -0.25, 0.25},
		{[]float64{1000, 0}, 1, 1000, 1, -1},
		{[]float64{50, 0}, 0, math.Exp(-50), -math.Exp(-50), math.Exp(-50)},
	} {
		g := make([]float64, 2)
		loss := host.Loss(ir.SoftmaxCrossEntropy, test.z, test.target, g)
		if math.Abs(loss-test.loss) > 1e-14*(1+test.loss) {
			t.Errorf("cross-entropy at %v is %v, want %v", test.z, loss, test.loss)
		}
		for i, want := range []float64{test.first, test.other} {
			if math.Abs(g[i]-want) > 1e-14*math.Abs(want) {
				t.Errorf("cross-entropy at %v has the gradient %v, want %v first", test.z, g, want)
			}
		}
	}
	// NaN must not hide in a piece whose slope is constant.
	for loss := ir.SoftmaxCrossEntropy; loss <= ir.Huber; loss++ {
		z := []float64{math.NaN(), 1}
		if loss != ir.SoftmaxCrossEntropy {
			z = z[:1]
		}
		g := make([]float64, len(z))
		if l := host.Loss(loss, z, 1, g); !math.IsNaN(l) || !math.IsNaN(g[0]) {
			t.Errorf("%s at NaN is %v with gradient %v", loss, l, g)
		}
	}
}
