package train

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/numpy"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/trained"
)

// makeFolders writes image folders to p of the working directory: dark images are of class
// no, light ones of class yes. A share of the training images is damaged in several ways.
func makeFolders(t *testing.T, seed uint64, images int, damaged float64) {
	t.Helper()
	write := func(data []byte, elem ...string) {
		name := filepath.Join(elem...)
		check(t, os.MkdirAll(filepath.Dir(name), 0o755))
		check(t, os.WriteFile(name, data, 0o644))
	}
	random := rand.New(rand.NewPCG(seed, 5))
	draw := func(split string, n int, damaged float64) {
		for i := range n {
			class := random.IntN(2)
			img := image.NewRGBA(image.Rect(0, 0, 4+random.IntN(6), 6))
			for y := range 6 {
				for x := range img.Rect.Dx() {
					img.Set(x, y, color.Gray{uint8(90*class + random.IntN(140))})
				}
			}
			var b bytes.Buffer
			check(t, png.Encode(&b, img))
			data, name := b.Bytes(), fmt.Sprint(i, ".png")
			if random.Float64() < damaged {
				switch random.IntN(4) {
				case 0:
					data = data[:random.IntN(len(data))]
				case 1:
					copy(data[16:], "\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f") // too large
				case 2:
					data = nil
				case 3:
					name = fmt.Sprint(i, ".png/1.png") // a folder, and no record
				}
			}
			write(data, "p", split, []string{"no", "yes"}[class], name)
		}
	}
	draw("train", images, damaged)
	random = rand.New(rand.NewPCG(99, 5)) // the test images are the same for all
	draw("test", 60, 0)
	write([]byte("no\nyes\nnone\n"), "p", "classes.txt")
	if damaged > 0 {
		write([]byte("?"), "p", "train", "unlisted", "1.png")
		check(t, os.Symlink("../no", filepath.Join("p", "train", "none")))
	}
}

// makeArrays writes arrays like the images to a.npz, a share of them with labels that are
// no class and values that are not finite.
func makeArrays(t *testing.T, seed uint64, records int, damaged float64) {
	t.Helper()
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	random := rand.New(rand.NewPCG(seed, 6))
	split := func(name string, n int, damaged float64) {
		x, y := []float32{}, []int64{}
		for range n {
			class := random.IntN(2)
			values := make([]float32, 64)
			for i := range values {
				values[i] = float32(0.6*float64(2*class-1) + 0.8*random.Float64() - 0.4)
			}
			label := int64(class)
			if random.Float64() < damaged {
				if label = int64(random.IntN(2000) - 1000); label%2 == 0 {
					label, values[random.IntN(64)] = 1, float32(math.Inf(1))
				}
			}
			x, y = append(x, values...), append(y, label)
		}
		for _, a := range []struct {
			name, kind, shape string
			values            any
		}{{"x_" + name, "<f4", fmt.Sprint(n, ", 8, 8"), x}, {"y_" + name, "<i8", fmt.Sprint(n, ","), y}} {
			w, err := z.Create(a.name + ".npy")
			check(t, err)
			text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", a.kind, a.shape)
			_, err = fmt.Fprintf(w, "\x93NUMPY\x01\x00%s%s", binary.LittleEndian.AppendUint16(nil, uint16(len(text))), text)
			check(t, err)
			check(t, binary.Write(w, binary.LittleEndian, a.values))
		}
	}
	split("train", records, damaged)
	random = rand.New(rand.NewPCG(99, 6))
	split("test", 60, 0)
	check(t, z.Close())
	check(t, os.WriteFile("a.npz", file.Bytes(), 0o644))
	check(t, os.WriteFile("a.npz.classes.txt", []byte("no\nyes\nnone\n"), 0o644))
}

// makeShards writes arrays as shards to s, of which the last one holds what is left over.
func makeShards(t *testing.T, seed uint64, records int, damaged float64) {
	t.Helper()
	makeArrays(t, seed, records, damaged)
	set, err := numpy.Form.Open("a.npz", datasets.Declared{Size: "8x8"})
	check(t, err)
	check(t, os.Remove("a.npz"))
	set.Name, set.Reading = "s", ""
	w, err := shards.Create("s", set, 300, 3)
	check(t, err)
	check(t, w.Train(set.Train))
	check(t, w.Test(set.Test))
	check(t, w.Close())
}

// ownData is a short private run on such data.
func ownData(data string) Config {
	c := Default()
	c.Data, c.ImageSize, c.Model, c.PublicN, c.Delta, c.TestIsPublic = data, "8x8", "logistic", ptr(300), ptr(1e-4), true
	c.NoiseMultiplier, c.Batch, c.Steps, c.LR, c.Threads = ptr(1.0), ptr(60.0), ptr(25), ptr(0.3), 1
	return c
}

// Images and arrays that differ in every record, in their number and in what is damaged,
// behind one transcript of releases, leave the same bytes and show the same. A run resumes
// and is evaluated from elsewhere, by what its directory holds.
func TestOwnData(t *testing.T) {
	for name, test := range map[string]struct {
		make   func(t *testing.T, seed uint64, records int, damaged float64)
		change func(*Config)
	}{
		"dir:p":     {makeFolders, func(*Config) {}},
		"npz:a.npz": {makeArrays, func(*Config) {}},
		"shards:s":  {makeShards, func(*Config) {}},
		"dir:p, a class, features": {makeFolders, func(c *Config) {
			c.Data, c.Positive, c.Features, c.Whiten, c.ImageSize = "dir:p", "yes", "scatter", "pink", "3x8x8"
			c.LR, c.Clip = ptr(0.05), 6.0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			config := ownData(name)
			test.change(&config)
			var result *Result
			_, wrote := dataReplayed(t, config, func(i int, damaged float64) { test.make(t, uint64(i), 300-95*i, damaged) }, func(r *Result) {
				if !r.Guarantee || r.PublicN != 300 {
					t.Errorf("N = %d, no guarantee: %v", r.PublicN, r.NoGuarantee)
				}
				if r.TestAccuracy == nil || *r.TestAccuracy < 0.8 {
					t.Errorf("test accuracy %v", show(r.TestAccuracy))
				}
				result = r
			})
			for _, name := range reports {
				if _, ok := wrote[name]; !ok {
					t.Errorf("the run wrote no %s", name)
				}
			}

			home, err := filepath.Abs("run")
			check(t, err)
			t.Chdir(t.TempDir())
			e, err := evaluated(home, trained.Options{Device: "cpu", Threads: 1})
			check(t, err)
			if e.Examples != 60 || *e.Accuracy != *result.TestAccuracy {
				t.Errorf("from elsewhere accuracy %v on %d records, training said %v", *e.Accuracy, e.Examples, *result.TestAccuracy)
			}
		})
	}
}

// A run on image folders that was killed goes on by its stored configuration, from
// another directory, and not with other classes.
func TestOwnDataResumes(t *testing.T) {
	t.Chdir(t.TempDir())
	makeFolders(t, 1, 200, 0.1)
	home, err := os.Getwd()
	check(t, err)
	out := filepath.Join(home, "run")
	_, o := stopAt(t, Options{Out: out, block: 5}, 12, false)
	ends(context.Background(), t, ownData("dir:p"), o, errCrash)
	t.Chdir(t.TempDir())
	c := Default()
	check(t, ReadConfig(filepath.Join(out, "config.yaml"), &c))
	if c.DataDir != home || c.ImageSize != "1x8x8" || !slices.Equal(c.ClassNames, []string{"no", "yes", "none"}) {
		t.Errorf("the configuration keeps directory %s, size %s, classes %v", c.DataDir, c.ImageSize, c.ClassNames)
	}
	other := c
	other.ClassNames = []string{"yes", "no", "none"}
	var refused *UsageError
	if _, err := Run(context.Background(), other, Options{Out: out, Resume: ResumeRun}); !errors.As(err, &refused) {
		t.Errorf("with other classes: %v", err)
	}
	r := finished(t, c, Options{Out: out, Resume: ResumeRun})
	if *r.Committed != 25 || r.Steps < 15 || r.Steps >= 25 || !r.Guarantee {
		t.Errorf("%d of %d steps, guarantee %v", r.Steps, *r.Committed, r.Guarantee)
	}
}
