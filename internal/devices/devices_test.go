package devices

import (
	"errors"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
)

// here sets what a machine has.
func here(t *testing.T, gpu bool, open func() (driver.Driver, error)) {
	t.Helper()
	before, had := openDriver, nvidia
	t.Cleanup(func() { openDriver, nvidia = before, had })
	openDriver, nvidia = open, func() bool { return gpu }
}

// "auto" says why a GPU that seems to be here is not used, and nothing where none is.
func TestAuto(t *testing.T) {
	none := func() (driver.Driver, error) { return nil, errors.New("no NVIDIA driver found") }
	full := func() (driver.Driver, error) {
		return fake.New(fake.Options{Fail: func(call string, _ int) int {
			if call == "cuDevicePrimaryCtxRetain" {
				return driver.OutOfMemory
			}
			return 0
		}}), nil
	}
	old := func() (driver.Driver, error) { return fake.New(fake.Options{Device: driver.Info{Capability: 75}}), nil }
	works := func() (driver.Driver, error) { return fake.New(fake.Options{}), nil }
	for _, c := range []struct {
		name   string
		gpu    bool
		open   func() (driver.Driver, error)
		device string
		why    string
	}{
		{"no GPU", false, none, "cpu", ""},
		{"no driver", true, none, "cpu", "no NVIDIA driver found"},
		{"a full GPU", true, full, "cpu", "CUDA_ERROR_OUT_OF_MEMORY"},
		{"an old GPU", true, old, "cpu", "compute capability 7.5"},
		{"a GPU", true, works, "cuda", ""},
	} {
		here(t, c.gpu, c.open)
		d, err := Open("auto", 1)
		if err != nil {
			t.Fatal(err)
		}
		i := d.Info()
		if i.Name != c.device || (i.Instead == "") != (c.why == "") || !strings.Contains(i.Instead, c.why) || strings.Contains(i.Instead, "\n") {
			t.Errorf("%s: device %s, since %q", c.name, i.Name, i.Instead)
		}
		if said := Warnings(i, ""); len(said) != 0 && c.why == "" || c.why != "" && (len(said) != 1 || !strings.Contains(said[0], "device auto: the CPU, and not the GPU: ")) {
			t.Errorf("%s: %q", c.name, said)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if d, err = Open("cpu", 1); err != nil || d.Info().Instead != "" {
			t.Errorf("%s: the CPU, as asked, since %q: %v", c.name, d.Info().Instead, err)
		}
	}
}

// A batch gets a quarter of a GPU's memory, and of one that others use no more than there is.
func TestDefaultMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		all, taken, want int64
		shared           bool
	}{
		{80 * gib, 0, 20 * gib, false},
		{80 * gib, 39 * gib, 20 * gib, false},
		{80 * gib, 72 * gib, 4 * gib, true},
		{80 * gib, 80 * gib, 64 << 20, true},
		{24 * gib, 14 * gib, 5 * gib, true},
	} {
		here(t, true, func() (driver.Driver, error) {
			return fake.New(fake.Options{Device: driver.Info{Memory: c.all}, Taken: c.taken}), nil
		})
		d, err := Open("cuda", 0)
		if err != nil {
			t.Fatal(err)
		}
		got, said := DefaultMemory(d.Info()), strings.Join(Warnings(d.Info(), ""), "; ")
		if len(Warnings(d.Info(), "1GiB")) > 0 {
			t.Errorf("where memory is asked for: %q", Warnings(d.Info(), "1GiB"))
		}
		if got != c.want || c.shared != strings.Contains(said, "half of what others leave") || d.Info().Room != c.all-c.taken {
			t.Errorf("of %d GiB with %d taken a batch gets %d bytes: %q", c.all/gib, c.taken/gib, got, said)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := DefaultMemory(device.Info{}); got < 64<<20 {
		t.Errorf("the machine gives %d bytes", got)
	}
}
