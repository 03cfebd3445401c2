package papers

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/config"
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

// docs/papers.md has no empty cell, names what is there, and leads to every page of a figure.
func TestPageOfPapers(t *testing.T) {
	text, err := os.ReadFile("../../../docs/papers.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, figures := 0, map[string]bool{}
	code := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := regexp.MustCompile(`[^\\]\|`).Split(strings.TrimSpace(line)+" ", -1)
		rows++
		if len(cells) != 5 { // behind the last line there is a space
			t.Errorf("%d cells, want 4: %s", len(cells)-1, line)
			continue
		}
		for i, c := range cells[:4] {
			if strings.Trim(c, "| ") == "" {
				t.Errorf("cell %d is empty: %s", i+1, line)
			}
		}
		kind := ""
		for _, m := range code.FindAllStringSubmatch(cells[1], -1) {
			words := strings.Fields(m[1])
			if len(words) > 1 && slices.Contains([]string{"train", "reproduce", "schedule"}, words[0]) {
				kind, words = words[0], words[1:]
			}
			if strings.HasPrefix(m[1], "-") || strings.HasPrefix(m[1], "privgrad ") || len(words) > 1 && !strings.HasPrefix(words[1], "--") {
				kind = ""
				continue
			}
			switch kind {
			case "train":
				if !slices.Contains(config.Optimizers(), words[0]) {
					t.Errorf("there is no optimizer %s: %s", words[0], line)
				}
			case "reproduce":
				if _, err := Find(words[0]); err != nil {
					t.Errorf("%v: %s", err, line)
				}
				figures[words[0]] = true
			}
		}
	}
	if rows < 100 {
		t.Errorf("%d rows", rows)
	}
	pages, err := filepath.Glob("../../../docs/figures/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages of figures, %v", len(pages), err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); !strings.Contains(string(text), "(figures/"+name+")") {
			t.Errorf("no row leads to the page %s", name)
		}
	}
	for _, f := range Figures() {
		if !figures[f.Name] && f.Name != "rates" { // a table of our own, on another page
			t.Errorf("no row names reproduce %s", f.Name)
		}
	}
}

// A comparison is called undecided after 20 seeds, and not before.
func TestEnoughSeeds(t *testing.T) {
	const enough, folds = 20, 10
	// Tables of ten folds have as many seeds, each of which holds out another fold.
	byFold := []string{"fig1", "fig2", "fig3", "fig4"}
	// Networks take too long; or it is a measurement of one run.
	few := []string{"fig5", "fig5-cifar10", "rates", "rrpsgd", "l2p-table1"}
	for _, f := range Figures() {
		want := enough
		switch {
		case slices.Contains(few, f.Name):
			continue
		case slices.Contains(byFold, f.Name):
			want = folds
		}
		if most := max(f.Seeds, f.Most); most < want {
			t.Errorf("%s has %d seeds at most, want %d", f.Name, most, want)
		}
	}
}
