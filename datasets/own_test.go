package datasets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Classes have the same names from a flag, a configuration and a class file, whatever editor saved it.
func TestNamesOfClasses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "classes.txt")
	want := []string{"cat", "old dog"}
	for _, text := range []string{"cat\nold dog\n", "cat\nold dog", "\xef\xbb\xbfcat\r\nold dog\r\n", "  cat\t\n\n\told dog \n\n"} {
		check(t, os.WriteFile(file, []byte(text), 0o600))
		set, err := Declared{}.NewSet("photos", file)
		if err != nil || !slices.Equal(set.ClassNames, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	given := []string{" cat", "old dog\t"}
	if set, err := (Declared{Classes: given}).NewSet("photos", file); err != nil || !slices.Equal(set.ClassNames, want) || given[0] != " cat" {
		t.Errorf("names with blanks around them: %v", err)
	}
	for text, part := range map[string]string{
		"\xff\xfec\x00a\x00t\x00\n\x00d\x00o\x00g\x00": "UTF-16: save it in UTF-8", "\xfe\xff\x00c\x00\n\x00d": "UTF-16", "c\x00\n\x00d\x00": "zero bytes",
		"cat\ndog\ncat \n": `"cat" twice`, "caf\xe9\ndog\n": "name 1 is empty, or no text", "\xef\xbb\xbf": "has 0 names",
	} {
		check(t, os.WriteFile(file, []byte(text), 0o600))
		if set, err := (Declared{}).NewSet("photos", file); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want an error with %q; read %v", text, err, part, set)
		}
	}
}

// A size is in decimal digits.
func TestShapeIsDecimal(t *testing.T) {
	for text, want := range map[string][3]int{"03x08x010": {3, 8, 10}, "08x09": {1, 8, 9}, "010": {1, 1, 10}, "": {3, 32, 32}} {
		if got, err := (Declared{Size: text}).Shape(); got != want || err != nil {
			t.Errorf("%q is read as %v (%v)", text, got, err)
		}
	}
	for _, text := range []string{"0x8", "3x0x8x8", "0b1x8", "3x1_0x8", "3,8,8", "3x8x", "x8"} {
		if got, err := (Declared{Size: text}).Shape(); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
