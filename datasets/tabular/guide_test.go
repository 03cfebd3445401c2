package tabular

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The guide's example is read as the guide says.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/own-table.md")
	check(t, err)
	block := func(begin string) string {
		_, text, ok := strings.Cut(string(page), begin)
		text, _, ends := strings.Cut(text, "```")
		if !ok || !ends {
			t.Fatalf("the guide has no block %q", begin)
		}
		return text
	}
	table := ",patient," + block("```\n,patient,")
	schema, share, ok := strings.Cut(strings.ReplaceAll("   columns:\n"+block("```yaml\n   columns:\n"), "\n   ", "\n"), "test_share")
	if !ok {
		t.Fatal("the guide's schema has no test_share")
	}
	if _, err := parse([]byte(strings.TrimLeft(schema, " ") + "test_share" + share)); err != nil {
		t.Fatal(err)
	}
	want := []float32{
		27. / 80, 30. / 1460, 1, 0, 0, 0.5,
		30. / 80, 1039. / 1460, 0, 1, 0, 0.1, // missing: 50
		61. / 80, 731. / 1460, 0, 0, 1, 0.8, // missing: 2021-01-01
	}
	m := open(t, tabled(t, table, strings.TrimLeft(schema, " ")), Options{}).Train
	if !slices.Equal(m.Values, want) || !slices.Equal(m.Labels, []uint8{0, 1, 0}) {
		t.Errorf("%v labelled %v", m.Values, m.Labels)
	}
}
