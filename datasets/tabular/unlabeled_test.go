package tabular

import (
	"strings"
	"testing"
)

// A file to predict needs no labels, but every other column. Its own names must change: the
// schema is the model's.
func TestUnlabeledNeedsEveryFeature(t *testing.T) {
	dir := t.TempDir()
	trained := write(t, dir, "trained.csv", "a,b,y\n1,2,0\n")
	write(t, dir, "trained.csv.schema.yaml", "columns: [{name: a, bounds: [0, 4]}, {name: b, bounds: [0, 4]}]\nlabel: {column: y, classes: [0, 1]}\n")

	m, err := Unlabeled(write(t, dir, "new.csv", "b,a\n2,1\n"), trained, Options{})
	if err != nil || m.Len() != 1 {
		t.Errorf("a file without labels: %v, %+v", err, m)
	}
	_, err = Unlabeled(write(t, dir, "narrow.csv", "a\n1\n"), trained, Options{})
	if err == nil || !strings.Contains(err.Error(), `no column "b", which the model takes: give the file all columns`) {
		t.Errorf("a file without column b: %v", err)
	}
}

func numbers(low, high float64) bounds { return bounds{{at: low}, {at: high}} }

// A schema that a model keeps reads tables as the one that it was trained by, whatever characters it names.
func TestKeptSchemaIsTheSame(t *testing.T) {
	for _, category := range []string{"p", "1", "-0", ".inf", "-.inf", ".nan", ".NaN", "? a", "- a", "a: b", "#", "null", "true", "~", "a\tb", "a\nb", "a\rb", "é\u2028", `"`, `\`, "'", "{", "[x]", "*a", "&a", "!a", "%", "@", "0x10", "1e3", "2024-01-01", " blank ", ""} {
		s := &Schema{
			Separator: "\t", Header: headerRequired, Comment: category, SplitKey: category, TestShare: 0.1, TestIsPublic: true,
			Columns: []Column{
				{Name: "a", Bounds: numbers(-1e300, 0.1), Missing: &point{at: 0}}, {Name: "b" + category, Categories: []names{{category, "other"}, {"q"}}},
				{Name: "c", Bounds: numbers(0, 1), Mean: 0.25, SD: 1e-9},
				{Name: "d", Kind: dates, Format: "MM/DD/YYYY", Bounds: bounds{{at: -1, is: isDay}, {at: 18000, is: isDay}}, Missing: &point{at: 0, is: isDay}},
			},
			Label: Label{Column: "y", Classes: []names{{"no"}, {"yes" + category}}}, DropFirst: true, places: true, Decimal: comma,
		}
		text, err := s.kept()
		if err != nil {
			t.Errorf("category %q: %v", category, err)
			continue
		}
		if _, again, err := (Options{Text: text}).find(""); err != nil || again.Columns[1].Categories[0][0] != category || again.Separator != "\t" {
			t.Errorf("category %q: %v, %+v", category, err, again)
		}
	}
}
