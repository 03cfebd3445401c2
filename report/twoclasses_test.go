package report

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/train"
)

// twoClasses trains on records of two classes, the first of which is rare.
func twoClasses(t *testing.T, testIsPublic bool) string {
	t.Helper()
	split := func(n int) datasets.Split {
		s := datasets.Split{Shape: [3]int{1, 1, 2}, Unit: true}
		for i := range n {
			x, class := float32(i)/float32(n), uint8(1)
			if i%5 == 0 {
				class = 0
			}
			s.Values, s.Labels = append(s.Values, x*float32(class), 1-x), append(s.Labels, class)
		}
		return s
	}
	set := &datasets.Set{Name: "made", Classes: 2, ClassNames: []string{"no", "yes"}, Train: split(160), Test: split(40), PublicN: 160, TestIsPublic: testIsPublic}
	c := short()
	c.TensorBoard = true
	o := train.Options{
		Out:     filepath.Join(t.TempDir(), "run"),
		Sources: map[string]train.Source{"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}},
	}
	Attach(c, &o)
	_, err := train.Run(context.Background(), c, o)
	check(t, err)
	return o.Out
}

// How well two classes are told apart is in every file that people look at, and verify compares it.
func TestReportOfTwoClasses(t *testing.T) {
	dir := twoClasses(t, true)
	var r train.Result
	check(t, json.Unmarshal([]byte(read(t, dir, "result.json")), &r))
	last := lastEvaluation(t, dir)
	if r.AUC == nil || *r.AUC < 0 || *r.AUC > 1 || *last.AUC != *r.AUC {
		t.Fatalf("the area is %v, the last evaluation's %v", r.AUC, last.AUC)
	}
	c := last.Confusion // of 8 and 32 records
	if want := (float64(c[0][0])/8 + float64(c[1][1])/32) / 2; *r.BalancedAccuracy != want || *last.BalancedAccuracy != want {
		t.Errorf("the balanced accuracy is %v, by the confusion matrix %v", *r.BalancedAccuracy, want)
	}
	page, card := words(read(t, dir, PageFile)), read(t, dir, CardFile)
	for _, want := range []string{"test AUC " + number(*r.AUC), "test balanced accuracy "} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	for _, want := range []string{"| test AUC | " + number(*r.AUC), "| test balanced accuracy | "} {
		if !strings.Contains(card, want) {
			t.Errorf("the card does not say %q:\n%s", want, card)
		}
	}
	for key, value := range map[string]*float64{"test_auc": r.AUC, "test_balanced_accuracy": r.BalancedAccuracy} {
		text, err := json.Marshal(value)
		check(t, err)
		old, changed := fmt.Sprintf("%q: %s", key, text), fmt.Sprintf("%q: 0.123", key)
		edit(t, filepath.Join(dir, "result.json"), old, changed)
		v, err := Verify(dir)
		check(t, err)
		if !slices.Contains(v.failed(), "evaluations") {
			t.Errorf("another %s is not found: %v", key, v.failed())
		}
		edit(t, filepath.Join(dir, "result.json"), changed, old)
	}
}

// Nothing tells of test records that are private.
func TestReportOfTwoPrivateClasses(t *testing.T) {
	dir := twoClasses(t, false)
	result := read(t, dir, "result.json")
	for _, want := range []string{`"test_auc": null`, `"test_balanced_accuracy": null`} {
		if !strings.Contains(result, want) {
			t.Errorf("the result does not say %s", want)
		}
	}
	for _, name := range []string{PageFile, CardFile} {
		for _, bad := range []string{"AUC", "balanced"} {
			if strings.Contains(read(t, dir, name), bad) {
				t.Errorf("%s speaks of %s", name, bad)
			}
		}
	}
}
