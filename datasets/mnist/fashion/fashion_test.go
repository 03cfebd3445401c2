package fashion

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// Fashion-MNIST is public, so its counts may be checked here.
func TestVerify(t *testing.T) {
	r, err := Verify()
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Private == nil {
		t.Fatalf("the built-in files are damaged: %+v", r)
	}
	for _, f := range r.Files {
		if f.Digest != datasets.DigestKnown {
			t.Errorf("%s: its content is not the published one", f.Name)
		}
	}
	for _, split := range []struct {
		got      datasets.RecordReport
		perClass int
	}{{r.Private.Train, 6000}, {r.Private.Test, 1000}} {
		if split.got.Records != 10*split.perClass || split.got.OutOfRange != 0 {
			t.Errorf("%+v", split.got)
		}
		for c, n := range split.got.PerClass {
			if n != split.perClass {
				t.Errorf("class %d has %d records, want %d", c, n, split.perClass)
			}
		}
	}
}

func TestOpen(t *testing.T) {
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "fmnist" || s.PublicN != 60000 || s.Train.Shape != [3]int{1, 28, 28} ||
		len(s.Train.Features) != 60000*784 || len(s.Test.Features) != 10000*784 {
		t.Errorf("%q, N=%d, %d and %d pixels", s.Name, s.PublicN, len(s.Train.Features), len(s.Test.Features))
	}
	// The first records as shown in the data set's own documentation.
	if name := s.ClassNames[s.Train.Labels[0]]; name != "Ankle boot" {
		t.Errorf("the first training picture is labelled %s", name)
	}
}

func TestLicence(t *testing.T) {
	if !strings.Contains(Licence, "2017 Zalando SE, https://tech.zalando.com") || !strings.Contains(Licence, "MIT License") {
		t.Error("the licence notice of Fashion-MNIST is missing")
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		if _, err := Open(); err != nil {
			b.Fatal(err)
		}
	}
}
