package features

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/deskew"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
)

// unrounded is the row of an image before it is rounded to halves: what part and deliver do.
func unrounded(f *Front, image []float32) []float64 {
	image = slices.Clone(image)
	if f.spec.Deskew {
		deskew.New(f.spec.Shape)(image)
	}
	all := 0.
	for _, b := range f.blocks {
		all += b.weight
	}
	var row []float64
	for _, b := range f.blocks {
		values := slices.Clone(b.whitened()(image, 1))
		b.weigh(values)
		square := 0.
		for _, v := range values {
			square += float64(v) * float64(v)
		}
		for k := range b.channels {
			for o := range b.rows * b.keep {
				v := 0.
				if square > 0 {
					v = float64(values[o*b.channels+k]) * Scale * math.Sqrt(b.weight/all/square)
				}
				row = append(row, v)
			}
		}
	}
	return row
}

// blankApart is how far rows of blank images may be apart. Their channels are minus their means, and the terms of whitening are up
// to 750 times as large as their sum: a unit of float32 of each is 4.5e-5 of it.
const blankApart = 4.5e-5

// program compares a front end's program, run in float64, with its kernels. Those err by roundings of float32, of sums whose
// terms are some hundred times as large: 1e-5 of a row is 170 units.
func program(t *testing.T, f *Front, images int) {
	t.Helper()
	p, constants := f.Program()
	if err := p.ValidateMap(); err != nil {
		t.Fatal(err)
	}
	if p.NumParams() != len(constants) || p.Outputs() != f.Width() {
		t.Fatalf("%d constants for %d, %d outputs for %d", len(constants), p.NumParams(), p.Outputs(), f.Width())
	}
	params := make([]float64, len(constants))
	for i, v := range constants {
		params[i] = float64(v)
	}
	in, all, worst := volume(f.In()), drawn(f.In(), images), 0.
	for i := range images {
		image := all[i*in : (i+1)*in]
		if i == 0 && images > 1 {
			clear(image) // a row of zeros stays one, and a blank image stays where it is
		}
		x := make([]float64, in)
		for k, v := range image {
			x[k] = float64(v)
		}
		values := reference.Values(p, params, x, device.Float32)
		got, want := values[len(values)-1], unrounded(f, image)
		for k := range got {
			got[k] -= want[k]
		}
		apart, most := norm(got)/Scale, 1e-5
		if i == 0 && images > 1 {
			most = blankApart
		}
		if !(apart <= most) {
			t.Errorf("the program's row of image %d is %g of a row away", i, apart)
		}
		worst = max(worst, apart)
	}
	t.Logf("%.1e of a row", worst)
}

func TestPrograms(t *testing.T) {
	eachFront(t, func(t *testing.T, f *Front) {
		if volume(f.In()) > 1024 { // which takes the reference long
			program(t, f, 1)
			return
		}
		program(t, f, 3)
	})
}

// Programs of the smallest and the largest images.
func TestProgramsOfExtremeShapes(t *testing.T) {
	for _, spec := range extremes {
		t.Run(spec.name(), func(t *testing.T) {
			program(t, front(t, spec), 1)
		})
	}
}

// A function of a user's own has no program.
func TestFunctionsHaveNoProgram(t *testing.T) {
	f, err := Own("sums", [3]int{1, 2, 2}, [3]int{1, 1, 1}, func(dst, image []float32) { dst[0] = image[0] + image[3] })
	if err != nil {
		t.Fatal(err)
	}
	if p, constants := f.Program(); p != nil || constants != nil {
		t.Errorf("the program is %v", p)
	}
}
