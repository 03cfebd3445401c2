package tabular

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// pipe makes a file standard input.
func pipe(t *testing.T, path string) {
	t.Helper()
	in, err := os.Open(path)
	check(t, err)
	old := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = old; in.Close() })
}

// A table that is piped is read as its file is, by a schema that has a name.
func TestPiped(t *testing.T) {
	t.Chdir(t.TempDir())
	const schema = "columns:\n  - {name: x, bounds: [0, 4]}\nlabel: {column: y, classes: [a, b]}\n"
	for name, text := range map[string]string{
		"t.csv": "x,y\n1,a\n9,b\n", "s.yaml": schema, "held.yaml": schema + "test: t.csv\n", "also.yaml": schema + "also: [t.csv]\n", "-.schema.yaml": schema,
	} {
		check(t, os.WriteFile(name, []byte(text), 0o644))
	}
	want, err := Open("t.csv", Options{Schema: "s.yaml"})
	check(t, err)
	pipe(t, "t.csv")
	got, err := Open(datasets.Piped, Options{Schema: "s.yaml"})
	check(t, err)
	if got.Name = want.Name; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	pipe(t, "t.csv")
	if m, _, err := Unlabeled(datasets.Piped, datasets.Piped, Options{Text: got.Schema}); err != nil || !reflect.DeepEqual(m.Values, want.Train.Values) {
		t.Errorf("%+v, %v", m, err)
	}
	pipe(t, "t.csv")
	if set, err := Labeled(datasets.Piped, datasets.Piped, Options{Text: got.Schema}); err != nil || !reflect.DeepEqual(set.Test.Labels, want.Train.Labels) {
		t.Errorf("%+v, %v", set, err)
	}
	for schema, want := range map[string]string{
		"": "name its schema by --schema", "held.yaml": "nothing lies beside one from standard input", "also.yaml": "nothing lies beside one from standard input",
		"s.yaml": "table - cannot be read: nothing comes through standard input",
	} {
		if _, err := Open(datasets.Piped, Options{Schema: schema}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("schema %q: %v, want %q", schema, err, want)
		}
	}
}
