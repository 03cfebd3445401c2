package tabular

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What Skeleton writes where only people know what belongs there.
const (
	low         = "LOW"
	high        = "HIGH"
	labelColumn = "LABEL"
)

// mostShown is how many columns an error about all of them names.
const mostShown = 5

// unfilled says which placeholders of Skeleton are left, so that all can be replaced at once.
func (s *Schema) unfilled() error {
	var left []string
	for _, c := range s.Columns {
		if words := c.Bounds.placeholders(); words != "" && c.Categories == nil && !c.Ignore {
			left = append(left, fmt.Sprintf("column %s: replace %s", c.Name, words))
		}
	}
	if n := len(left) - mostShown; n > 0 {
		left = append(left[:mostShown], fmt.Sprintf("and %d columns more", n))
	}
	if of := s.Label.unfilled(); of != "" {
		left = append(left, "label: "+of)
	}
	if left == nil {
		return nil
	}
	return errors.New(strings.Join(left, "; "))
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
		return "LOW and HIGH by its public bounds"
	case has(low):
		return "LOW by its public lower bound"
	case has(high):
		return "HIGH by its public upper bound"
	}
	return ""
}
