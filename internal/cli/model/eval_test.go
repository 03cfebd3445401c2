package model

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/trained"
)

// The rows and columns of a confusion matrix have names, if there is room for them.
func TestHeadings(t *testing.T) {
	three := make([][]int, 3)
	for _, x := range []struct {
		classes       []string
		rows, columns string
	}{
		{[]string{"cat", "dog", "ship"}, "cat dog ship", "cat dog ship"},
		{[]string{"0", "1", "2"}, "0 1 2", "0 1 2"},
		{nil, "0 1 2", "0 1 2"},
		{[]string{"a", strings.Repeat("b", widestHead), "2"}, "a 0 " + strings.Repeat("b", widestHead) + " 1 2", "0 1 2"},
	} {
		rows, columns := headings(&trained.Evaluation{Classes: x.classes, Confusion: three})
		if strings.Join(rows, " ") != x.rows || strings.Join(columns, " ") != x.columns {
			t.Errorf("%v: rows %q, columns %q", x.classes, rows, columns)
		}
	}
}

// Errors of a regression stand below its loss.
func TestErrorsInWords(t *testing.T) {
	loss, rmse, mae, r2 := 0.01, 12.34567, 10.0, -0.5
	e := &trained.Evaluation{Loss: &loss}
	e.RMSE, e.MAE, e.R2 = &rmse, &mae, &r2
	var b strings.Builder
	describeEvaluation(&b, e)
	for _, want := range []string{"test loss", "0.0100", "test RMSE", "12.35 (", "units of the label", "test MAE", "10 (", "test R²", "-0.500 ("} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
	b.Reset()
	describeEvaluation(&b, &trained.Evaluation{Loss: &loss})
	if strings.Contains(b.String(), "RMSE") {
		t.Errorf("a model of classes has errors:\n%s", b.String())
	}
}

// How well two classes are told apart stands there, too.
func TestTwoClassesInWords(t *testing.T) {
	area, balanced := 0.75, 0.625
	e := &trained.Evaluation{Accuracy: &area}
	e.AUC, e.BalancedAccuracy = &area, &balanced
	var b strings.Builder
	describeEvaluation(&b, e)
	for _, want := range []string{"test AUC", "0.750 (area under the ROC curve", "test balanced accuracy", "62.5% ("} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
}
