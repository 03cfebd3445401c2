package mnist

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/privgrad/privgrad/datasets"
)

func idx(payload []byte, dims ...uint32) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, payload...)
}

// files is a set of 11 training and 2 test records.
func files() map[string][]byte {
	x := make([]byte, 11*784)
	for i := range x {
		x[i] = byte(i % 251)
	}
	return map[string][]byte{
		"train-images-idx3-ubyte": idx(x, 11, 28, 28),
		"train-labels-idx1-ubyte": idx([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 11),
		"t10k-images-idx3-ubyte":  idx(x[:2*784], 2, 28, 28),
		"t10k-labels-idx1-ubyte":  idx([]byte{3, 5}, 2),
	}
}

func check(t *testing.T, s *datasets.Set, err error, name string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f := files()
	if s.Name != name || s.Classes != 10 || len(s.ClassNames) != 10 || s.PublicN != 60000 || !s.TestIsPublic || s.Note == "" {
		t.Errorf("described as %q, %d classes, N=%d", s.Name, s.Classes, s.PublicN)
	}
	if s.Train.Shape != [3]int{1, 28, 28} || !bytes.Equal(s.Train.Features, f["train-images-idx3-ubyte"][16:]) ||
		!bytes.Equal(s.Train.Labels, f["train-labels-idx1-ubyte"][8:]) || !slices.Equal(s.Test.Labels, []uint8{3, 5}) {
		t.Error("the records differ from the files")
	}
}

func TestOpen(t *testing.T) {
	plain, packed := t.TempDir(), t.TempDir()
	m := fstest.MapFS{}
	for name, data := range files() {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(packed, name+".gz"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(plain, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		m[name+".gz"] = &fstest.MapFile{Data: b.Bytes()}
	}
	for _, dir := range []string{plain, packed} {
		s, err := Layout.Open(dir)
		check(t, s, err, "mnist")
	}
	s, err := Fashion.OpenFS(m)
	check(t, s, err, "fmnist")
}

// The digits 3 and 5 have a public size of their own.
func TestPublishedSizes(t *testing.T) {
	m := fstest.MapFS{}
	for name, data := range files() {
		m[name] = &fstest.MapFile{Data: data}
	}
	s, err := Layout.OpenFS(m)
	check(t, s, err, "mnist")
	k, err := s.Keep([]int{3, 5})
	if err != nil {
		t.Fatal(err)
	}
	if k.PublicN != 6131+5421 || !slices.Equal(k.Train.Labels, []uint8{0, 1}) {
		t.Errorf("3 against 5: N=%d, %d rows", k.PublicN, len(k.Train.Labels))
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Layout.Open(dir)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "train-images-idx3-ubyte")) || !strings.Contains(err.Error(), "privgrad data fetch mnist") {
		t.Errorf("an empty directory: %v", err)
	}
}
