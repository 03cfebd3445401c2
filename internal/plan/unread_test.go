package plan

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
)

// A file that is there and cannot be read is called that, whatever it should hold: one without the right to read it,
// and, what root meets as well, a folder in its place.
func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	_, err := z.Create("x_train.npy")
	check(t, err)
	check(t, z.Close())
	const schema = "columns: [{name: x, bounds: [0, 1]}]\nlabel: {column: y, classes: [a, b]}\n"
	write("t.csv.schema.yaml", schema)
	write("u.csv", "x,y\n1,a\n")
	write("v.csv.schema.yaml", schema)
	set := made(1, 40)
	w, err := shards.Create(filepath.Join(dir, "s"), set, 40, 1)
	check(t, err)
	check(t, w.Train(set.Train))
	check(t, w.Test(set.Test))
	check(t, w.Close())
	shard, err := filepath.Glob(filepath.Join(dir, "s", "*0*"))
	if err != nil || len(shard) == 0 {
		t.Fatal(err)
	}
	for _, x := range []struct{ data, file string }{
		{"csv:t.csv", write("t.csv", "x,y\n1,a\n")},
		{"csv:u.csv", write("u.csv.schema.yaml", schema)},
		{"csv:v.csv", write("v.csv.gz", "")},
		{"npz:a.npz", write("a.npz", archive.String())},
		{"npz:b.npz", write("b.npz.classes.txt", "a\nb\n")},
		{"shards:s", filepath.Join(dir, "s", "index.json")},
		{"shards:s", shard[0]},
		{"mnist", write("train-images-idx3-ubyte", "")},
		{"mnist", write("train-images-idx3-ubyte.gz", "")},
		{"-c", write("yaml", "steps: 3\n")},
	} {
		open := func() error {
			if x.data == "-c" {
				return config.Read(x.file, &config.Config{})
			}
			c := config.Config{Data: x.data, DataDir: dir}
			if strings.HasPrefix(x.data, "npz:a") {
				c.ClassNames = []string{"a", "b"}
			}
			_, _, err := source.OpenData(&c, source.Sources())
			return err
		}
		write("b.npz", archive.String())
		for want, spoil := range map[string]func(aside string) error{
			"permission denied": func(string) error { return os.Chmod(x.file, 0) },
			"is a directory|not a regular file": func(aside string) error {
				if err := os.Rename(x.file, aside); err != nil {
					return err
				}
				return os.Mkdir(x.file, 0o755)
			},
		} {
			if want == "permission denied" && os.Geteuid() == 0 {
				continue // root may read all files
			}
			aside := filepath.Join(t.TempDir(), "aside")
			check(t, spoil(aside))
			err := open()
			one, other, both := strings.Cut(want, "|")
			if err == nil || !strings.Contains(err.Error(), one) && !(both && strings.Contains(err.Error(), other)) || !strings.Contains(err.Error(), strings.TrimSuffix(filepath.Base(x.file), ".gz")) {
				t.Errorf("%s: %v, want %q", x.file, err, want)
			}
			for _, wrong := range []string{"savez writes", "does not exist", "there is no", "neither", "is no shard", "is damaged", "not gzip"} {
				if err != nil && strings.Contains(err.Error(), wrong) {
					t.Errorf("%s: %v", x.file, err)
				}
			}
			if both {
				check(t, os.Remove(x.file))
				check(t, os.Rename(aside, x.file))
			} else {
				check(t, os.Chmod(x.file, 0o644))
			}
		}
		if x.data == "mnist" {
			check(t, os.Remove(x.file))
		}
	}
}

// Public test records that cannot be used are named, the first of many; what is known of them takes the place of
// a guess.
func TestFaultsOfTestRecords(t *testing.T) {
	set := &datasets.Set{Classes: 3, Test: datasets.Split{Labels: []uint8{0, 255, 1, 9, 2, 2}}, TestFaults: map[int]string{1: "cat.png is a GIF image", 4: "x_test[4] has a value that is not finite"}}
	want := []string{
		"1 of 6 public test records cannot be used, and are left out of the accuracy: cat.png is a GIF image",
		"1 of 6 public test records have a label that is none of the 3 classes, and are left out of the accuracy (labels of arrays, and these records, are numbered from 0; labels of tables are listed in the schema): record 3",
		"1 of 6 public test records are damaged, and count as they are: x_test[4] has a value that is not finite",
	}
	if got := source.Unusable(set); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q", got)
	}
	set.TestFaults = nil
	set.Test.Labels = bytes.Repeat([]byte{9}, 8)
	if got := source.Unusable(set); len(got) != 1 || !strings.HasSuffix(got[0], ": record 0; record 1; record 2; record 3; record 4; and 3 more") {
		t.Errorf("%q", got)
	}
}
