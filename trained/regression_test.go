package trained_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/train"
	"github.com/privgrad/privgrad/trained"
)

// priced trains a regression in the working directory: on t.csv, with labels from 100 to 500.
func priced(t *testing.T) string {
	t.Helper()
	text := "x,y\n"
	for i := range 400 {
		text += fmt.Sprintf("%v,%d\n", float64(i)/400, 100+i)
	}
	check(t, os.WriteFile("t.csv", []byte(text), 0o644))
	schema(t, "t.csv", 500)
	dir, _ := ran(t, bands(2), func(c *train.Config, o *train.Options) {
		c.Data, c.PublicN, c.Delta, o.Sources = "csv:t.csv", new(400), new(1e-4), nil
	})
	return dir
}

// schema is that of a table whose labels are at most high.
func schema(t *testing.T, path string, high int) {
	t.Helper()
	text := fmt.Sprintf("columns: [{name: x, bounds: [0, 1]}]\nlabel: {column: y, bounds: [100, %d]}\ntest_share: 0.2\ntest_is_public: true\n", high)
	check(t, os.WriteFile(path+".schema.yaml", []byte(text), 0o644))
}

// predicted are the values of a model for two records.
func predicted(t *testing.T, dir string) [2]float64 {
	t.Helper()
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	all, err := m.Predict(features.Images{Values: []float32{0.25, 0.75}})
	check(t, err)
	return [2]float64{all[0].Logits[0], all[1].Logits[0]}
}

// Values are in the units of the label, whatever became of the schema. A file of an earlier version says nothing of bounds, and a
// damaged one is refused.
func TestRegressionUnits(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := priced(t)
	file := filepath.Join(dir, "model.safetensors")
	tensors, facts, err := trained.ReadTensors(file)
	check(t, err)
	if facts["label_bounds"] != "[100,500]" {
		t.Errorf("label_bounds %q", facts["label_bounds"])
	}
	weight, bias := float64(tensors[0].Data[0]), float64(tensors[1].Data[0])
	want := [2]float64{100 + 400*(0.25*weight+bias), 100 + 400*(0.75*weight+bias)}
	schema(t, "t.csv", 900)
	same := func(when string) {
		t.Helper()
		if got := predicted(t, dir); math.Abs(got[0]-want[0]) > 1e-9 || math.Abs(got[1]-want[1]) > 1e-9 {
			t.Errorf("%s: values %v, want %v", when, got, want)
		}
	}
	same("as it is")
	rewrite(t, file, func(head map[string]any) { delete(head["__metadata__"].(map[string]any), "label_bounds") })
	same("of an earlier version")
	for _, bad := range []string{"[500,100]", "[1]", "[1,1]", "x", "[-1e308,1e308]"} {
		rewrite(t, file, func(head map[string]any) { head["__metadata__"].(map[string]any)["label_bounds"] = bad })
		if _, err := trained.Open(dir, trained.Options{}); err == nil || !strings.Contains(err.Error(), "label_bounds") {
			t.Errorf("label_bounds %s: %v", bad, err)
		}
	}
	// As float32 these bounds are infinite.
	rewrite(t, file, func(head map[string]any) { head["__metadata__"].(map[string]any)["label_bounds"] = "[0,1e300]" })
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	if err := m.ExportONNX(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "float32") {
		t.Errorf("exported: %v", err)
	}
}

// Labels of other bounds would be compared with values of another scale.
func TestEvaluateOnOtherBounds(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := priced(t)
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	for high, says := range map[int]string{500: "", 900: "has labels within the bounds [100 900]"} {
		schema(t, "t.csv", high)
		set, err := tabular.Open("t.csv", tabular.Options{})
		check(t, err)
		if set.Bounds != (datasets.Bounds{100, float64(high)}) {
			t.Errorf("bounds %v", set.Bounds)
		}
		to := fmt.Sprintf("shards%d", high)
		w, err := shards.Create(to, set, 400, 1)
		check(t, err)
		check(t, errors.Join(w.Train(set.Train), w.Test(set.Test), w.Close()))
		e, err := m.EvaluateOn("shards:" + to)
		switch {
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("bounds up to %d: %v, %v", high, e, err)
		case says == "" && (err != nil || e.RMSE == nil):
			t.Errorf("bounds up to %d: %v, %v", high, e, err)
		}
	}
}
