package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of a slice is what was written, in parts that may travel; a write that a crash ended leaves the file before it, and
// a part that is another is noticed.
func TestParts(t *testing.T) {
	d := Dir(t.TempDir())
	if err := os.Mkdir(d.Path(Checkpoints), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.NoteSlice(Slice, SliceLine{Slice: "ab", Event: SliceOut}); err != nil {
		t.Fatal(err)
	}
	source := rand.NewChaCha8([32]byte{1})
	random := rand.New(source)
	read := func() ([]byte, error) {
		f, err := d.open(StateFile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(f)
	}
	files := func() (all []string) {
		entries, err := os.ReadDir(d.Path(Checkpoints))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || info.Size() > PartSize {
				t.Errorf("%s has %d bytes: %v", e.Name(), info.Size(), err)
			}
			all = append(all, e.Name())
		}
		return all
	}
	var last []byte
	for i, size := range []int{0, 1, PartSize - 1, PartSize, PartSize + 1, 2*PartSize + 5} {
		last = make([]byte, size)
		source.Read(last)
		err := d.WriteTo(StateFile, func(w io.Writer) error {
			for b := last; len(b) > 0; { // by pieces of any size
				n := min(len(b), 1+random.IntN(3<<20))
				if _, err := w.Write(b[:n]); err != nil {
					return err
				}
				b = b[n:]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := read()
		sum := sha256.Sum256(last)
		digest, err2 := d.Digest(StateFile)
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(got, last) || digest != hex.EncodeToString(sum[:]) || !d.Has(StateFile) {
			t.Errorf("%d bytes: read %d: %v", size, len(got), err)
		}
		if want := (size+PartSize-1)/PartSize + 1; len(files()) != want {
			t.Errorf("file %d of %d bytes is %v", i, size, files())
		}
	}
	cut := errors.New("cut")
	err := d.WriteTo(StateFile, func(w io.Writer) error {
		_, err := w.Write(make([]byte, PartSize+1))
		return errors.Join(err, cut)
	})
	if got, err2 := read(); !errors.Is(err, cut) || err2 != nil || !bytes.Equal(got, last) {
		t.Errorf("a write that was cut: %v, and the file before it: %v", err, err2)
	}
	if err := d.Write(StateFile, []byte("new")); err != nil || len(files()) != 2 {
		t.Errorf("the next write leaves %v: %v", files(), err)
	}
	parts, _ := filepath.Glob(d.Path(StateFile + ".*-000"))
	for _, damaged := range []string{"nex", "ne", "newer"} {
		if err := os.WriteFile(parts[0], []byte(damaged), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := read(); err == nil || !strings.Contains(err.Error(), "fetch the folder again") {
			t.Errorf("a part %q gives %q: %v", damaged, got, err)
		}
	}
	if err := os.WriteFile(d.indexOf(StateFile), []byte(`{"generation":1,"bytes":17000000,"sha256":["ab"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "fetch the folder again") {
		t.Errorf("an index of too few parts: %v", err)
	}
}

// A line that a crash cut off is none, and the next one stands by itself; a damaged one before is an error.
func TestSliceLines(t *testing.T) {
	d := Dir(t.TempDir())
	for i := range 3 {
		if err := d.NoteSlice(Slices, SliceLine{Slice: "ab", Event: SliceOut, Number: i + 1}); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(d.Path(Slices), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString([]string{`{"slice":"ab","ev`, "\x00\x00\n", ""}[i])
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if all, err := d.SliceLines(Slices); err != nil || len(all) != i+1 || all[i].Number != i+1 {
			t.Errorf("line %d: %+v, %v", i+1, all, err)
		}
	}
	b, err := os.ReadFile(d.Path(Slices))
	if err == nil {
		b[0] = 'x'
		err = os.WriteFile(d.Path(Slices), b, 0o644)
	}
	if _, err2 := d.SliceLines(Slices); err != nil || err2 == nil {
		t.Errorf("a damaged line: %v", err2)
	}
}
