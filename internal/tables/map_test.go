package tables

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
)

// plain is a device that cannot map, whatever it hides.
type plain struct{ device.Device }

// wrapped is one that names the device that it hides.
type wrapped struct{ plain }

func (w wrapped) Wrapped() device.Device { return w.Device }

// refusing is a device that maps other front ends.
type refusing struct{ device.Device }

func (refusing) Maps(device.Front) error { return errors.New("lacks an op of them") }
func (refusing) Map(device.Front, device.Data, device.MapOptions) (device.Data, error) {
	return nil, errors.New("this was not to be called")
}

func scattered(t *testing.T) *features.Front {
	t.Helper()
	f, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Mirror: true, Shape: [3]int{1, 12, 8}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// images are some of a shape, as bytes and as values, which are not finite in image 1.
func images(n, size int) (bytes, values datasets.Split) {
	bytes = datasets.Split{Shape: [3]int{1, 12, 8}, Labels: make([]uint8, n)}
	values = bytes
	for i := range n * size {
		b := uint8(i*i/7 ^ i*11)
		bytes.Features, values.Values = append(bytes.Features, b), append(values.Values, float32(b)/255)
	}
	values.Values[2*size-1] = float32(math.Inf(1))
	return bytes, values
}

// On every device, and on what wraps one, a split becomes the rows of its images: with the bits of the front end's kernels on the
// CPU and where the device maps nothing, and up to rounding by the reference. Solvers get the same rows as the device.
func TestDevicesMap(t *testing.T) {
	const n, size = 5, 96
	host0, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	front := scattered(t)
	bytes, values := images(n, size)
	own, err := features.Own("ends", [3]int{1, 12, 8}, [3]int{1, 1, 2}, func(dst, image []float32) { dst[0], dst[1] = image[0]*60, image[95]*60 })
	if err != nil {
		t.Fatal(err)
	}
	const cannot = "features are computed on the CPU: device cpu has no kernels for them yet"
	for name, c := range map[string]struct {
		device device.Device
		note   string
		near   bool // rows may be rounded otherwise
	}{
		"cpu":                 {device: host0},
		"reference":           {device: reference.Open(), near: true},
		"no mapper":           {device: plain{host0}, note: cannot},
		"a wrapped mapper":    {device: wrapped{plain{host0}}},
		"a wrapped no mapper": {device: wrapped{plain{plain{host0}}}, note: cannot},
		"other front ends":    {device: refusing{host0}, note: "features are computed on the CPU: device cpu lacks an op of them"},
	} {
		for _, f := range []*features.Front{front, own} {
			for _, m := range []datasets.Split{bytes, values} {
				r := Reader{Front: f, Loss: ir.Logistic, Classes: 2, Threads: 3, Parts: 2}
				if got := r.Note(c.device); got != c.note {
					t.Errorf("%s: the note is %q", name, got)
				}
				records, err := r.Records(c.device, m)
				if err != nil {
					t.Fatal(err)
				}
				got, ok := records.Values.(device.Halves)
				if table, same := records.Data.(*host.Table); !ok || !same || &table.Features.(device.Halves)[0] != &got[0] {
					t.Fatalf("%s: the host has %T, the device %T", name, records.Values, records.Data)
				}
				if records.Rows.Width != f.Width() || records.Rows.Count != n || records.Rows.Targets[1] != -1 {
					t.Errorf("%s: the rows are %+v", name, records.Rows)
				}
				void := records.Data.(*host.Table).Void(1)
				if usable := records.Usable(); void != (m.Values != nil) || usable != n-1 && void || usable != n && !void {
					t.Errorf("%s: image 1 is void: %v; %d are usable", name, void, usable)
				}
				want := device.Halves(f.Rows(features.Images{Bytes: m.Features, Values: m.Values}, 1, nil))
				if !c.near && !slices.Equal(got, want) {
					t.Errorf("%s: the rows of %s are others than the front end's", name, f.Spec().Kind)
				}
				for i, x := range floats(t, records.Rows, want) {
					y := floats(t, records.Rows, got)[i]
					// Each is rounded by up to 2⁻¹¹ of itself; before that, they are up to 1e-5 of a row apart.
					if d := math.Abs(float64(x - y)); !(d <= 0x1p-10*math.Abs(float64(x))+1e-5*features.Scale) && x == x || (x != x) != (y != y) {
						t.Errorf("%s: value %d is %v, want %v", name, i, y, x)
					}
				}
				if err := records.Data.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// With a norm, rows are bounded as on the CPU.
func TestMappedNorm(t *testing.T) {
	m, _ := images(3, 96)
	r := Reader{Front: scattered(t), Norm: 2, Loss: ir.Logistic, Classes: 2}
	_, want, err := r.Table(m)
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Records(reference.Open(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Data.Close()
	if got, ok := records.Values.(device.Floats); !ok || !slices.Equal(got, want.(device.Floats)) {
		t.Errorf("the rows are %T", records.Values)
	}
}

// Work that is stopped, on a device or in front of one, ends with the reason.
func TestStopped(t *testing.T) {
	m, _ := images(3, 96)
	stop := errors.New("stop")
	for _, d := range []device.Device{reference.Open(), plain{reference.Open()}} {
		var seen []int
		r := Reader{Front: scattered(t), Loss: ir.Logistic, Classes: 2, Parts: 4, Progress: func(p int) { seen = append(seen, p) }}
		r.Stopped = func() error {
			if len(seen) >= 50 {
				return stop
			}
			return nil
		}
		if _, err := r.Records(d, m); !errors.Is(err, stop) || len(seen) != 50 {
			t.Errorf("behind %d%% it ends with %v", len(seen), err)
		}
	}
}

// alone is a mapper whose rows the host does not see.
type alone struct{ *cpu.Device }

func (d alone) Map(f device.Front, from device.Data, o device.MapOptions) (device.Data, error) {
	data, err := d.Device.Map(f, from, o)
	return struct{ device.Data }{data}, err
}

// Of rows that a device alone has, the host knows which records count as zero from the start: those that are not finite.
func TestMappedAlone(t *testing.T) {
	d, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	bytes, values := images(5, 96)
	for m, usable := range map[*datasets.Split]int64{&bytes: 5, &values: 4} {
		r := Reader{Front: scattered(t), Loss: ir.Logistic, Classes: 2}
		records, err := r.Records(alone{d}, *m)
		if err != nil {
			t.Fatal(err)
		}
		if records.Values != nil || records.Rows.Count != 5 || records.Rows.Width != r.Front.Width() {
			t.Errorf("the host has %T, of rows %+v", records.Values, records.Rows)
		}
		if got := records.Usable(); got != usable {
			t.Errorf("%d records are usable, want %d", got, usable)
		}
		if err := records.Data.Close(); err != nil {
			t.Error(err)
		}
	}
}
