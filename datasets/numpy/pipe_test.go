package numpy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// pipe makes a file standard input.
func pipe(t *testing.T, path string) {
	t.Helper()
	in, err := os.Open(path)
	check(t, err)
	old := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = old; in.Close() })
}

// Arrays that are piped are read as their file is, and never a class file.
func TestPiped(t *testing.T) {
	small := filepath.Join("testdata", "small.npz")
	declared := datasets.Declared{Size: "3x2x3", Classes: []string{"a", "b", "c"}}
	want, err := open(small, declared)
	check(t, err)
	pipe(t, small)
	got, err := open(datasets.Piped, declared)
	check(t, err)
	if got.Name = want.Name; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	pipe(t, small)
	if got, err = labeled(datasets.Piped, declared); err != nil || !reflect.DeepEqual(got.Test, want.Test) {
		t.Errorf("%+v, %v", got, err)
	}
	t.Chdir(t.TempDir())
	check(t, os.WriteFile(datasets.Piped+classFile, []byte("a\nb\n"), 0o644))
	check(t, os.WriteFile("cut", []byte("PK\x03\x04"), 0o644))
	check(t, os.WriteFile("x.npy", []byte(array("|u1", "2, 2", []uint8{1, 2, 3, 4})), 0o644))
	pipe(t, "cut")
	if _, err := open(datasets.Piped, datasets.Declared{Size: "2"}); err == nil || !strings.Contains(err.Error(), "arrays -: not a file that numpy.savez writes") {
		t.Errorf("damaged: %v", err)
	}
	if _, err := facts(datasets.Piped, datasets.Declared{Size: "2"}); err == nil || !strings.Contains(err.Error(), "--class-names") || strings.Contains(err.Error(), classFile) {
		t.Errorf("without classes: %v", err)
	}
	pipe(t, "x.npy")
	if s, err := Array(datasets.Piped, [3]int{1, 1, 2}); err != nil || string(s.Features) != "\x01\x02\x03\x04" {
		t.Errorf("an array: %+v, %v", s, err)
	}
	if _, err := Array(datasets.Piped, [3]int{1, 1, 2}); err == nil || !strings.Contains(err.Error(), "array - cannot be read: nothing comes") {
		t.Errorf("once more: %v", err)
	}
}
