package features

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/privgrad/privgrad/internal/patches"
	"github.com/privgrad/privgrad/internal/synthetic"
)

// Channels of other images of the same kind have, after whitening, a covariance near I/(1 + d/λ)
// by the definition, computed here in float64 from the maps themselves.
func TestWhiteningWhitens(t *testing.T) {
	spec := Spec{Kind: "scatter", Whiten: Pink, Mirror: true, Shape: [3]int{1, 8, 8}}
	b := front(t, spec).blocks[0]
	c, grid := b.channels, b.rows*b.cols
	source, maps := synthetic.Pink(spec.Shape), b.worker()
	image, out := make([]float32, volume(spec.Shape)), make([]float32, c*grid)
	mean, second := make([]float64, c), make([]float64, c*c)
	for i := range whitenImages { // the images of the fit: what is left is rounding
		source.Draw(image, whitenSeed, uint64(i))
		maps(out, image)
		for o := range grid {
			for k, v := range out[o*c : (o+1)*c] {
				mean[k] += float64(v) / (whitenImages * float64(grid))
				for l := range k + 1 {
					second[k*c+l] += float64(v) * float64(out[o*c+l]) / (whitenImages * float64(grid))
				}
			}
		}
	}
	// A and S, with S·(A/m + d)·Sᵀ = 1.
	a, diagonal := make([]float64, c*c), 0.
	for k := range c {
		if math.Abs(mean[k]-float64(b.constants[meanName][k])) > 1e-6 {
			t.Errorf("the mean of channel %d is %g, want %g", k, b.constants[meanName][k], mean[k])
		}
		for l := range k + 1 {
			a[k*c+l] = second[k*c+l] - mean[k]*mean[l]
			a[l*c+k] = a[k*c+l]
		}
		diagonal += a[k*c+k] / float64(c)
	}
	for i := range a {
		a[i] /= diagonal
	}
	for k := range c {
		a[k*c+k] += b.damp
	}
	s, transposed := make([]float64, c*c), make([]float64, c*c)
	for i, v := range triangular(b.constants[whitenerName], c).Data {
		s[i], transposed[i%c*c+i/c] = float64(v), float64(v)
	}
	product := multiply(s, multiply(a, transposed, c), c)
	worst := 0.
	for k := range c {
		for l := range c {
			want := 0.
			if k == l {
				want = 1
			}
			worst = max(worst, math.Abs(product[k*c+l]-want))
		}
	}
	// An error of e in A is one of e/(2d) in S: 1e-7 of rounding give 5e-5; S itself is rounded to 1e-6.
	if worst > 2e-4 {
		t.Errorf("S(A+d)Sᵀ is %g from the unit matrix", worst)
	}
}

func multiply(x, y []float64, n int) []float64 {
	out := make([]float64, n*n)
	for i := range n {
		for k := range n {
			for j := range n {
				out[i*n+j] += x[i*n+k] * y[k*n+j]
			}
		}
	}
	return out
}

// The number of processors and what was made before do not show in constants.
func TestFitDependsOnTheSpecAlone(t *testing.T) {
	spec := Spec{Kind: "scatter", Whiten: Leaves, Shape: [3]int{1, 8, 8}}
	first, err := Fit(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	var percents []int
	again, err := Fit(spec, func(p int) { percents = append(percents, p) })
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range first.blocks[0].constants {
		if !slices.Equal(values, again.blocks[0].constants[name]) {
			t.Errorf("%s differs from time to time", name)
		}
	}
	if len(percents) != 100 || !slices.IsSorted(percents) || percents[0] != 1 || percents[99] != 100 {
		t.Errorf("progress is %v", percents)
	}
	spec.Whiten = Pink
	other, err := Fit(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(first.blocks[0].constants[whitenerName], other.blocks[0].constants[whitenerName]) {
		t.Error("leaves and pink noise whiten in the same way")
	}
}

// Over the images that directions were found with, what comes of them has no mean, and variance 1 but for the damping. They have
// nearly as much of the variance as any directions.
func TestDirections(t *testing.T) {
	shape := [3]int{1, 21, 23}
	const side = 4
	l := firstOf(shape, pairsSize{side, 32, 3}, patches.Dictionary(shape, side, 32))
	mean, values, diagonal, err := covarianceOf(l, Leaves, shape, pairsImages, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	n := l.channels
	project, offset := patches.Find(mean, values, diagonal)
	linear, covariance := mat.NewDense(patches.Directions, n, nil), mat.NewSymDense(n, values)
	for i, v := range project {
		linear.Set(i/n, i%n, float64(v)*math.Sqrt(diagonal))
	}
	var moved, found, damped mat.Dense
	moved.Mul(linear, covariance)
	found.Mul(&moved, linear.T())
	damped.Mul(linear, linear.T())
	for i := range patches.Directions {
		for j := range patches.Directions {
			want := -.001 * // as much is added to the covariance
				damped.At(i, j)
			if i == j {
				want++
			}
			if got := found.At(i, j); math.Abs(got-want) > 1e-4 {
				t.Errorf("directions %d and %d have covariance %g, want %g", i, j, got, want)
			}
		}
		centre := float64(offset[i])
		for j, v := range mean {
			centre += float64(project[i*n+j]) * float64(v)
		}
		if math.Abs(centre) > 1e-4 {
			t.Errorf("direction %d has mean %g", i, centre)
		}
	}

	var qr mat.QR
	qr.Factorize(linear.T())
	var q, kept mat.Dense
	qr.QTo(&q)
	basis := q.Slice(0, n, 0, patches.Directions)
	moved.Reset()
	moved.Mul(covariance, basis)
	kept.Mul(basis.T(), &moved)
	var eigen mat.EigenSym
	if !eigen.Factorize(covariance, false) {
		t.Fatal("no eigenvalues")
	}
	most := 0.
	for _, v := range eigen.Values(nil)[n-patches.Directions:] { // they ascend
		most += v
	}
	t.Logf("%.4f of the most variance", mat.Trace(&kept)/most)
	if mat.Trace(&kept) < .99*most {
		t.Errorf("directions have the variance %g, and others have %g", mat.Trace(&kept), most)
	}
}
