package source

import (
	"os"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
)

// What is piped has no place among files.
func TestPiped(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, data := range []string{"csv:-", "npz:-"} {
		c := config.Config{Data: data}
		if path, err := Path(&c); path != datasets.Piped || c.DataDir != "" || err != nil {
			t.Errorf("%s: path %q, folder %q, %v", data, path, c.DataDir, err)
		}
		if absent := Absent(c); absent != "" {
			t.Errorf("%s: %s is said to be absent", data, absent)
		}
		if _, _, err := Open(&c, nil, false, datasets.Rank{Of: 2}); err == nil || !strings.Contains(err.Error(), "reaches one process alone, and this run has 2") {
			t.Errorf("%s, of two processes: %v", data, err)
		}
		c.DataDir = "d"
		if _, err := Path(&c); err == nil || !strings.Contains(err.Error(), "leave one of them out") {
			t.Errorf("%s with a folder: %v", data, err)
		}
		if got := CheckCommand(&config.Config{Data: data}); !strings.HasPrefix(got, "… | privgrad data verify "+data) {
			t.Errorf("%s is checked by %q", data, got)
		}
	}
	if err := os.WriteFile("-", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"csv:./-", "npz:./-", "dir:-"} { // files of that name
		c := config.Config{Data: data}
		if path, err := Path(&c); path == datasets.Piped || err != nil {
			t.Errorf("%s: path %q, %v", data, path, err)
		}
	}
}
