package tabular

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tableOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.csv")
	check(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// What was filled in is a schema that reads the table; what was not is refused.
func TestSkeleton(t *testing.T) {
	path := tableOf(t, "age;\"the ward\";no;back\r\n47;lakeside;1;yes\n")
	text, err := Skeleton(path, "back")
	check(t, err)
	if strings.Contains(text, "47") || strings.Contains(text, "lakeside") {
		t.Errorf("it has a record: %s", text)
	}
	if s, err := parse([]byte(text)); err == nil {
		t.Errorf("placeholders are a schema: %+v", s)
	}
	text = strings.NewReplacer("the ward\", bounds: [LOW, HIGH]", "the ward\", categories: [lakeside, hillside]", "LOW, HIGH", "0, 100", "classes: []", "classes: [\"no\", \"yes\"]").Replace(text)
	check(t, os.WriteFile(path+suffix, []byte(text), 0o644))
	set, err := Open(path, Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if n := set.Train.Len(); n != 1 || set.Train.Labels[0] != 1 {
		t.Errorf("it reads %d records, with labels %v", n, set.Train.Labels)
	}

	// With every number filled in, the label's placeholder is still refused.
	text, err = Skeleton(path, "")
	check(t, err)
	if s, err := parse([]byte(strings.ReplaceAll(text, "LOW, HIGH", "0, 100"))); err == nil {
		t.Errorf("a placeholder for classes is a schema: %+v", s)
	}
}

func TestSkeletonQuotesNames(t *testing.T) {
	for _, name := range []string{"y", "No", "a: b", "#a", "ü", `say "hi"`, `back\slash`, "*a", "a, b", "a; b; c", "Sales 2020"} {
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		text, err := Skeleton(tableOf(t, quoted+",z\n"), "z")
		check(t, err)
		s, err := parse([]byte(strings.NewReplacer("LOW, HIGH", "0, 1", "classes: []", "classes: [0, 1]").Replace(text)))
		if err != nil || s.Columns[0].Name != name {
			t.Errorf("%q: %v, %+v", name, err, s)
		}
	}
}

// No error repeats a field: the first line may be a record.
func TestSkeletonRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"secret,31\n":              "a value",
		"secret,12%\n":             "a value",
		"secret,2020-01-31\n":      "a value",
		"secret,-1 kg\n":           "a value",
		"secret,?\n":               "a value",
		"secret,NaN\n":             "a value",
		"secret,N/A\n":             "a value",
		"secret,True\n":            "a value",
		"secret 31 4.5\n":          "one field",
		"a,secret\r1,2\r3,4":       "control character",
		"secret,Gr\xf6\xdfe\n":     "UTF-8",
		"secret,\n":                "empty",
		"secret,secret\n":          "twice",
		"":                         "empty",
		"\n1,2\n":                  "empty",
		"\xff\xfea\x00,\x00b\x00":  "UTF-16",
		"secret,b\n":               `no column "z"`,
		strings.Repeat("a", 2<<20): "no end of a line",
	} {
		_, err := Skeleton(tableOf(t, text), "z")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
	if _, err := Skeleton(filepath.Join(t.TempDir(), "none.csv"), ""); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a missing file: %v", err)
	}
}
