package train

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
)

// A run on public records states what it took. One on records of one's own states no time of reading them, and no memory that
// follows from them, but the planned one.
func TestReadingLeavesNoTrace(t *testing.T) {
	slow := func(string) (*datasets.Set, error) {
		time.Sleep(2100 * time.Millisecond)
		more := make([]byte, 256<<20)
		for i := 0; i < len(more); i += 1 << 12 {
			more[i] = 1
		}
		return made(1, 400), nil
	}
	quick := func(string) (*datasets.Set, error) { return made(1, 400), nil }
	run := func(c Config, s Source) *Result {
		r := finished(t, c, Options{Sources: map[string]Source{"made": s}, Out: filepath.Join(t.TempDir(), "run")})
		return r
	}
	c := small()
	c.Classes, c.Steps, c.Delta, c.PublicN = nil, ptr(2), ptr(1e-4), nil
	if public := run(c, Source{BuiltIn: true, Open: slow}); public.Seconds < 2 || public.PeakRSS < 256<<20 {
		t.Errorf("of public records: %v s, %d bytes", public.Seconds, public.PeakRSS)
	}
	c.PublicN = ptr(400)
	for name, open := range map[string]func(string) (*datasets.Set, error){"quick": quick, "slow": slow} {
		if r := run(c, Source{Open: open}); r.Seconds != 1 || r.ExamplesPerSecond != 80 || r.PeakRSS != 128<<20 {
			t.Errorf("%s, of one's own: %v s, %d bytes, %v a second", name, r.Seconds, r.PeakRSS, r.ExamplesPerSecond)
		}
	}
}

// A large image among the private ones changes neither time nor memory that the result states.
func TestLargeImageLeavesNoTrace(t *testing.T) {
	c := ownData("dir:p")
	var first *Result
	for _, large := range []bool{false, true} {
		t.Chdir(t.TempDir())
		makeFolders(t, 1, 60, 0)
		if large {
			f, err := os.Create(filepath.Join("p", "train", "no", "large.png"))
			check(t, err)
			check(t, png.Encode(f, image.NewNRGBA64(image.Rect(0, 0, 4000, 4000))))
			check(t, f.Close())
		}
		r, _ := runShown(t, c, nil)
		if first == nil {
			first = r
		}
		if r.Seconds != first.Seconds || r.PeakRSS != first.PeakRSS || r.ExamplesPerSecond != first.ExamplesPerSecond {
			t.Errorf("large image %v: %v s, %d bytes; without: %v s, %d bytes", large, r.Seconds, r.PeakRSS, first.Seconds, first.PeakRSS)
		}
	}
}

// The time of a run has that of its features, but of one's own records none that a function takes over a single one.
func TestFeaturesTakeTime(t *testing.T) {
	shape := [3]int{1, 8, 8}
	asleep := false
	front, err := features.Own("slow", shape, shape, func(dst, image []float32) {
		if asleep {
			time.Sleep(10 * time.Millisecond)
		}
		copy(dst, image)
	})
	check(t, err)
	asleep = true
	c := small()
	c.Classes, c.Steps, c.Delta, c.PublicN, c.Threads = nil, ptr(2), ptr(1e-4), ptr(400), 1
	open := func(string) (*datasets.Set, error) { return made(1, 400), nil }
	for _, public := range []bool{false, true} {
		var shown elapsed
		s := map[string]Source{"made": {BuiltIn: public, Open: open}}
		r := finished(t, c, Options{Sources: s, Features: front, Out: filepath.Join(t.TempDir(), "run"), Watch: []Watcher{&shown}})
		if long := r.Seconds >= 4; long != public {
			t.Errorf("public records %v: %v s", public, r.Seconds)
		}
		if shown.time%(10*time.Second) != 0 || shown.time.Seconds() > r.Seconds {
			t.Errorf("public records %v: %v were shown of %v s", public, shown.time, r.Seconds)
		}
	}
}

// elapsed notes the time that a run says has passed.
type elapsed struct{ time time.Duration }

func (e *elapsed) Evaluated(m Measurement) { e.time = m.Elapsed }
