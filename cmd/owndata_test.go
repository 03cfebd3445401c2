package cmd

import (
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// From image folders to a run, its evaluation elsewhere and its repetition, by what
// directories keep; the owner alone is told of damaged images.
func TestImageFolders(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	for _, name := range []string{"train/no/1.png", "train/yes/2.png", "test/no/3.png", "test/yes/4.png"} {
		name = filepath.Join("p", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(name)
		if err == nil {
			err = png.Encode(f, image.NewGray(image.Rect(0, 0, 5, 5)))
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("p/train/no/bad.png", []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	declared := []string{"--class-names", "no,yes", "--image-size", "8x8"}
	human := ok(t, append([]string{"data", "verify", "dir:p"}, declared...)...)
	before, after, banner := strings.Cut(human, "*** PRIVATE")
	if !banner || strings.Contains(before, "bad.png") || !strings.Contains(after, "bad.png") {
		t.Errorf("what is private is not under the banner:\n%s", human)
	}
	text := ok(t, append([]string{"data", "verify", "dir:p", "--json"}, declared...)...)
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil || v["ok"] != true || len(v) != 6 || strings.Contains(text, "bad") {
		t.Errorf("%v: %s", err, text)
	}
	fails(t, cli.ExitUsage, []string{"data", "verify", "fmnist", "--image-size", "8x8"}, "leave out --class-names and --image-size")
	fails(t, cli.ExitUsage, []string{"data", "verify", "dir:p", "--schema", "s.yaml"}, "leave out --schema")
	if r := privgrad("data", "verify", "dir:p"); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "--class-names") {
		t.Errorf("without classes: exit %d, %s", r.code, r.stderr)
	}

	run := append([]string{"train", "--data", "dir:p", "--model", "logistic", "--public-n", "100", "--delta", "1e-4", "--test-is-public",
		"--noise-multiplier", "1", "--batch", "10", "--steps", "3", "--out", "run"}, declared...)
	if out := ok(t, run...); strings.Contains(out, "bad") {
		t.Errorf("training tells of a damaged image:\n%s", out)
	}
	t.Chdir(t.TempDir())
	if out := ok(t, "eval", filepath.Join(home, "run")); !strings.Contains(out, "2 test records of dir:p") {
		t.Errorf("eval from elsewhere says\n%s", out)
	}
	ok(t, "train", "-c", filepath.Join(home, "run", "config.yaml"), "--out", "again")
	// Other data do not lie where those of the file did.
	fails(t, cli.ExitUsage, []string{"train", "-c", filepath.Join(home, "run", "config.yaml"), "--data", "dir:q", "--out", "other"}, filepath.Join("q", "train"))
}
