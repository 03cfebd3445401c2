package kernels

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"regexp"
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
	if _, _, err := Cubin("none", 80); err == nil {
		t.Error("there is machine code of no module")
	}
}

// contents checks that an object file is for a GPU and has all kernels of a text.
func contents(code []byte, capability int, text []byte) error {
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return err
	}
	const cuda, flags = elf.Machine(190), 0x30 // and the offset of the header's flags, whose second byte is the GPU's
	if f.Machine != cuda || int(code[flags+1]) != capability {
		return fmt.Errorf("it is for machine %v, %d", f.Machine, code[flags+1])
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
