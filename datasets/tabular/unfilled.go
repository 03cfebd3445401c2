package tabular

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/written"
)

// What Skeleton writes where only people know what belongs there.
const (
	low         = "LOW"
	high        = "HIGH"
	labelColumn = "LABEL"
)

// unfilled says which placeholders of Skeleton are left, so that all can be replaced at once.
func (s *Schema) unfilled() error {
	columns, order := map[string][]string{}, []string(nil) // by what is left in them
	for _, c := range s.Columns {
		words := c.Bounds.placeholders()
		if words == "" || c.Categories != nil || c.Ignore {
			continue
		}
		if columns[words] == nil {
			order = append(order, words)
		}
		columns[words] = append(columns[words], c.Name)
	}
	var left []string
	for _, words := range order {
		left = append(left, fmt.Sprintf("%s: replace %s, with kind: date for dates, or write categories or ignore: true instead", some(columns[words]), words))
	}
	if of := s.Label.unfilled(); of != "" {
		left = append(left, "label: "+of)
	}
	if left == nil {
		return nil
	}
	return errors.New(strings.Join(left, "; "))
}

func some(names []string) string {
	if len(names) == 1 {
		return "column " + names[0]
	}
	return "columns " + written.And(names)
}

func (l *Label) unfilled() string {
	words := l.Bounds.placeholders()
	switch empty := l.Classes != nil && len(l.Classes) == 0; {
	case words != "":
		return "replace " + words
	case empty && l.Column == labelColumn:
		return fmt.Sprintf("replace %s by the column to predict, and list its classes", labelColumn)
	case empty:
		return "list the classes of column " + l.Column
	}
	return ""
}

// placeholders says of bounds what to replace, and by what; empty: nothing.
func (b bounds) placeholders() string {
	has := func(word string) bool {
		return slices.ContainsFunc(b, func(p point) bool { return p.is == isWord && p.word == word })
	}
	switch {
	case has(low) && has(high):
		return "LOW and HIGH by public bounds"
	case has(low):
		return "LOW by a public lower bound"
	case has(high):
		return "HIGH by a public upper bound"
	}
	return ""
}
