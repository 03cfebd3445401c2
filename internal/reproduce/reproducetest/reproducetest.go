// Package reproducetest has what tests of papers' figures share.
package reproducetest

import (
	"bytes"
	"context"
	"image/png"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

// Images is a made data set of Fashion-MNIST's shape, whose classes differ in
// brightness.
func Images(records int) *datasets.Set {
	r := rand.New(rand.NewPCG(1, 2))
	set := &datasets.Set{Name: "fmnist", Classes: 10, TestIsPublic: true, PublicN: records, PerClass: make([]int, 10)}
	split := func(n int) datasets.Split {
		s := datasets.Split{Shape: [3]int{1, 28, 28}}
		for i := range n {
			s.Labels = append(s.Labels, uint8(i%10))
			for range 784 {
				s.Features = append(s.Features, uint8(20*(i%10)+r.IntN(40)))
			}
		}
		return s
	}
	set.Train, set.Test = split(records), split(100)
	for i := range set.PerClass {
		set.PerClass[i] = records / 10
	}
	return set
}

// Tiny are options for the least of work.
func Tiny(t *testing.T) reproduce.Options {
	t.Helper()
	t.Setenv(config.DataDirVariable, "")
	return reproduce.Options{
		Out: t.TempDir(), Seeds: 1, Quick: true, Work: 0.003, Threads: 2,
		Sources: map[string]train.Source{"fmnist": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return Images(600), nil }}},
	}
}

// Run reruns a figure.
func Run(t *testing.T, f reproduce.Figure, o reproduce.Options) *reproduce.Summary {
	t.Helper()
	s, err := f.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Read gives a file.
func Read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// CheckOutputs looks for what every output must say, and at the form of the files.
func CheckOutputs(t *testing.T, f reproduce.Figure, s *reproduce.Summary, labels ...string) reproduce.Records {
	t.Helper()
	if s.Guarantee || !slices.Equal(s.NoGuarantee, []string{reproduce.DeclaredPublic}) {
		t.Errorf("the summary says guarantee %t because %q", s.Guarantee, s.NoGuarantee)
	}
	records, err := reproduce.ReadRecords(s.CSV)
	if err != nil {
		t.Fatal(err)
	}
	finals := 0
	for _, r := range records {
		if r.Guarantee || !strings.Contains(r.NoGuarantee, reproduce.DeclaredPublic) {
			t.Errorf("a line says guarantee %t because %q", r.Guarantee, r.NoGuarantee)
		}
		if r.Final {
			finals++
		}
	}
	if finals != s.Runs+s.RunsOther {
		t.Errorf("%s has %d runs, the summary says %d and %d", s.CSV, finals, s.Runs, s.RunsOther)
	}
	page := Read(t, s.Markdown)
	caption := strings.Join(s.Caption(&f), "\n")
	for _, label := range append(labels, reproduce.DeclaredPublic, "NO GUARANTEE") {
		for where, text := range map[string]string{"page": page, "picture's caption": caption} {
			if !strings.Contains(text, label) {
				t.Errorf("the %s does not say %q", where, label)
			}
		}
	}
	for _, label := range labels {
		if !slices.Contains(s.Labels, label) {
			t.Errorf("the summary's labels %q are without %q", s.Labels, label)
		}
		for _, r := range records {
			if !strings.Contains(r.Label, label) {
				t.Errorf("a line's label %q is without %q", r.Label, label)
			}
		}
	}
	picture, err := png.Decode(bytes.NewReader([]byte(Read(t, s.Picture))))
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() < 300 || b.Dy() < 200 {
		t.Errorf("the picture is %v", b)
	}
	return records
}
