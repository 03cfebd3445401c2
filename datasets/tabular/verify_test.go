package tabular

import (
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
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(r.Private.Faults, "; "); !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.what, said, c.want)
		}
	}

	dir := t.TempDir()
	path := write(t, dir, "t.csv", "# skipped\na,b,y\n1,p,no\n-1,p,no\n2,r,yes\nnone,p,no\n3,p\n4,q,maybe\n11,q,yes\n")
	write(t, dir, "t.csv.schema.yaml", "skip: 1\n"+schema)
	r, err := Verify(path, "")
	if err != nil {
		t.Fatal(err)
	}
	f := r.Private.Files[0]
	got := []Fault{f.Malformed, f.Columns[0].Missing, f.Columns[0].Clamped, f.Columns[1].Unknown, f.Label.Unknown}
	if want := []Fault{{1, 7}, {2, 6}, {2, 4}, {2, 5}, {2, 7}}; !slices.Equal(got, want) {
		t.Errorf("faults %v, want %v", got, want)
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
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(r.Private.Faults, "; "); !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.what, said, c.want)
		}
	}
}
