package cmd

import (
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
		check(t, os.MkdirAll(filepath.Dir(name), 0o755))
		f, err := os.Create(name)
		if err == nil {
			err = png.Encode(f, image.NewGray(image.Rect(0, 0, 5, 5)))
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	check(t, os.WriteFile("p/train/no/bad.png", []byte("damaged"), 0o644))
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
	// Every command reads a list as train does, and a class file as every editor writes it.
	check(t, os.WriteFile("p/classes.txt", []byte("\xef\xbb\xbfno\r\nyes\r\n"), 0o644))
	for out, more := range map[string][]string{"listed": {"--class-names", " no, yes"}, "filed": nil} {
		args := append([]string{"data", "shard", "dir:p", "--image-size", "08x08", "--public-n", "03", "--shards", "1", "--out", out}, more...)
		ok(t, args...)
		if got := ok(t, "data", "verify", "shards:"+out); !strings.Contains(got, "verdict: each listed class has records") {
			t.Errorf("shards of classes that are %s:\n%s", out, got)
		}
	}
	check(t, os.Remove("p/classes.txt"))
	fails(t, cli.ExitUsage, []string{"data", "verify", "fmnist", "--image-size", "8x8"}, "leave out --class-names and --image-size")
	fails(t, cli.ExitUsage, []string{"data", "verify", "dir:p", "--schema", "s.yaml"}, "leave out --schema")
	if r := privgrad("data", "verify", "dir:p"); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "--class-names") {
		t.Errorf("without classes: exit %d, %s", r.code, r.stderr)
	}

	misspelled := []string{"dir:p", "--class-names", "no,yess", "--image-size", "8x8"}
	r := privgrad(append([]string{"data", "verify"}, misspelled...)...)
	if !strings.Contains(r.stdout, "verdict: the classes do not match: class yess has no training record; class yess has no test record; train has a folder yes that") ||
		r.code != cli.ExitFailed || !strings.Contains(r.stderr, "do not match the listed classes") {
		t.Errorf("a misspelled class: %+v", r)
	}
	if !strings.Contains(human, "verdict: each listed class has records") {
		t.Errorf("there is no verdict:\n%s", human)
	}
	if text := ok(t, append([]string{"data", "verify", "--json"}, misspelled...)...); strings.Contains(text, "match") {
		t.Errorf("JSON holds what is private: %s", text)
	}
	dry := privgrad(append([]string{"train", "--features", "scatter", "--model", "logistic", "--public-n", "100", "--delta", "1e-4", "--noise-multiplier", "1", "--batch", "10",
		"--steps", "3", "--dry-run", "--data", "dir:p"}, declared...)...)
	if dry.code != cli.ExitDone || !strings.Contains(dry.stderr, "measuring the time of some steps on made-up records") || strings.Contains(dry.stderr, "%\n") {
		t.Errorf("a dry run does not say what it does, or makes features: %+v", dry)
	}
	const warning = "the public test folder has no images of class yess, and has a folder yes that --class-names does not list: is a name misspelled?"
	for out, more := range map[string][]string{"a": {"--dry-run"}, "b": {"--dry-run", "--test-is-public"}, "c": nil, "d": {"--test-is-public"}} {
		args := append([]string{"train", "--model", "logistic", "--public-n", "100", "--delta", "1e-4", "--noise-multiplier", "1", "--batch", "10", "--steps", "3", "--out", out, "--data"}, misspelled...)
		r := privgrad(append(args, more...)...)
		if public := slices.Contains(more, "--test-is-public"); r.code != cli.ExitDone || strings.Contains(r.stderr, warning) != public {
			t.Errorf("%v: exit %d, said %q", more, r.code, r.stderr)
		}
	}
	fails(t, cli.ExitUsage, []string{"data", "verify", "p", "--class-names", "no,yes"}, "which is a folder (did you mean dir:p?)")
	fails(t, cli.ExitUsage, []string{"train", "--data", "dir:p", "--class-names", "no,", "yes"}, "no spaces after commas")
	fails(t, cli.ExitUsage, []string{"data", "verify", "dir:p", "--class-names", "no,", "yes"}, "no spaces after commas")

	run := append([]string{"train", "--data", "dir:p", "--model", "logistic", "--public-n", "100", "--delta", "1e-4", "--test-is-public",
		"--noise-multiplier", "1", "--batch", "10", "--steps", "3", "--out", "run"}, declared...)
	if out := ok(t, run...); strings.Contains(out, "bad") {
		t.Errorf("training tells of a damaged image:\n%s", out)
	}
	one, both := predictionsOf(t, "run", "p/test/yes/4.png"), predictionsOf(t, "run", "p/test/no/3.png", "p/test/yes")
	if len(one) != 1 || len(both) != 2 || !reflect.DeepEqual(both[1], one[0]) || both[0].Name != "p/test/no/3.png" {
		t.Errorf("several images: %+v, one: %+v", both, one)
	}
	fails(t, cli.ExitUsage, []string{"predict", "run", "p/test/yes/4.png", "p/none.png"}, "p/none.png cannot be read")
	t.Chdir(t.TempDir())
	if out := ok(t, "eval", filepath.Join(home, "run")); !strings.Contains(out, "2 test records of dir:p") {
		t.Errorf("eval from elsewhere says\n%s", out)
	}
	check(t, os.Rename(filepath.Join(home, "p", "test"), filepath.Join(home, "p", "other")))
	fails(t, cli.ExitUsage, []string{"eval", filepath.Join(home, "run")}, "test-is-public")
	fails(t, cli.ExitUsage, []string{"eval", filepath.Join(home, "c")}, "has no test records to evaluate")
	check(t, os.Rename(filepath.Join(home, "p", "other"), filepath.Join(home, "p", "test")))
	ok(t, "train", "-c", filepath.Join(home, "run", "config.yaml"), "--out", "again")
	// A damaged test image is named where it is public, and never one to train on.
	check(t, os.WriteFile(filepath.Join(home, "p", "test", "no", "odd.png"), []byte("GIF89a"), 0o644))
	for public, want := range map[string]bool{"--test-is-public": true, "--test-is-public=false": false} {
		r := privgrad("train", "-c", filepath.Join(home, "run", "config.yaml"), public, "--out", "odd"+public)
		named := strings.Contains(r.stderr, "1 of 3 public test records cannot be used, and are left out of the accuracy: "+filepath.Join(home, "p", "test", "no", "odd.png")+" is a GIF image: convert it")
		if r.code != cli.ExitDone || named != want || !want && strings.Contains(r.stderr+r.stdout, ".png") || strings.Contains(r.stderr+r.stdout, "bad.png") {
			t.Errorf("%s: %+v", public, r)
		}
	}
	// Other data do not lie where those of the file did.
	fails(t, cli.ExitUsage, []string{"train", "-c", filepath.Join(home, "run", "config.yaml"), "--data", "dir:q", "--out", "other"}, filepath.Join("q", "train"))
}
