//go:build gocuda && cgo && linux

package gputest_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv/cudrvtest"
	"github.com/privgrad/privgrad/internal/cuda/driver/drivertest"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
)

// The way to a GPU is taken to the fake behind the shim, in the place of libcuda.
func TestMain(m *testing.M) {
	if err := cudrvtest.Install(fake.New(fake.Options{Seed: 1})); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// add runs a kernel of drivertest, which adds x to n floats.
func add(m gputest.Machine, p uint64, n int, x float32) error {
	return m.Launch("kernels", drivertest.PTX, "add", [3]int{(n + 31) / 32, 1, 1}, [3]int{32, 1, 1}, 0,
		[]uint64{p, uint64(n), uint64(math.Float32bits(x))})
}

func TestGPUMachine(t *testing.T) {
	t.Setenv(gputest.Variable, "1")
	m := gputest.New(t)
	p, err := m.Alloc(12)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := m.Written(p, 12); ok || err != nil {
		t.Errorf("new memory counts as written: %v, %v", ok, err)
	}
	want := make([]byte, 0, 12)
	for _, x := range []float32{1, 2, 3} {
		want = binary.LittleEndian.AppendUint32(want, math.Float32bits(x))
	}
	if err := m.Write(p, want); err != nil {
		t.Fatal(err)
	}
	if err := add(m, p, 3, 0); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 12)
	if err := m.Read(got, p); err != nil || !bytes.Equal(got, want) {
		t.Errorf("memory holds %x, want %x (%v)", got, want, err)
	}
	if ok, err := m.Written(p, 12); !ok || err != nil {
		t.Errorf("memory counts as not written: %v, %v", ok, err)
	}
	says := func(what string, err error, words ...string) {
		t.Helper()
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, without %q", what, err, w)
			}
		}
	}
	says("a kernel that writes behind", add(m, p, 4, 1), "module kernels,", "kernel add", "block [32 1 1]", "it wrote at byte 15 of the buffer", "which has 12")
	says("code that is none", m.Launch("broken", []byte("broken"), "add", [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, nil), "module broken,", "cuModuleLoadDataEx")
	says("a kernel that is not there", m.Launch("kernels", drivertest.PTX, "none", [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, nil), "kernel none", "cuModuleGetFunction")
}
