package features

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/deskew"
)

// slanted is a bar with a slant, of brightness 1 on a dark ground, of each color.
func slanted(shape [3]int, slant, at float64) []float32 {
	image := make([]float32, volume(shape))
	for i := range image {
		y, x := i/shape[2]%shape[1], i%shape[2]
		middle := float64(shape[2])/2 + at - slant*(float64(y)-float64(shape[1]-1)/2)
		if y > 4 && y < shape[1]-5 {
			image[i] = float32(max(0, 1-math.Abs(float64(x)-middle)/3))
		}
	}
	return image
}

// A slanted bar becomes the upright one, which stays as it is.
func TestDeskew(t *testing.T) {
	for _, shape := range [][3]int{{1, 28, 28}, {3, 32, 24}} {
		upright := deskew.New(shape)
		for _, slant := range []float64{-.5, -.2, 0, .3, .45} {
			image, want := slanted(shape, slant, 1), slanted(shape, 0, 1)
			upright(image)
			worst := 0.
			for i, v := range image {
				worst = max(worst, math.Abs(float64(v-want[i])))
			}
			// Values between pixels are interpolated: at the tip of a bar of slope ⅓ up to ⅙ is lost.
			if limit := .2; worst > limit || slant == 0 && worst > 1e-5 {
				t.Errorf("%v, slant %v: %v away from the upright bar", shape, slant, worst)
			}
			if left, _ := deskew.Slant(shape, image); math.Abs(left) > .03 {
				t.Errorf("%v, slant %v: %v is left", shape, slant, left)
			}
		}
	}
}

// The mirror image's upright image is the mirror image of the upright image.
func TestDeskewMirrored(t *testing.T) {
	shape := [3]int{2, 12, 16}
	random := rand.New(rand.NewPCG(1, 2))
	upright := deskew.New(shape)
	for range 20 {
		image, turned := make([]float32, volume(shape)), make([]float32, volume(shape))
		for i := range image {
			image[i] = random.Float32()
		}
		mirror := func(dst, src []float32) {
			for i, v := range src {
				dst[i-i%16+15-i%16] = v
			}
		}
		mirror(turned, image)
		upright(image)
		upright(turned)
		back := make([]float32, len(turned))
		mirror(back, turned)
		for i, v := range image {
			if math.Abs(float64(v-back[i])) > 1e-5 {
				t.Fatalf("pixel %d is %v, mirrored %v", i, v, back[i])
			}
		}
	}
}

// Whatever an image holds, what comes out is finite; a blank one stays blank, a row stays where it is.
func TestDeskewExtremes(t *testing.T) {
	shape := [3]int{1, 96, 96}
	upright := deskew.New(shape)
	single := func(at ...int) []float32 {
		image := make([]float32, volume(shape))
		for _, i := range at {
			image[i] = 1
		}
		return image
	}
	for name, image := range map[string][]float32{
		"blank": single(), "a pixel": single(5), "corners": single(0, 96*96-1), "a row": single(96*7, 96*7+95),
		"two rows": single(96*7, 96*8+95), "tiny": {0: 1e-38, 96*96 - 1: 1e-40},
	} {
		before := append([]float32(nil), image...)
		upright(image)
		if !finite(image) {
			t.Errorf("%s: not finite", name)
		}
		if name == "blank" || name == "a row" || name == "a pixel" {
			for i, v := range image {
				if math.Abs(float64(v-before[i])) > 1e-5 {
					t.Errorf("%s: pixel %d is %v, was %v", name, i, v, before[i])
				}
			}
		}
	}
}

// The constants are those without deskewing; rows are those of the upright image.
func TestDeskewRows(t *testing.T) {
	spec := Spec{Kind: "scatter", Whiten: Leaves, Shape: [3]int{1, 28, 28}}
	plain, err := New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec.Deskew = true
	front, err := New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if front.Spec() != spec || !front.Made() {
		t.Errorf("the front end is %+v", front.Spec())
	}
	image := slanted(spec.Shape, .4, 0)
	got := front.Rows(Images{Values: image}, 1, nil)
	skewed := plain.Rows(Images{Values: image}, 1, nil)
	deskew.New(spec.Shape)(image)
	want := plain.Rows(Images{Values: image}, 1, nil)
	differ := 0
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("value %d is %v, of the upright image %v", i, got[i], want[i])
		}
		if got[i] != skewed[i] {
			differ++
		}
	}
	if differ < len(want)/2 {
		t.Errorf("only %d of %d values differ from those of the slanted image", differ, len(want))
	}
	a, _ := plain.Digest()
	b, _ := front.Digest()
	if a == b {
		t.Error("both front ends have one digest")
	}
}
