package trained_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/train"
	"github.com/privgrad/privgrad/trained"
)

// pictures writes a split as images in class folders.
func pictures(t *testing.T, dir string, names []string, s datasets.Split) {
	t.Helper()
	for _, name := range names {
		check(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for i, label := range s.Labels {
		picture(t, filepath.Join(dir, names[label], fmt.Sprintf("%03d.png", i)), s.Features[64*i:][:64], 1)
	}
}

// savez writes arrays as numpy.savez does: images of bytes or floats, and labels.
func savez(t *testing.T, path string, arrays map[string][]byte, kinds map[string]string) {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	for name, b := range arrays {
		w, err := z.Create(name + ".npy")
		check(t, err)
		shape := fmt.Sprintf("(%d,)", len(b))
		if name[0] == 'x' {
			width, err := strconv.Atoi(kinds[name][2:])
			check(t, err)
			shape = fmt.Sprintf("(%d, 8, 8)", len(b)/64/width)
		}
		head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kinds[name], shape)
		_, err = w.Write(append(append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0), head+string(b)...))
		check(t, err)
	}
	check(t, z.Close())
}

var bytesAndLabels = map[string]string{"x_test": "|u1", "y_test": "|u1"}

// like fails unless two evaluations have the same figures.
func like(t *testing.T, name string, got, want *trained.Evaluation) {
	t.Helper()
	if got.Examples != want.Examples || math.Abs(*got.Loss-*want.Loss) > 1e-9 || *got.Accuracy != *want.Accuracy || fmt.Sprint(got.Confusion, got.Classes) != fmt.Sprint(want.Confusion, want.Classes) {
		t.Errorf("%s: %d records, loss %v, accuracy %v, %v %v; want %d, %v, %v, %v %v", name, got.Examples, *got.Loss, *got.Accuracy, got.Classes, got.Confusion,
			want.Examples, *want.Loss, *want.Accuracy, want.Classes, want.Confusion)
	}
}

// contents are the files in a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	}))
	return all
}

// The same records give the same figures however they lie in files, with what the run made of its classes and images, and
// nothing is written into the run.
func TestEvaluateOn(t *testing.T) {
	set, home := bands(4), t.TempDir()
	t.Chdir(home)
	pictures(t, "photos/train", set.ClassNames, set.Train)
	pictures(t, "photos/test", set.ClassNames, set.Test)
	pictures(t, "fresh", set.ClassNames, set.Test)
	savez(t, "fresh.npz", map[string][]byte{"x_test": set.Test.Features, "y_test": set.Test.Labels}, bytesAndLabels)
	w, err := shards.Create("cut", set, 400, 2)
	check(t, err)
	check(t, errors.Join(w.Train(set.Train), w.Test(set.Test), w.Close()))
	for name, change := range map[string]func(c *train.Config){
		"plain":    func(*train.Config) {},
		"features": func(c *train.Config) { c.Features, c.Whiten, c.Mirror = "scatter", "none", true },
		"positive": func(c *train.Config) { c.Positive = "low" },
		"average":  func(c *train.Config) { c.Average = 0.5 },
	} {
		t.Run(name, func(t *testing.T) {
			dir, r := ran(t, set, func(c *train.Config, o *train.Options) {
				c.Data, c.ClassNames, c.ImageSize, c.PublicN, c.Delta, c.TestIsPublic, c.Model = "dir:photos", set.ClassNames, "8x8", new(400), new(1e-4), true, "logistic"
				change(c)
				o.Sources = nil
			})
			before := contents(t, dir)
			m, err := trained.Open(dir, trained.Options{Average: name == "average"})
			check(t, err)
			want, err := m.Evaluate()
			check(t, err)
			if name == "plain" && (*want.Accuracy != *r.TestAccuracy || *want.Accuracy < .5) {
				t.Errorf("accuracy %v, the run's %v", *want.Accuracy, *r.TestAccuracy)
			}
			all := []string{"dir:photos", "dir:fresh", "fresh", filepath.Join(home, "fresh"), "npz:fresh.npz"}
			if name != "positive" { // whose classes have other names, in another order
				all = append(all, "shards:cut")
			}
			for _, data := range all {
				got, err := m.EvaluateOn(data)
				if err != nil {
					t.Errorf("%s: %v", data, err)
					continue
				}
				like(t, data, got, want)
				if got.Dataset != data && data != "fresh" || got.Warnings != nil || got.Unfinished {
					t.Errorf("%s: %+v", data, got)
				}
			}
			if after := contents(t, dir); len(after) != len(before) {
				t.Errorf("the run has %d files, it had %d", len(after), len(before))
			} else {
				for path, text := range before {
					if after[path] != text {
						t.Errorf("%s changed", path)
					}
				}
			}
		})
	}
}

// A model of a published set is evaluated on images by the names of its classes, also of some.
func TestEvaluateOnOtherKind(t *testing.T) {
	set := bands(4)
	set.PerClass, set.Published = []int{100, 100, 100, 100}, true
	files := train.Source{
		Open:  func(string) (*datasets.Set, error) { return set, nil },
		Facts: func() *datasets.Set { f := *set; f.Train.Features, f.Train.Labels = nil, nil; return &f }, BuiltIn: true,
	}
	all := map[string]train.Source{"bands": files}
	dir, r := ran(t, set, func(c *train.Config, o *train.Options) { c.Model, c.Classes, o.Sources = "logistic", []int{3, 0}, all })
	t.Chdir(t.TempDir())
	pictures(t, "fresh", set.ClassNames, set.Test)
	m, err := trained.Open(dir, trained.Options{Sources: all})
	check(t, err)
	want, err := m.Evaluate()
	check(t, err)
	if *want.Accuracy != *r.TestAccuracy || want.Examples >= set.Test.Len() {
		t.Errorf("%+v, the run's accuracy %v", want, *r.TestAccuracy)
	}
	for _, data := range []string{"dir:fresh", "bands"} {
		got, err := m.EvaluateOn(data)
		check(t, err)
		like(t, data, got, want)
	}
}

// Data that the model cannot be judged on are refused, with what is wrong, and so are those that it was trained on.
func TestEvaluateOnRefuses(t *testing.T) {
	set := bands(4)
	t.Chdir(t.TempDir())
	pictures(t, "photos/train", set.ClassNames, set.Train)
	pictures(t, "untested/train", set.ClassNames, set.Test)
	pictures(t, "misnamed", []string{"TOP", "HIGH", "LOW", "BOTTOM"}, set.Test)
	x, y := set.Test.Features, set.Test.Labels
	savez(t, "trains.npz", map[string][]byte{"x_train": x, "y_train": y}, map[string]string{"x_train": "|u1", "y_train": "|u1"})
	savez(t, "unlabeled.npz", map[string][]byte{"x_test": x}, bytesAndLabels)
	savez(t, "floats.npz", map[string][]byte{"x_test": make([]byte, 256), "y_test": {0}}, map[string]string{"x_test": "<f4", "y_test": "|u1"})
	savez(t, "none.npz", map[string][]byte{"x_test": {}, "y_test": {}}, bytesAndLabels)
	two := bands(2)
	w, err := shards.Create("two", two, 400, 1)
	check(t, err)
	check(t, errors.Join(w.Train(two.Train), w.Test(two.Test), w.Close()))
	small := bands(4)
	small.Train = datasets.Split{Shape: [3]int{1, 4, 4}, Features: make([]uint8, 16), Labels: []uint8{0}}
	small.Test = small.Train
	w, err = shards.Create("small", small, 400, 1)
	check(t, err)
	check(t, errors.Join(w.Train(small.Train), w.Test(small.Test), w.Close()))
	dir, _ := ran(t, set, func(c *train.Config, o *train.Options) {
		c.Data, c.ClassNames, c.ImageSize, c.PublicN, c.Delta, c.Model = "dir:photos", set.ClassNames, "8x8", new(400), new(1e-4), "logistic"
		o.Sources = nil
	})
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	moved, err := trained.Open(dir, trained.Options{DataDir: "photos"})
	check(t, err)
	if e, err := moved.EvaluateOn("dir:train"); err == nil || !strings.Contains(err.Error(), "has the images that the model was trained on") {
		t.Errorf("by another path: %+v, %v", e, err)
	}
	for data, says := range map[string]string{
		"dir:photos":        "has images to train on, and none to test on",
		"dir:untested":      "has images to train on, and none to test on",
		"dir:photos/train":  "has the images that the model was trained on",
		"dir:misnamed":      "has no images in folders of the classes top, high, low, bottom",
		"dir:nowhere":       "there is no folder",
		"npz:trains.npz":    "x_test is not there",
		"npz:unlabeled.npz": "y_test is not there",
		"npz:floats.npz":    "another type",
		"npz:none.npz":      "has no test records",
		"npz:nowhere.npz":   "there is no such file",
		"shards:two":        "has the classes top, high, the model of " + dir + " knows top, high, low, bottom",
		"shards:small":      "has records of 1x4x4, the model of " + dir + " reads 1x8x8",
		"mnist":             "--data-dir",
		"dri:photos":        "did you mean dir:?",
	} {
		var u *train.UsageError
		if e, err := m.EvaluateOn(data); !errors.As(err, &u) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v; want %q", data, e, err, says)
		}
	}
}

// Records of another table are judged by the model's schema, all of them; of the table that it was trained on, only those
// that its schema holds out.
func TestEvaluateOnTable(t *testing.T) {
	t.Chdir(t.TempDir())
	random := rand.New(rand.NewPCG(3, 4))
	table := func(path string, n int) (labels []string) {
		text := "age,ward,back\n"
		for range n {
			age := 20 + random.IntN(50)
			label := strconv.FormatBool(age > 45)
			labels = append(labels, label)
			text += fmt.Sprintf("%d,%s,%s\n", age, []string{"north", "south"}[random.IntN(2)], label)
		}
		check(t, os.WriteFile(path, []byte(text), 0o644))
		return labels
	}
	table("old.csv", 500)
	fresh := table("new.csv", 100)
	schema := "columns:\n  - {name: age, bounds: [20, 70]}\n  - {name: ward, categories: [north, south]}\nlabel: {column: back, classes: [\"false\", \"true\"]}\ntest_share: 0.2\ntest_is_public: true\n"
	check(t, os.WriteFile("old.csv.schema.yaml", []byte(schema), 0o644))
	dir, r := ran(t, bands(2), func(c *train.Config, o *train.Options) {
		c.Data, c.PublicN, c.Delta, c.Model, o.Sources = "csv:old.csv", new(500), new(1e-4), "logistic", nil
	})
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	want, err := m.Evaluate()
	check(t, err)
	check(t, os.Link("old.csv", "link.csv"))
	for _, data := range []string{"csv:old.csv", "csv:link.csv"} {
		got, err := m.EvaluateOn(data)
		check(t, err)
		like(t, data, got, want)
		if *got.Accuracy != *r.TestAccuracy || got.Examples > 200 {
			t.Errorf("%s: %+v", data, got)
		}
	}
	_, records, err := m.Read("new.csv")
	check(t, err)
	predictions, err := m.Predict(records)
	check(t, err)
	right := 0
	for i, p := range predictions {
		if p.Class == fresh[i] {
			right++
		}
	}
	got, err := m.EvaluateOn("new.csv")
	check(t, err)
	if got.Examples != 100 || *got.Accuracy != float64(right)/100 {
		t.Errorf("%+v, predicted right %d", got, right)
	}
	check(t, os.WriteFile("odd.csv", []byte("age,ward,back\n30,north,false\n31,north,perhaps\n"), 0o644))
	if got, err := m.EvaluateOn("odd.csv"); err != nil || got.Warnings == nil {
		t.Errorf("a label of no class: %+v, %v", got, err)
	}
	for path, text := range map[string]string{"cut.csv": "age,back\n30,false\n", "empty.csv": "age,ward,back\n"} {
		check(t, os.WriteFile(path, []byte(text), 0o644))
		if got, err := m.EvaluateOn(path); err == nil {
			t.Errorf("%s: %+v", path, got)
		}
	}

	folds, _ := ran(t, bands(2), func(c *train.Config, o *train.Options) {
		c.Data, c.PublicN, c.Delta, c.Model, c.Folds, c.Fold, o.Sources = "csv:old.csv", new(500), new(1e-4), "logistic", 5, 1, nil
	})
	m, err = trained.Open(folds, trained.Options{})
	check(t, err)
	if e, err := m.EvaluateOn("old.csv"); err == nil || !strings.Contains(err.Error(), "other folds") {
		t.Errorf("a fold: %+v, %v", e, err)
	}
	if e, err := m.EvaluateOn("new.csv"); err != nil || e.Examples != 100 {
		t.Errorf("%+v, %v", e, err)
	}
}

// A regression is evaluated on another table, and on no images.
func TestEvaluateOnRegression(t *testing.T) {
	t.Chdir(t.TempDir())
	table := func(path string, n int) {
		text := "x,y\n"
		for i := range n {
			text += fmt.Sprintf("%v,%v\n", float64(i)/float64(n), 3*float64(i)/float64(n))
		}
		check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	table("old.csv", 400)
	table("new.csv", 50)
	check(t, os.WriteFile("old.csv.schema.yaml", []byte("columns: [{name: x, bounds: [0, 1]}]\nlabel: {column: y, bounds: [0, 4]}\n"), 0o644))
	dir, _ := ran(t, bands(2), func(c *train.Config, o *train.Options) {
		c.Data, c.PublicN, c.Delta, o.Sources = "csv:old.csv", new(400), new(1e-4), nil
	})
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	e, err := m.EvaluateOn("csv:new.csv")
	if err != nil || e.Examples != 50 || e.Accuracy != nil || !(*e.Loss > 0) {
		t.Errorf("%+v, %v", e, err)
	}
	pictures(t, "photos", []string{"top", "high"}, bands(2).Test)
	for data, says := range map[string]string{"dir:photos": "has numbers for labels", "csv:old.csv": "has no test records by its schema"} {
		if e, err := m.EvaluateOn(data); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v", data, e, err)
		}
	}
}

// Class folders are read as each of their files is, by their paths.
func TestReadClassFolders(t *testing.T) {
	set := bands(4)
	dir, _ := ran(t, set, func(c *train.Config, _ *train.Options) { c.Model = "logistic" })
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	t.Chdir(t.TempDir())
	pictures(t, "photos/test", set.ClassNames, set.Test)
	picture(t, "photos/a.png", set.Train.Features[:64], 1)
	check(t, os.MkdirAll("photos/.thumbnails", 0o755))
	picture(t, "photos/.thumbnails/b.png", set.Train.Features[:64], 1)
	check(t, os.WriteFile("photos/test/top/notes.txt", nil, 0o644))
	check(t, os.Symlink("photos", "link"))
	names, records, err := m.Read("photos")
	check(t, err)
	if len(names) != 61 || names[0] != "photos/a.png" || !slices.IsSorted(names[1:]) || !strings.HasPrefix(names[1], "photos/test/bottom/") {
		t.Errorf("names %q", names)
	}
	all, err := m.Predict(records)
	check(t, err)
	for i, name := range names {
		_, one, err := m.Read(name)
		check(t, err)
		p, err := m.Predict(one)
		check(t, err)
		if fmt.Sprint(p[0]) != fmt.Sprint(all[i]) {
			t.Errorf("%s: %v alone, %v in its folder", name, p[0], all[i])
		}
	}
	if _, linked, err := m.Read("link"); err != nil || !bytes.Equal(linked.Bytes, records.Bytes) {
		t.Errorf("by a link: %v", err)
	}
	check(t, os.WriteFile("x.npz", []byte("PK"), 0o644))
	for path, says := range map[string]string{"x.npz": "numpy.save(", "photos/.thumbnails/none": "no such file"} {
		if _, _, err := m.Read(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// stopping ends a run after some steps.
type stopping struct {
	after int
	stop  func()
}

func (stopping) Start(int) {}
func (s stopping) Step(done int, _, _ *float64) {
	if done >= s.after {
		s.stop()
	}
}
func (stopping) Finish() {}

// A run that was interrupted is called unfinished, with how far it is, until it has been resumed.
func TestUnfinished(t *testing.T) {
	for name, change := range map[string]func(c *train.Config){
		"steps":  func(*train.Config) {},
		"epochs": func(c *train.Config) { c.Steps, c.Epochs = nil, new(5.0) },
		"filtered": func(c *train.Config) {
			c.Optimizer, c.LR, c.Search = "dp-blsgd", new(2.0), train.Search{Budget: "never", Iterations: new(40)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			set := bands(4)
			c := train.Default()
			c.Data, c.NoiseMultiplier, c.Batch, c.Steps, c.LR, c.Threads, c.Model = "bands", new(1.0), new(100.0), new(20), new(1.0), 1, "logistic"
			if change(&c); c.Optimizer != "dp-sgd" {
				c.NoiseMultiplier, c.Epsilon, c.Delta = nil, new(2.0), new(1e-4)
			}
			at := 7
			if name == "filtered" { // its progress is that of its budget
				at = 0
			}
			o := train.Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run"), Progress: stopping{at, stop}}
			_, stopped := train.Run(ctx, c, o)
			if !errors.Is(stopped, train.ErrInterrupted) {
				t.Fatalf("not interrupted: %v", stopped)
			}
			m, err := trained.Open(o.Out, trained.Options{Sources: sources(set)})
			check(t, err)
			after := "after 7 of 20 steps"
			if name == "filtered" { // neither are its steps counted in advance
				after = regexp.MustCompile("after [0-9]+ steps").FindString(stopped.Error())
			}
			want := "is unfinished: its model is that " + after + "; continue it by `privgrad resume " + o.Out + "`"
			if after == "" || !strings.Contains(stopped.Error(), after) {
				t.Errorf("the run says %v", stopped)
			}
			if got := m.Unfinished(); !strings.HasSuffix(got, want) {
				t.Errorf("it says %q, want %q", got, want)
			}
			e, err := m.Evaluate()
			check(t, err)
			if text, err := json.Marshal(e); err != nil || !strings.Contains(string(text), `"unfinished":true`) {
				t.Errorf("%s, %v", text, err)
			}
			o.Resume, o.Progress = train.ResumeRun, nil
			_, err = train.Run(context.Background(), c, o)
			check(t, err)
			e, err = m.Evaluate()
			check(t, err)
			if text, err := json.Marshal(e); err != nil || m.Unfinished() != "" || strings.Contains(string(text), "unfinished") {
				t.Errorf("finished: %q, %s, %v", m.Unfinished(), text, err)
			}
		})
	}
}

// A model file with a value that is not finite is refused by the name of its tensor.
func TestOpenNotFinite(t *testing.T) {
	dir, _ := ran(t, bands(4), func(c *train.Config, _ *train.Options) { c.Model, c.Average = "logistic", 0.9 })
	for _, average := range []bool{false, true} {
		path := filepath.Join(dir, map[bool]string{false: "model.safetensors", true: "model-average.safetensors"}[average])
		b, err := os.ReadFile(path)
		check(t, err)
		copy(b[len(b)-4:], "\x00\x00\x80\xff")
		check(t, os.WriteFile(path, b, 0o644))
		var u *train.UsageError
		if _, err := trained.Open(dir, trained.Options{Average: average}); !errors.As(err, &u) || !strings.Contains(err.Error(), `tensor "fc1.bias"`) || !strings.Contains(err.Error(), "not finite") {
			t.Errorf("average %v: %v", average, err)
		}
	}
}
