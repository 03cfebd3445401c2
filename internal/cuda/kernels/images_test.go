package kernels

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The machine code of every module is made of the committed PTX, for the GPU that its name says, and has every kernel. That
// it is what the assembler makes is for make ptx-check.
func TestCubins(t *testing.T) {
	names, err := Modules()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := PTX(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, capability := range Capabilities {
			code, of, err := Cubin(name, capability)
			if err != nil {
				t.Error(err)
				continue
			}
			if digest := sha256.Sum256(text); of != hex.EncodeToString(digest[:]) {
				t.Errorf("%s is made of other PTX: run make sass", CubinFile(name, capability))
			}
			if err := contents(code, capability, text); err != nil {
				t.Errorf("%s: %v", CubinFile(name, capability), err)
			}
		}
	}
	const most = 6 << 20 // of a program of 100 MB
	if size := packed(t); size > most {
		t.Errorf("machine code takes %d bytes of the program, at most %d are meant", size, most)
	}
	if _, _, err := Cubin("none", 80); err == nil {
		t.Error("there is machine code of no module")
	}
}

// packed is how many bytes of machine code a program carries.
func packed(t *testing.T) (size int64) {
	t.Helper()
	files, err := cubins.ReadDir("cubin")
	for _, f := range files {
		var info fs.FileInfo
		if info, err = f.Info(); err != nil {
			break
		}
		size += info.Size()
	}
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// A GPU runs code of its own major number, and not of a later minor one.
func TestCapabilityFor(t *testing.T) {
	for gpu, want := range map[int]int{75: 0, 80: 80, 86: 86, 89: 86, 90: 90, 100: 100, 103: 100, 110: 0, 120: 0, 121: 0, 130: 0} {
		if got := CapabilityFor(gpu); got != want {
			t.Errorf("a GPU of %d runs code of %d, want %d", gpu, got, want)
		}
	}
}

// contents checks that an object file is for a GPU and has all kernels of a text.
func contents(code []byte, capability int, text []byte) error {
	code = slices.Clone(code)
	copy(code[0x14:], []byte{1, 0, 0, 0}) // the version of the format, which NVIDIA had as a number of its own, and ELF has as 1
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return err
	}
	// The flags in the header name the GPU in their first byte, and since version 8 of the ABI in the second. Drivers from
	// CUDA 12.0 on read version 7; those that know a GPU of 10.0 or above read 8.
	const cuda, flags = elf.Machine(190), 0x30
	abi, gpu := byte(7), code[flags]
	if capability >= 100 {
		abi, gpu = 8, code[flags+1]
	}
	if f.Machine != cuda || f.ABIVersion != abi || int(gpu) != capability {
		return fmt.Errorf("it is for machine %v, %d, by version %d of the ABI", f.Machine, gpu, f.ABIVersion)
	}
	for _, m := range regexp.MustCompile(`\.entry (\w+)\(`).FindAllSubmatch(text, -1) {
		if s := f.Section(".text." + string(m[1])); s == nil || s.Size == 0 {
			return fmt.Errorf("it does not have kernel %s", m[1])
		}
	}
	return nil
}

// No kernel needs PTX that the oldest driver of the guide does not assemble, CUDA 11.4's.
func TestPTXVersion(t *testing.T) {
	names, err := Modules()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		images, err := Images(name, 80, 11040)
		if err != nil || len(images) != 1 {
			t.Fatalf("%s: %d images, %v", name, len(images), err)
		}
		if !bytes.Contains(images[0], []byte("\n.version 7.4\n.target sm_80\n")) {
			t.Errorf("%s is not in PTX ISA 7.4 for compute capability 8.0", name)
		}
	}
	if images, err := Images("none", 80, 13000); err == nil {
		t.Errorf("there are %d images of no module", len(images))
	}
}

// The variable leaves either form. Machine code that is not there is an error, since a test of it would test something else.
func TestForcedImages(t *testing.T) {
	module := "dense"
	text, err := PTX(module)
	if err != nil {
		t.Fatal(err)
	}
	code, _, err := Cubin(module, 90)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		form                string
		capability, version int
		want                [][]byte
		err                 string
	}{
		{"", 90, cubinVersion, [][]byte{code, text}, ""},
		{"ptx", 90, cubinVersion, [][]byte{text}, ""},
		{"cubin", 90, cubinVersion, [][]byte{code}, ""},
		{"", 90, cubinVersion - 1, [][]byte{text}, ""},
		{"ptx", 70, cubinVersion, [][]byte{text}, ""},
		{"cubin", 70, cubinVersion, nil, "no machine code for this GPU and driver"},
		{"cubin", 90, cubinVersion - 1, nil, "no machine code for this GPU and driver"},
		{"sass", 90, cubinVersion, nil, `PRIVGRAD_IMAGES is "sass": set it to ptx or cubin`},
	} {
		t.Setenv(ImagesVariable, c.form)
		got, err := Images(module, c.capability, c.version)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c, err)
		}
		if len(got) != len(c.want) {
			t.Fatalf("%s for %d and %d: %d images, want %d", c.form, c.capability, c.version, len(got), len(c.want))
		}
		for i := range got {
			if !bytes.Equal(got[i], c.want[i]) {
				t.Errorf("%s for %d and %d: image %d is another", c.form, c.capability, c.version, i)
			}
		}
	}
}
