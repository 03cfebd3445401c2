package cuda_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// offers is a driver that notes what it is given to load. Of machine code it loads only that for the capability that it
// takes, and runs the PTX in its place, since it is in host memory; it refuses all other.
type offers struct {
	driver.Driver
	takes int
	made  map[string][]string // by module, in order
}

func (o *offers) Open(ordinal int) (driver.Context, error) {
	c, err := o.Driver.Open(ordinal)
	return offered{c, o}, err
}

type offered struct {
	driver.Context
	to *offers
}

func (o offered) Load(name string, image []byte) (driver.Module, error) {
	ptx, err := kernels.PTX(name)
	if err != nil {
		return nil, err
	}
	kind := "unknown"
	if bytes.HasPrefix(image, ptx) { // a remark may follow
		kind = "ptx"
	}
	for _, capability := range kernels.Capabilities {
		if kind != "unknown" {
			break
		}
		code, _, err := kernels.Cubin(name, capability)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(image, code) {
			kind = fmt.Sprintf("sm_%d", capability)
			if capability == o.to.takes {
				image = ptx
			}
		}
	}
	o.to.made[name] = append(o.to.made[name], kind)
	return o.Context.Load(name, image)
}

// A step loads machine code where the GPU is one of those that it is made for and the driver is new enough to take it, and
// else PTX, also where the driver refuses machine code. Whatever it is, the result is the same.
func TestImagesByGPUAndDriver(t *testing.T) {
	p := program(t, "mlp-fmnist")
	c := devicetest.NewCase(t, p, 3, 1)
	var want []float32
	for _, x := range []struct {
		capability, version, takes int
		want                       []string
	}{
		{80, 11040, 80, []string{"ptx"}},
		{80, 11080, 80, []string{"ptx"}},
		{80, 12000, 80, []string{"sm_80"}},
		{80, 13000, 80, []string{"sm_80"}},
		{80, 13010, 90, []string{"sm_80", "ptx"}}, // it refuses what is made for it
		{86, 12020, 86, []string{"sm_86"}},
		{89, 13000, 86, []string{"sm_86"}},
		{89, 13000, 80, []string{"sm_86", "ptx"}},
		{90, 12080, 90, []string{"sm_90"}},
		{90, 13000, 90, []string{"sm_90"}},
		{90, 14000, 90, []string{"sm_90"}},
		{90, 13000, 0, []string{"sm_90", "ptx"}},
		{103, 13000, 100, []string{"sm_100"}},
		{110, 13000, 90, []string{"ptx"}},
		{120, 12080, 120, []string{"ptx"}},
	} {
		o := &offers{fake.New(fake.Options{Device: driver.Info{Capability: x.capability}, Version: x.version}), x.takes, map[string][]string{}}
		d, err := cuda.Open(o, 0)
		must(t, err)
		n, err := train(d, private(t, p, perexample.Auto), c, 3, noise(t, stream.ChaCha20))
		must(t, err)
		must(t, n.step(c.All(), 0, 0.5, 0.05))
		got, err := n.params(len(c.Params))
		must(t, err)
		must(t, d.Close())
		if len(o.made) < 5 {
			t.Errorf("%+v: a step of %d modules tests nothing", x, len(o.made))
		}
		for name, made := range o.made {
			if !slices.Equal(made, x.want) {
				t.Errorf("%+v: module %s was offered as %q", x, name, made)
			}
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: another result", x)
		}
	}
}

// The oldest driver that the guide names assembles every module, as do later ones. What takes machine code shows how long
// that takes, and what refuses it does not.
func TestEveryModuleLoads(t *testing.T) {
	for _, x := range []struct {
		version, takes int
		cubins         bool
	}{{11040, 90, false}, {11080, 90, false}, {12000, 90, true}, {13000, 0, false}} {
		o := &offers{fake.New(fake.Options{Device: driver.Info{Capability: 90}, Version: x.version}), x.takes, map[string][]string{}}
		d, err := cuda.Open(o, 0)
		must(t, err)
		took, err := d.StartTimes()
		if err != nil || took.Cold <= 0 || took.Cached <= 0 || (took.Cubins > 0) != x.cubins {
			t.Errorf("%+v: %+v, %v", x, took, err)
		}
		must(t, d.Close())
		names, err := kernels.Modules()
		must(t, err)
		if len(o.made) != len(names) {
			t.Errorf("%+v: %d of %d modules were loaded", x, len(o.made), len(names))
		}
	}
}
