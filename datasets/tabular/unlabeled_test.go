package tabular

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/written"
)

// A file to predict needs no labels, but every other column. Its own names must change: the
// schema is the model's.
func TestUnlabeledNeedsEveryFeature(t *testing.T) {
	dir := t.TempDir()
	trained := write(t, dir, "trained.csv", "a,b,y\n1,2,0\n")
	write(t, dir, "trained.csv.schema.yaml", "columns: [{name: a, bounds: [0, 4]}, {name: b, bounds: [0, 4]}]\nlabel: {column: y, classes: [0, 1]}\n")

	m, _, err := Unlabeled(write(t, dir, "new.csv", "b,a\n2,1\n"), trained, Options{})
	if err != nil || m.Len() != 1 {
		t.Errorf("a file without labels: %v, %+v", err, m)
	}
	_, _, err = Unlabeled(write(t, dir, "narrow.csv", "a\n1\n"), trained, Options{})
	if err == nil || !strings.Contains(err.Error(), `no column "b", which the model takes: give the file the columns`) {
		t.Errorf("a file without column b: %v", err)
	}
}

// What no model reads, a file to predict may lack: columns that are ignored, and conditions on records to train on.
func TestUnlabeledNeedsNothingElse(t *testing.T) {
	trained := tabled(t, "id,a,consent,y\n7,1,yes,no\n", "columns: [{name: id, ignore: true}, {name: a, bounds: [0, 4]}, {name: consent, only: [\"yes\"]}]\n"+yesNo)
	m, doubts, err := Unlabeled(write(t, t.TempDir(), "new.csv", "a\n1\n"), trained, Options{})
	if err != nil || m.Len() != 1 || m.Values[0] != 0.25 || doubts != nil {
		t.Errorf("%+v, %q, %v", m, doubts, err)
	}
	check(t, os.WriteFile(trained, []byte("a,consent,y\n1,yes,no\n"), 0o600))
	if m := open(t, trained, Options{}).Train; m.Len() != 1 || m.Values[0] != 0.25 {
		t.Errorf("a table to train on without its ignored column: %+v", m)
	}
	check(t, os.WriteFile(trained, []byte("id,a,y\n7,1,no\n"), 0o600))
	if _, err := Open(trained, Options{}); err == nil || !strings.Contains(err.Error(), `no column "consent"`) {
		t.Errorf("a table to train on without a condition's column: %v", err)
	}
}

// A file with another separator is told what separates, and what to do with a file whose schema is a model's.
func TestAnotherSeparator(t *testing.T) {
	trained := tabled(t, "a;b;y\n1;2;no\n", "columns: [{name: a, bounds: [0, 4]}, {name: b, bounds: [0, 4]}]\n"+yesNo)
	const says = `its header is one field: the schema's separator is "," (the default); the file seems to have ";": `
	if _, err := Verify(trained, ""); err == nil || !strings.HasSuffix(err.Error(), says+`write separator: ";" in the schema, or save the file with ","`) {
		t.Errorf("verified: %v", err)
	}
	if _, _, err := Unlabeled(trained, trained, Options{}); err == nil || !strings.HasSuffix(err.Error(), says+`save the file with ","`) {
		t.Errorf("predicted: %v", err)
	}
	named := tabled(t, "a,b,y\n", "separator: ;\ncolumns: [{name: a, bounds: [0, 4]}]\n"+yesNo)
	if _, _, err := Unlabeled(named, named, Options{}); err == nil || !strings.HasSuffix(err.Error(), `the schema's separator is ";"; the file seems to have ",": save the file with ";"`) {
		t.Errorf("predicted by a schema that names one: %v", err)
	}
}

// Who gives a file of their own, or public records, hears what was not read, and what it counts as.
func TestDoubts(t *testing.T) {
	const columns = "columns:\n  - {name: age, bounds: [20, 100], missing: 50}\n  - {name: dose, bounds: [0, 5]}\n  - {name: size, bounds: [0, 9], mean: 4, sd: 2}\n" +
		"  - {name: visit, kind: date, format: DD/MM/YYYY, bounds: [2019-01-01, 2022-12-31], missing: 2020-07-01}\n  - {name: clinic, categories: [north, south]}\n  - {name: fine, bounds: [0, 1]}\n"
	const header = "age,dose,size,visit,clinic,fine,y\n"
	trained := tabled(t, header+"47,1,2,01/02/2020,north,1,no\n", "comment: \"#\"\n"+columns+yesNo)
	whole := header + "abc,1,NA,2020-02-01,Mars,1,no\n# a comment\n,,x,2020-02-02,north,1,no\n47,9,2,2020-02-03,,0,yes\n"
	want := func(path string, lowest string) string {
		return strings.Join([]string{
			path + `: column "age": 1 of 3 values is no number, first in line 2; 1 of 3 values is missing, first in line 4; they count as 50`,
			path + `: column "dose": 1 of 3 values is missing, first in line 4; they count as the lower bound 0`,
			path + `: column "size": 1 of 3 values is no number, first in line 4; 1 of 3 values is missing, first in line 2; they count as the mean 4`,
			path + `: column "visit": 3 of 3 values are no date as DD/MM/YYYY, first in line 2; they count as 2020-07-01`,
			path + `: column "clinic": 2 of 3 values are no category, first in line 2; they count as ` + lowest,
		}, "\n")
	}
	path := write(t, t.TempDir(), "new.csv", whole)
	_, doubts, err := Unlabeled(path, trained, Options{})
	if got, want := strings.Join(doubts, "\n"), want(path, "none of them"); err != nil || got != want {
		t.Errorf("%v, to predict:\n%s\nwant\n%s", err, got, want)
	}
	_, doubts, _ = Unlabeled(path, trained, Options{DropFirst: true})
	if got, want := strings.Join(doubts, "\n"), want(path, `"north", the first one`); got != want {
		t.Errorf("with drop-first:\n%s\nwant\n%s", got, want)
	}
	// Of records with labels, a malformed one is told of elsewhere.
	check(t, os.WriteFile(path, []byte(whole+"1,2\n"), 0o600))
	set, err := Labeled(path, trained, Options{})
	check(t, err)
	if got, want := strings.Join(set.TestDoubts, "\n"), want(path, "none of them"); got != want || len(set.TestFaults) != 1 {
		t.Errorf("to evaluate:\n%s\n%v\nwant\n%s", got, set.TestFaults, want)
	}
	// Of the table that was trained on there are none, whoever asks.
	check(t, os.WriteFile(trained, []byte(whole), 0o600))
	check(t, os.WriteFile(trained+suffix, []byte("comment: \"#\"\ntest_share: 0.5\ntest_is_public: true\n"+columns+yesNo), 0o600))
	for what, read := range map[string]func() (*datasets.Set, error){
		"trained on": func() (*datasets.Set, error) { return Open(trained, Options{}) },
		"evaluated":  func() (*datasets.Set, error) { return Labeled(trained, trained, Options{}) },
	} {
		if set, err := read(); err != nil || set.TestDoubts != nil {
			t.Errorf("%s: %q, %v", what, set.TestDoubts, err)
		}
	}
}

// Of many columns some are named.
func TestDoubtsAreFew(t *testing.T) {
	var columns, names strings.Builder
	for i := range mostDoubts + 2 {
		fmt.Fprintf(&columns, "  - {name: c%d, bounds: [0, 1]}\n", i)
		fmt.Fprintf(&names, "c%d,", i)
	}
	path := tabled(t, names.String()+"y\n"+strings.Repeat(",", mostDoubts+2)+"no\n", "columns:\n"+columns.String()+yesNo)
	_, doubts, err := Unlabeled(path, path, Options{})
	if err != nil || len(doubts) != mostDoubts+1 || doubts[mostDoubts] != path+": 2 more columns have such values" {
		t.Errorf("%v, %q", err, doubts)
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
			Label: Label{Column: "y", Classes: []names{{"no"}, {"yes" + category}}}, DropFirst: true, places: true, Decimal: written.Comma,
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
