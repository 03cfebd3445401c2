package features

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/privgrad/privgrad/internal/fault"
)

var ownIn, ownOut = [3]int{1, 4, 4}, [3]int{2, 1, 1}

func edges(dst, image []float32) {
	dst[0], dst[1] = image[0]-image[1], image[0]-image[4]
}

func TestOwn(t *testing.T) {
	f, err := Own("edges", ownIn, ownOut, edges)
	if err != nil {
		t.Fatal(err)
	}
	if f.In() != ownIn || f.Out() != ownOut || f.Width() != 2 || f.Spec().Kind != "edges" {
		t.Errorf("in %v, out %v, width %d, spec %+v", f.In(), f.Out(), f.Width(), f.Spec())
	}
	images := make([]float32, 3*16)
	images[0], images[1], images[4] = 1, .5, 3
	images[31] = float32(math.NaN()) // which edges does not read
	images[32], images[33] = math.MaxFloat32, -math.MaxFloat32
	row := floats(f.Rows(Images{Values: images}, 2, nil))
	if row[0] != .5 || row[1] != -2 {
		t.Errorf("the row is %v: it is not what the function wrote", row[:2])
	}
	for i, v := range row[2:] {
		if !math.IsNaN(v) {
			t.Errorf("value %d is %g, of an image or a result that is not finite", i+2, v)
		}
	}
	if err := f.Write(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "Go function") {
		t.Errorf("writing it: %v", err)
	}
}

// A function that lets one image see another is refused.
func TestOwnRefuses(t *testing.T) {
	var calls atomic.Int64
	var lock sync.Mutex
	last := float32(0)
	var seen []float32
	for name, c := range map[string]struct {
		f   Func
		say string
	}{
		"counter": {func(dst, image []float32) {
			edges(dst, image)
			dst[0] += float32(calls.Add(1))
		}, "differ from call to call"},
		"the image before": {func(dst, image []float32) {
			lock.Lock()
			defer lock.Unlock()
			dst[0], dst[1], last = last, image[1], image[0]
		}, "differ from call to call"},
		"a running mean": {func(dst, image []float32) {
			lock.Lock()
			defer lock.Unlock()
			sum := float32(0)
			seen = append(seen, image[0])
			for _, v := range seen {
				sum += v
			}
			dst[0], dst[1] = image[0]-sum/float32(len(seen)), image[1]
		}, "differ from call to call"},
		"half written":     {func(dst, image []float32) { dst[0] = image[0] }, "not finite"},
		"added to":         {func(dst, image []float32) { dst[0], dst[1] = dst[0]+image[0], image[1] }, "not finite"},
		"divides":          {func(dst, image []float32) { dst[0], dst[1] = 1/image[0], image[1] }, "not finite"},
		"writes its image": {func(dst, image []float32) { edges(dst, image); image[3] = 2 }, "writes to its image"},
		"panics":           {func(dst, image []float32) { _ = image[len(image)] }, "own_test.go"},
		"nil":              {nil, "need a function"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Own(name, ownIn, ownOut, c.f); err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("error %v, which should say %q", err, c.say)
			}
		})
	}
	for _, shape := range [][3]int{{0, 4, 4}, {1, -1, 4}, {1 << 20, 2, 1}, {math.MaxInt, math.MaxInt, math.MaxInt}} {
		if _, err := Own("edges", shape, ownOut, edges); err == nil {
			t.Errorf("images of shape %v are taken", shape)
		}
		if _, err := Own("edges", ownIn, shape, edges); err == nil {
			t.Errorf("rows of shape %v are taken", shape)
		}
	}
}

// What a function does on one record must not end a run, nor change another row.
func TestOwnFaultsLater(t *testing.T) {
	f, err := Own("picky", ownIn, ownOut, func(dst, image []float32) {
		switch image[0] {
		case 77:
			panic("image with 77")
		case 78:
			image[1] = 5
			return // and dst is not written
		}
		edges(dst, image)
	})
	if err != nil {
		t.Fatal(err)
	}
	images := make([]float32, 5*16)
	for i, v := range []float32{1, 77, 2, 78, 3} {
		images[i*16] = v
	}
	before := slices.Clone(images)
	rows := floats(f.Rows(Images{Values: images}, 1, nil))
	want := []float64{1, 1, math.NaN(), math.NaN(), 2, 2, 0, 0, 3, 3}
	if !slices.EqualFunc(rows, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
		t.Errorf("rows are %v, want %v", rows, want)
	}
	if !slices.Equal(images, before) {
		t.Error("the function changed the images")
	}
}

// A mistake of the calling code is a fault with a place, and names no number of images.
func TestRowsOfNoWholeImages(t *testing.T) {
	f, err := Own("edges", ownIn, ownOut, edges)
	if err != nil {
		t.Fatal(err)
	}
	for _, images := range []Images{{Values: make([]float32, 17)}, {Values: make([]float32, 16), Bytes: make([]uint8, 16)}} {
		err := func() (err error) {
			defer fault.Recover(&err)
			f.Rows(images, 2, nil)
			return nil
		}()
		if err == nil || strings.Contains(err.Error(), "17") {
			t.Errorf("the fault is %v", err)
		}
	}
}
