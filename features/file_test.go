package features

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/safetensors"
)

func TestFiles(t *testing.T) {
	eachFront(t, func(t *testing.T, f *Front) {
		var file, again bytes.Buffer
		if err := f.Write(&file); err != nil {
			t.Fatal(err)
		}
		read, err := Read(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if read.Spec() != f.Spec() || read.Out() != f.Out() {
			t.Errorf("%+v became %+v", f.Spec(), read.Spec())
		}
		images := Images{Values: drawn(f.In(), 2)}
		if !slices.Equal(read.Rows(images, 1, nil), f.Rows(images, 1, nil)) {
			t.Error("rows are others after writing and reading")
		}
		if err := read.Write(&again); err != nil || !bytes.Equal(file.Bytes(), again.Bytes()) {
			t.Errorf("written again it is another file (%v)", err)
		}
	})
}

func TestBrokenFiles(t *testing.T) {
	spec := Spec{Kind: "scatter", Whiten: Leaves, Mirror: true, Shape: [3]int{1, 28, 28}}
	f, err := New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := f.Write(&file); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	for n := range len(whole) {
		if n > 700 && n%97 != 0 && n != len(whole)-1 {
			continue
		}
		if _, err := Read(bytes.NewReader(whole[:n])); !errors.Is(err, safetensors.ErrFormat) {
			t.Fatalf("the first %d bytes of %d: error %v", n, len(whole), err)
		}
	}
	// A byte of the header that is another one: an error or, never, a front end of other constants or another spec.
	for n := range 600 {
		for _, b := range []byte{0, 0x20, 0x31, 0x7f, 0xff} {
			broken := slices.Clone(whole)
			if broken[n] == b {
				continue
			}
			broken[n] = b
			if read, err := Read(bytes.NewReader(broken)); err == nil && read.spec != spec {
				t.Fatalf("byte %d changed to %#x gives %s", n, b, read.spec.name())
			}
		}
	}

	tensors, metadata, err := safetensors.Read(bytes.NewReader(whole), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(tensors []safetensors.Tensor, metadata map[string]string) []safetensors.Tensor
		say    string
	}{
		"no tensors": {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor { return nil }, "missing"},
		"one less":   {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor { return t[1:] }, "missing"},
		"one more": {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor {
			return append(t, safetensors.Tensor{Name: "patches.mean", Shape: []int{1}, Data: []float32{1}})
		}, "does not have"},
		"shape": {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor {
			t[0].Shape = append([]int{1}, t[0].Shape...)
			return t
		}, "shape"},
		"short": {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor {
			t[0].Data, t[0].Shape = t[0].Data[1:], []int{len(t[0].Data) - 1}
			return t
		}, "shape"},
		"not a number": {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor {
			t[1].Data = slices.Clone(t[1].Data)
			t[1].Data[5] = float32(math.NaN())
			return t
		}, "not finite"},
		"precision": {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor {
			t[0].Half = !t[0].Half
			return t
		}, "precision"},
		"infinite": {func(t []safetensors.Tensor, _ map[string]string) []safetensors.Tensor {
			t[0].Data = slices.Clone(t[0].Data)
			t[0].Data[5] = float32(math.Inf(1))
			return t
		}, "not finite"},
		"another format": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			m["format"] = "privgrad model 1"
			return t
		}, "no file of"},
		"another kind": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			m["kind"] = "patches"
			return t
		}, "missing"},
		"unknown kind": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor { m["kind"] = "waves"; return t }, "use one of"},
		"another shape": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			m["shape"] = "3x32x32"
			return t
		}, "shape"},
		"a huge shape": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			m["shape"] = "1x1000000x1000000"
			return t
		}, "96×96"},
		"a negative shape": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			m["shape"] = "1x-28x28"
			return t
		}, "smaller"},
		"no shape": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor { m["shape"] = "28"; return t }, "metadata"},
		"a shape twice": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			m["shape"] = "01x28x28"
			return t
		}, "metadata"},
		"another scale":    {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor { m["scale"] = "1"; return t }, "metadata"},
		"a strange mirror": {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor { m["mirror"] = "yes"; return t }, "metadata"},
		"more metadata":    {func(t []safetensors.Tensor, m map[string]string) []safetensors.Tensor { m["author"] = "x"; return t }, "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := map[string]string{}
			for k, v := range metadata {
				changed[k] = v
			}
			var b bytes.Buffer
			if err := safetensors.Write(&b, c.change(slices.Clone(tensors), changed), changed); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(&b); !errors.Is(err, safetensors.ErrFormat) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("error %v, which should say %q", err, c.say)
			}
		})
	}
}
