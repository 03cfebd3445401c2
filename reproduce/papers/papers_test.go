package papers

import (
	"errors"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/train"
)

func TestUnknownFigure(t *testing.T) {
	var refused *train.UsageError
	if _, err := Find("fig9"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "rates") {
		t.Errorf("the error is %v", err)
	}
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Figures() {
		if seen[f.Name] {
			t.Errorf("two figures are called %s", f.Name)
		}
		seen[f.Name] = true
	}
}
