package l2p

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is shipped can be used, says how it was made, and has the name of its file.
func TestShipped(t *testing.T) {
	all, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Card.Name)
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(p.Card.Recipe, "privgrad l2p train ") || p.Card.Summary == "" || len(p.Card.Tasks) == 0 {
			t.Errorf("%s: card %+v", p.Card.Name, p.Card)
		}
		path := filepath.Join(t.TempDir(), "copy.safetensors")
		if err := p.Write(path); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{p.Card.Name, path} {
			found, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(found.Projector, p.Projector) || !slices.Equal(found.Scheduler, p.Scheduler) {
				t.Errorf("%s: other weights", name)
			}
		}
	}
	if !slices.Equal(names, []string{"mnist", "quadratic"}) {
		t.Errorf("shipped: %v", names)
	}
	if _, err := Find("none"); err == nil || !strings.Contains(err.Error(), "choose one of mnist, quadratic") {
		t.Errorf("unknown name: %v", err)
	}
}

// The protector of digits has seen all but 3 and 5.
func TestShippedDigits(t *testing.T) {
	p, err := Find("mnist")
	if err != nil {
		t.Fatal(err)
	}
	for digit := range 10 {
		if seen := p.Card.Overlap("mnist", []int{digit}) != ""; seen != (digit != 3 && digit != 5) {
			t.Errorf("digit %d: overlap %v", digit, seen)
		}
	}
	if p.Card.Overlap("mnist", nil) == "" || p.Card.Overlap("fmnist", nil) != "" {
		t.Error("overlap with all of MNIST, and with Fashion-MNIST")
	}
}
