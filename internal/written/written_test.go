package written

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestNumbers(t *testing.T) {
	for text, want := range map[string]int{"010": 10, "0100": 100, "-08": -8, "+5": 5, "0": 0, "00": 0, "0000000000000000000000000010": 10} {
		if n, err := Whole(text); n != want || err != nil {
			t.Errorf("%s is read as %d (%v), want %d", text, n, err, want)
		}
		if x, err := Number(text); x != float64(want) || err != nil {
			t.Errorf("%s is read as %v (%v), want %d", text, x, err, want)
		}
		if n, err := Natural(text); want >= 0 && text != "+5" && (n != uint64(want) || err != nil) {
			t.Errorf("%s is read as %d (%v), want %d", text, n, err, want)
		}
	}
	for text, want := range map[string]float64{"010.5": 10.5, ".5": 0.5, "01e2": 100, "1e-08": 1e-8, "inf": math.Inf(1), "5.": 5} {
		if x, err := Number(text); x != want || err != nil {
			t.Errorf("%s is read as %v (%v), want %v", text, x, err, want)
		}
	}
	for _, text := range []string{"0x10", "0X10", "0b1", "0o7", "1_000", "-0x10", "0xffffffffffffffffff"} {
		_, whole := Whole(text)
		_, natural := Natural(text)
		_, number := Number(text)
		if whole != ErrDigits || natural != ErrDigits || number != ErrDigits {
			t.Errorf("%s: %v, %v, %v", text, whole, natural, number)
		}
	}
	for _, text := range []string{"0x1p-3", "0x1.8p1", "1_000.5", "0x_1p-2", "1_0e3"} {
		if x, err := Number(text); err != ErrDigits {
			t.Errorf("%s is read as %v (%v)", text, x, err)
		}
	}
	for _, text := range []string{"", " ", "ten", "1,5", "１０", "1e400"} {
		if x, err := Number(text); err == nil || err == ErrDigits {
			t.Errorf("%q is read as %v (%v)", text, x, err)
		}
	}
	if _, err := Whole("99999999999999999999"); !errors.Is(err, strconv.ErrRange) {
		t.Errorf("a number beyond all: %v", err)
	}
}

func TestLists(t *testing.T) {
	want := []string{"cat", "old dog"}
	for _, text := range []string{"cat,old dog", "cat, old dog", " cat ,\told dog ", "cat,\nold dog\r\n"} {
		if got, err := Names(text); !slices.Equal(got, want) || err != nil {
			t.Errorf("%q is read as %q (%v)", text, got, err)
		}
	}
	for text, part := range map[string]string{
		"": "item 1 of the list is empty", "cat,": "item 2 of the list is empty", "cat,,dog": "item 2", " ": "item 1",
		`"cat",dog`: "item 1 of the list begins with a quotation mark", "cat,'dog'": "item 2", "cat,dog, cat": `"cat" twice`,
	} {
		if got, err := Names(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is read as %q (%v), want an error with %q", text, got, err, part)
		}
	}
	if got, err := Wholes("03, 5,010,5"); !slices.Equal(got, []int{3, 5, 10, 5}) || err != nil {
		t.Errorf("numbers are read as %v (%v)", got, err)
	}
	for _, text := range []string{"3,0x5", "3,,5", "3,five", ""} {
		if got, err := Wholes(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestText(t *testing.T) {
	for _, file := range []string{"cat\ndog\n", "\xef\xbb\xbfcat\ndog\n"} {
		if got, err := Text([]byte(file)); string(got) != "cat\ndog\n" || err != nil {
			t.Errorf("%q is read as %q (%v)", file, got, err)
		}
	}
	for file, part := range map[string]string{
		"\xff\xfec\x00a\x00t\x00": "UTF-16", "\xfe\xff\x00c\x00a\x00t": "UTF-16", "\xff\xfe\x00\x00c\x00\x00\x00": "UTF-32",
		"\x00\x00\xfe\xff\x00\x00\x00c": "UTF-32", "c\x00a\x00t\x00": "zero bytes",
	} {
		if got, err := Text([]byte(file)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is read as %q (%v), want an error with %q", file, got, err, part)
		}
	}
}

// A path that exists leads to where the system finds it, and one that does not to where it would be.
func TestPath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, folder := range []string{"full", "elsewhere/deep/er"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link": "elsewhere/deep", "whole": filepath.Join(dir, "elsewhere/deep"), "here": ".", "loose": "nothing/there"} {
		if err := os.Symlink(filepath.FromSlash(target), link); err != nil {
			t.Skip(err)
		}
	}
	for text, want := range map[string]string{
		"": "", ".": ".", "full": "full", "full/": "full", "./full/.": "full", "full//": "full", "nosuch/../full": "full", "nosuch/./deeper/../../full/": "full",
		"full/../full": "full", "..": "..", "../x": "../x", "../../x": "../../x", "full/..": ".", "full/../../x": "../x",
		"link": "link", "link/../x": "elsewhere/x", "link/er/../x": "link/x", "whole/../x": filepath.Join(dir, "elsewhere/x"), "here/../x": "../x",
		"loose/../x": "x", "nosuch/..": ".", "/nosuch/../full": "/full", "/..": "/", "/": "/", "/a/b/../c": "/a/c",
	} {
		got := Path(filepath.FromSlash(text))
		if got != filepath.FromSlash(want) {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
		// Where the system finds the text as it is, it finds the same there.
		if raw, err := os.Stat(text); err == nil {
			if clean, err := os.Stat(got); err != nil || !os.SameFile(raw, clean) {
				t.Errorf("%q and %q are two places (%v)", text, got, err)
			}
		}
	}
}
