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
