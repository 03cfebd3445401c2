package features

import (
	"runtime"
	"slices"
	"testing"
)

// A function that ends its goroutine on one image leaves the rows of all others as they are.
func TestOwnEndsItsGoroutine(t *testing.T) {
	shape := [3]int{1, 1, 2}
	f, err := Own("copy", shape, shape, func(dst, image []float32) {
		if image[0] == 1 && image[1] == 1 {
			runtime.Goexit()
		}
		copy(dst, image)
	})
	if err != nil {
		t.Fatal(err)
	}
	for threads := 1; threads <= 3; threads++ {
		rows := f.Rows(Images{Values: []float32{0, 1, 1, 1, 1, 0, .5, .5, 1, 1, .25, 0}}, threads, nil)
		want := []uint16{0, 0x3c00, notANumber, notANumber, 0x3c00, 0, 0x3800, 0x3800, notANumber, notANumber, 0x3400, 0}
		if !slices.Equal(rows, want) {
			t.Errorf("%d threads: %#04x, want %#04x", threads, rows, want)
		}
	}
}

// Names and values that would void every record, or pass for what they are not.
func TestOwnRefusesNamesAndValues(t *testing.T) {
	shape := [3]int{1, 1, 2}
	times := func(a float32) Func {
		return func(dst, image []float32) {
			for i, x := range image {
				dst[i] = a * x
			}
		}
	}
	for _, name := range []string{"", "none", "scatter", "scatter+patches"} {
		if _, err := Own(name, shape, shape, times(1)); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
	for _, a := range []float32{1e6, 1e-9} {
		if _, err := Own("times", shape, shape, times(a)); err == nil {
			t.Errorf("values of about %g are taken, which halves do not hold", a)
		}
	}
	once, err := Own("times", shape, shape, times(1))
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Own("times", shape, shape, times(2))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := once.Digest()
	b, _ := twice.Digest()
	if once.Made() || !once.IsFunc() || a == b || len(a) != 64 {
		t.Errorf("made by the program: %v; digests %q and %q", once.Made(), a, b)
	}
}
