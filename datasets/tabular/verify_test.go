package tabular

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Verify says in which column and line faults begin, and whether the table is the schema's at all.
func TestVerifyFindsWhatDoesNotMatch(t *testing.T) {
	const schema = "columns: [{name: a, bounds: [0, 10]}, {name: b, categories: [p, q]}]\nlabel: {column: y, classes: [no, yes]}\n"
	for _, c := range []struct {
		what, text, want string
	}{
		{"fine", "a,b,y\n1,p,no\n11,q,yes\n", ""},
		{"no numbers", "a,b,y\nx,p,no\nz,q,yes\n", `column "a" are no numbers`},
		{"no categories", "a,b,y\n1,P,no\n2,Q,yes\n", `column "b" are none of its categories`},
		{"other classes", "a,b,y\n1,p,0\n2,q,1\n", "most labels are none"},
		{"one class", "a,b,y\n1,p,no\n2,q,no\n", "class yes has no record"},
		{"no record", "a,b,y\n", "there is no record"},
		{"another separator", "a,b,y\n1;p;no\n2;q;yes\n", "another separator"},
	} {
		dir := t.TempDir()
		path := write(t, dir, "t.csv", c.text)
		write(t, dir, "t.csv.schema.yaml", schema)
		r, err := Verify(path, "")
		check(t, err)
		if said := strings.Join(r.Private.Faults, "; "); !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.what, said, c.want)
		}
	}

	dir := t.TempDir()
	path := write(t, dir, "t.csv", "# skipped\na,b,y\n1,p,no\n-1,p,no\n2,r,yes\nnone,p,no\n3,p\n4,q,maybe\n11,q,yes\n")
	write(t, dir, "t.csv.schema.yaml", "skip: 1\n"+schema)
	r, err := Verify(path, "")
	check(t, err)
	f := r.Private.Files[0]
	got := []Fault{f.Malformed, f.Columns[0].Missing, f.Columns[0].Clamped, f.Columns[1].Unknown, f.Label.Unknown}
	if want := []Fault{{1, 7}, {1, 6}, {2, 4}, {1, 5}, {2, 7}}; !slices.Equal(got, want) {
		t.Errorf("faults %v, want %v", got, want)
	}
}

// Verify says which values a column or the label has in place of those that are listed, and how a list is broken.
func TestVerifyNamesUnknownValues(t *testing.T) {
	long := strings.Repeat("x", 41)
	for _, c := range []struct{ what, categories, values, label, says, fault string }{
		{"no quotes", "[Nord, Süd, Ost, alt]", `Nord "Ost, alt" Süd Süd Nord`, "", `most often "Ost, alt"; no record has "Ost" and "alt"; write quotes around a name with a comma: "Ost, alt"`, `categories of column "a": write quotes around a name with a comma: "Ost, alt"`},
		{"several in one field", "[Nord, Süd, West]", `Nord Nord Süd Nord "Süd, Nord"`, "", `most often "Süd, Nord"; no record has "West"; write quotes`, ""},
		{"none of the parts", "[Nord, Süd]", `Nord Nord Süd Nord "Ost, alt"`, "", `most often "Ost, alt"`, ""},
		{"a field more often", "[p, q, r, s]", `p q z z "r, s" p p q`, "", `most often "z"; no record has "r" and "s"; write quotes around a name with a comma: "r, s"`, "write quotes"},
		{"Latin-1", "[Nord, Süd]", "Nord S\xfcd Nord Nord", "", `most often "S\xfcd"; no record has "Süd"; the file is not UTF-8: convert it, by iconv -f latin1 -t utf-8`, `categories of column "a": the file is not UTF-8`},
		{"one broken byte", "[Nord, Süd]", "Nord S\xfcd Nord Süd", "", `the file is not UTF-8`, ""},
		{"capitals", "[no, so, we, we2, we3, we4, we5]", "NO SO NO", "", `most often "NO"; no record has "no", "so", "we", "we2", "we3" and 2 more`, `most values of column "a" are none of its categories, which must be written the same: most often "NO"`},
		{"long", "[p]", "p p p " + long, "", `most often "` + long[1:] + `…"`, ""},
		{"two spellings", "[[p, P], q]", "P P P z", "", `most often "z"; no record has "q"`, ""},
		{"labels", "[p]", "p p p", "No", "", `most labels are none that the schema describes: most often "No"; no record has "no"`},
	} {
		label := cmp.Or(c.label, "no")
		var text strings.Builder
		text.WriteString("a;y\n")
		for _, v := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(c.values, -1) {
			text.WriteString(v + ";" + label + "\n")
		}
		r, err := Verify(tabled(t, text.String()+"p;yes\n", "separator: ;\ncolumns: [{name: a, categories: "+c.categories+"}]\n"+yesNo), "")
		check(t, err)
		got, said := r.Private.Files[0].Columns[0].Words.String(), strings.Join(r.Private.Faults, "; ")
		if !strings.Contains(got, c.says) || !strings.Contains(said, c.fault) || (said == "") != (c.fault == "") {
			t.Errorf("%s: %s; %q; want %s; %q", c.what, got, said, c.says, c.fault)
		}
	}
	// A file's header may be in another encoding, too.
	path := tabled(t, "gr\xf6\xdfe,y\n1,no\n", "columns: [{name: größe, bounds: [0, 9]}]\n"+yesNo)
	if _, err := Verify(path, ""); err == nil || !strings.Contains(err.Error(), `no column "größe": the file is not UTF-8: convert it`) {
		t.Errorf("a header in Latin-1: %v", err)
	}
	// Training counts none of it.
	w := (&Schema{}).words([]names{{"p"}}, map[string]int{"p": 0})
	if w.Look("z"); w.String() != "" {
		t.Errorf("without an owner it counts %s", w)
	}
	// A malformed record has no label of any name.
	r, err := Verify(tabled(t, "a,y\n1,no\n1,yes\n1,No\n1\n1\n1,2,3\n1,yes\n", "columns: [{name: a, bounds: [0, 9]}]\n"+yesNo), "")
	if err != nil || r.Private.Files[0].Label.Words.String() != `most often "No"` {
		t.Errorf("%v, %+v", err, r.Private.Files[0].Label)
	}
}

// Every file is looked at, and classes over those that train.
func TestVerifyLooksAtEveryFile(t *testing.T) {
	const columns = "columns: [{name: a, bounds: [0, 10]}]\nlabel: {column: y, classes: [no, yes]}\n"
	for _, c := range []struct{ what, table, other, schema, want string }{
		{"classes in two files", "a,y\n1,no\n", "a,y\n1,yes\n", "also: [b.csv]\n", ""},
		{"nonsense in the second", "a,y\n1,no\n2,yes\n", "a,y\nx,z\n", "also: [b.csv]\n", `b.csv: most values of column "a"`},
		{"nonsense in the test file", "a,y\n1,no\n2,yes\n", "a,y\nx,z\n", "test: b.csv\n", `test file: most values of column "a"`},
		{"a class in the test file alone", "a,y\n1,no\n", "a,y\n1,yes\n", "test: b.csv\n", "class yes has no record"},
	} {
		dir := t.TempDir()
		path := write(t, dir, "t.csv", c.table)
		write(t, dir, "b.csv", c.other)
		write(t, dir, "t.csv.schema.yaml", c.schema+columns)
		r, err := Verify(path, "")
		check(t, err)
		if said := strings.Join(r.Private.Faults, "; "); !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.what, said, c.want)
		}
	}
}

// Verify tells what is missing from what was written in another way, and names that way.
func TestVerifyAdvises(t *testing.T) {
	for _, c := range []struct {
		column, values, fault string
		missing, unreadable   Fault
		advice                string
	}{
		{"bounds: [0, 9]", "3,14 2,5 1", `most values of column "a" are no numbers: decimal commas, as in 3,14? write 3.14, or add decimal: ","`, Fault{}, Fault{2, 2}, "decimal commas"},
		{"bounds: [0, 9]", "3,14 2 1 5", "", Fault{}, Fault{1, 2}, "decimal commas"},
		{"bounds: [0, 9]", "x 3,14 y 5 6 7 8", "", Fault{}, Fault{3, 2}, ""},
		{"bounds: [0, 9]", "x 3,14 z", `most values of column "a" are no numbers: a category? write categories: [...] in place of bounds`, Fault{}, Fault{3, 2}, ""},
		{"bounds: [0, 9]", "x 3,14 5 6 7 8", "", Fault{}, Fault{2, 2}, "none"},
		{"bounds: [0, 9]", "2019-01-31 31.1.2019 1", `most values of column "a" are no numbers: dates? add kind: date`, Fault{}, Fault{2, 2}, "dates?"},
		{"bounds: [0, 9]", "NA - 1", `most values of column "a" are no numbers, since most are missing: if they may be, add missing: VALUE`, Fault{2, 2}, Fault{}, ""},
		{"bounds: [0, 9], missing: 3", "NA ? nan . x", "", Fault{4, 2}, Fault{1, 6}, ""},
		{"bounds: [0, 9], missing: 3", "x y z 1", `most values of column "a" are no numbers`, Fault{}, Fault{3, 2}, ""},
		{"kind: date, bounds: [2019-01-01, 2022-12-31]", "31.01.2019 1.2.2019 NaT", `most values of column "a" are no dates: dates in another format? write format: DD.MM.YYYY`, Fault{1, 4}, Fault{2, 2}, "DD.MM.YYYY"},
		{"kind: date, bounds: [2019-01-01, 2022-12-31]", "01/02/2019 03/04/2019", `format: DD/MM/YYYY or format: MM/DD/YYYY`, Fault{}, Fault{2, 2}, ""},
	} {
		path := tabled(t, "a;y\n"+strings.ReplaceAll(c.values, " ", ";no\n")+";yes\n;no\n", "separator: ;\ncolumns: [{name: a, "+c.column+"}]\nlabel: {column: y, classes: [no, yes]}\n")
		r, err := Verify(path, "")
		check(t, err)
		c.missing.Count++ // the last record
		if c.missing.Line == 0 {
			c.missing.Line = strings.Count(c.values, " ") + 3
		}
		got := r.Private.Files[0].Columns[0]
		if said := strings.Join(r.Private.Faults, "; "); !strings.Contains(said, c.fault) || (said == "") != (c.fault == "") || got.Missing != c.missing || got.Unreadable != c.unreadable || !strings.Contains(got.Advice.String(), strings.TrimPrefix(c.advice, "none")) || c.advice == "none" && got.Advice.String() != "" || r.Private.Files[0].Separator != ";" {
			t.Errorf("%s, %s: %q, %v are missing and %v unreadable (%s)", c.column, c.values, said, got.Missing, got.Unreadable, got.Advice)
		}
	}
	// Training asks for none of it.
	if a := (&Schema{}).advice(&Column{Bounds: numbers(0, 1)}); a.others != nil {
		t.Errorf("without an owner it looks for %v", a)
	}
}
