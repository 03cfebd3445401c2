package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/train"
)

// regression trains one on labels from 100 to 300, which follow from one of two values.
func regression(t *testing.T, name string, testIsPublic bool) string {
	t.Helper()
	split := func(n int) datasets.Split {
		s := datasets.Split{Shape: [3]int{1, 1, 2}, Unit: true}
		for i := range n {
			x := float32(i) / float32(n)
			s.Values, s.Targets = append(s.Values, x, 1-x), append(s.Targets, x/2)
		}
		return s
	}
	set := &datasets.Set{Name: "made", Train: split(160), Test: split(40), PublicN: 160, TestIsPublic: testIsPublic, Bounds: datasets.Bounds{100, 300}}
	c := short()
	c.Model, c.TensorBoard = "huber-regression", true
	o := train.Options{
		Out:     filepath.Join(t.TempDir(), name),
		Sources: map[string]train.Source{"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}},
	}
	Attach(c, &o)
	_, err := train.Run(context.Background(), c, o)
	check(t, err)
	return o.Out
}

// The errors of a regression are in every file that people look at, in the units of its label, and verify compares them.
func TestReportOfARegression(t *testing.T) {
	dir := regression(t, "run", true)
	var r train.Result
	check(t, json.Unmarshal([]byte(read(t, dir, "result.json")), &r))
	last := lastEvaluation(t, dir)
	// All errors are below 1 in units of the bounds' width, so that Huber's loss is half the squared error.
	if want := 200 * math.Sqrt(2**r.TestLoss); r.RMSE == nil || math.Abs(*r.RMSE-want) > 1e-4*want || *r.MAE > *r.RMSE || *r.R2 >= 1 || *last.RMSE != *r.RMSE {
		t.Errorf("of a loss of %v the errors are %+v", *r.TestLoss, r.Errors)
	}
	page, card := read(t, dir, PageFile), read(t, dir, CardFile)
	for _, want := range []string{"test RMSE " + number(*r.RMSE), "test mean absolute error " + number(*r.MAE), "test R² " + number(*r.R2), "Error on the test data", "test RMSE, in the units of the label, against ε spent so far"} {
		if !strings.Contains(words(page), want) {
			t.Errorf("the page does not say %q:\n%s", want, words(page))
		}
	}
	for _, want := range []string{"| test RMSE, in the units of the label | " + number(*r.RMSE), "| test R² | "} {
		if !strings.Contains(card, want) {
			t.Errorf("the card does not say %q:\n%s", want, card)
		}
	}
	if n := strings.Count(page, "<circle"); n != 4 {
		t.Errorf("the page draws %d evaluations, want 4", n)
	}
	if slices.Contains(r.Released, PictureFile) || rundir.Dir(dir).Has(PictureFile) {
		t.Error("there is a picture of an accuracy")
	}
	_, figures := decode(t, []byte(read(t, dir, EventsFile)))
	for tag, want := range map[string]float64{"test/rmse": *r.RMSE, "test/mae": *r.MAE, "test/r2": *r.R2} {
		if math.Abs(figures[tag]-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s is %v, want %v", tag, figures[tag], want)
		}
	}
	var both bytes.Buffer
	_, err := Together(&both, Options{}, dir, regression(t, "other", true))
	check(t, err)
	if n := strings.Count(both.String(), "<svg"); n != 3 {
		t.Errorf("the page of two runs has %d charts, want 3", n)
	}
	if text := words(both.String()); !strings.Contains(text, "test accuracy or RMSE") || !strings.Contains(text, "RMSE "+number(*r.RMSE)) {
		t.Errorf("runs side by side have no RMSE:\n%s", text)
	}
	v, err := Verify(dir)
	check(t, err)
	if !v.OK {
		t.Errorf("%+v", v.Checks)
	}
	for key, value := range map[string]*float64{"test_rmse": r.RMSE, "test_mae": r.MAE, "test_r2": r.R2} {
		text, err := json.Marshal(value)
		check(t, err)
		old, changed := fmt.Sprintf("%q: %s", key, text), fmt.Sprintf("%q: 0.5", key)
		edit(t, filepath.Join(dir, "result.json"), old, changed)
		v, err := Verify(dir)
		check(t, err)
		if !slices.Contains(v.failed(), "evaluations") {
			t.Errorf("another %s is not found: %v", key, v.failed())
		}
		edit(t, filepath.Join(dir, "result.json"), changed, old)
	}
}

// Errors on test records that are not public are nowhere.
func TestReportOfAPrivateRegression(t *testing.T) {
	dir := regression(t, "private test", false)
	for _, name := range []string{"result.json", "metrics.jsonl", PageFile, CardFile} {
		text := read(t, dir, name)
		for _, bad := range []string{"rmse", "RMSE", "test_mae", "test_r2", "R²", "absolute error"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
	}
}
