package cmd

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/nn"
)

// Networks of a program's own have names that no other model has.
func TestOptions(t *testing.T) {
	build := func(o nn.Options) (*nn.Model, error) { return nn.Build("mlp-small", o) }
	check(t, (Options{Networks: map[string]nn.Builder{"options-b": build, "options-a": build}}).register())
	if !nn.Registered("options-a") || !nn.Registered("options-b") {
		t.Error("a network is not known")
	}
	for _, name := range []string{"options-a", "cnn-mnist", ""} {
		if err := (Options{Networks: map[string]nn.Builder{name: build}}).register(); err == nil || !strings.Contains(err.Error(), "network") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
