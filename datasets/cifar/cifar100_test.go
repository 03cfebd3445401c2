package cifar

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

const record100 = 3074

// batch100 makes n records of two labels: the group is no group in some, and the class no class in some.
func batch100(seed, n int) []byte {
	b := make([]byte, n*record100)
	for i := range b {
		switch b[i] = byte(seed*31 + i/record100*7 + i%record100%253); i % record100 {
		case 0:
			b[i] = byte(seed + i/record100*9)
		case 1:
			b[i] = byte((seed + i/record100*33) % 102) // 100 and 101 are no classes
		}
	}
	return b
}

// files100 are seven and four records; the classes of the latter are 1, 34, 67 and 100.
func files100() map[string][]byte {
	return map[string][]byte{"train.bin": batch100(2, 7), "test.bin": batch100(1, 4)}
}

// The class is the second label, and pixels begin behind it.
func TestOpen100(t *testing.T) {
	var pixels, labels []byte
	for b := batch100(2, 7); len(b) > 0; b = b[record100:] {
		labels, pixels = append(labels, b[1]), append(pixels, b[2:record100]...)
	}
	for _, dir := range []string{"", "cifar-100-binary/", "cifar100/", "cifar100/cifar-100-binary/"} {
		for _, gz := range []bool{false, true} {
			s, err := Layout100.OpenFS(mapFS(t, files100(), dir, gz))
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != "cifar100" || s.PublicN != 50000 || s.Classes != 100 || s.Train.Shape != [3]int{3, 32, 32} || !s.TestIsPublic {
				t.Errorf("described as %q, N=%d, %d classes, %v", s.Name, s.PublicN, s.Classes, s.Train.Shape)
			}
			if !bytes.Equal(s.Train.Labels, labels) || !bytes.Equal(s.Train.Features, pixels) {
				t.Error("the training records differ from the file")
			}
			if !slices.Equal(s.Test.Labels, []uint8{1, 34, 67, 100}) || len(s.Test.Features) != 4*3072 {
				t.Errorf("the test records differ from the file: %v", s.Test.Labels)
			}
		}
	}
	if _, err := Layout100.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "train.bin") || !strings.Contains(err.Error(), "privgrad data fetch cifar100") {
		t.Errorf("an empty directory: %v", err)
	}
}

// The names are those of the published list, which is sorted; a class is its place there.
func TestClasses100(t *testing.T) {
	names := Layout100.ClassNames
	if len(names) != 100 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != 100 || len(Layout100.PerClass) != 100 {
		t.Errorf("%d names: %v", len(names), names)
	}
	for class, want := range map[int]string{0: "apple", 1: "aquarium_fish", 23: "cloud", 49: "mountain", 76: "skyscraper", 99: "worm"} {
		if names[class] != want {
			t.Errorf("class %d is %s, want %s", class, names[class], want)
		}
	}
}

func TestStructuralFaults100(t *testing.T) {
	for _, f := range []struct {
		name   string
		damage func([]byte) []byte
		want   string
	}{
		{"empty", func([]byte) []byte { return nil }, "the file is empty"},
		{"truncated", func(b []byte) []byte { return b[:len(b)-1] }, "no whole number of 3074-byte records"},
		{"trailing byte", func(b []byte) []byte { return append(b, 0) }, "no whole number of 3074-byte records"},
		{"one label a record", func(b []byte) []byte { return b[:2*record] }, "no whole number of 3074-byte records"},
	} {
		for _, name := range []string{"train.bin", "test.bin"} {
			m := files100()
			m[name] = f.damage(m[name])
			_, err := Layout100.OpenFS(mapFS(t, m, "", true))
			if err == nil || !strings.HasPrefix(err.Error(), "cifar100: "+name) || !strings.Contains(err.Error(), f.want) {
				t.Errorf("%s: error %v", f.name, err)
			}
		}
	}
}

// Records of no class are kept, so that training counts them as zero, and their owner is told.
func TestVerify100(t *testing.T) {
	r, err := datasets.VerifyFS(mapFS(t, files100(), "", false), &Layout100)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Private == nil || r.Private.Train.Records != 7 || r.Private.Train.OutOfRange != 1 || r.Private.Test.OutOfRange != 1 {
		t.Fatalf("%+v", r)
	}
	if got := r.Private.Test.PerClass; len(got) != 100 || got[1] != 1 || got[34] != 1 || got[67] != 1 {
		t.Errorf("by class %v", got)
	}
}

// Fetch takes neither files of another size for the published ones nor an archive of the right size and another content.
func TestFetch100(t *testing.T) {
	old := http.DefaultClient.Transport
	http.DefaultClient.Transport = offline{}
	t.Cleanup(func() { http.DefaultClient.Transport = old })
	dir := t.TempDir()
	fetch := func(want string) {
		t.Helper()
		if err := datasets.Fetch(context.Background(), &Layout100, dir, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	fetch("cifar-100-binary.tar.gz: the server was not reached")

	part := filepath.Join(dir, ".privgrad-cifar-100-binary.tar.gz.part")
	size := datasets.Downloads("cifar100")[0].Size
	if err := errors.Join(os.WriteFile(part, nil, 0o644), os.Truncate(part, size)); err != nil {
		t.Fatal(err)
	}
	fetch("its size or SHA-256 differs")
	if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a wrong archive stays: %v", err)
	}

	mine := filepath.Join(dir, "train.bin")
	if err := os.WriteFile(mine, batch100(1, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	fetch(mine + " exists and is not the file published at https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz")
}

// The published files are whole numbers of records, as many as were published.
func TestPublishedSizes(t *testing.T) {
	for _, c := range []struct {
		set                 *datasets.Layout
		record, train, test int64
	}{{&Layout, record, 50000, 10000}, {&Layout100, record100, 50000, 10000}} {
		train := map[string]bool{}
		for _, p := range c.set.Train {
			train[p.File] = true
		}
		left := map[bool]int64{true: c.train * c.record, false: c.test * c.record}
		for _, f := range datasets.Downloads(c.set.Name)[0].Files {
			left[train[f.Name]] -= f.Size
		}
		if left[true] != 0 || left[false] != 0 {
			t.Errorf("%s: the sizes of files and records differ by %v", c.set.Name, left)
		}
	}
}

// offline stands in for the network.
type offline struct{}

func (offline) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the cable is out")
}
