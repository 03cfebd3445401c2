package tabular

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// tabled writes a table with its schema.
func tabled(t *testing.T, table, schema string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.csv")
	for name, text := range map[string]string{path: table, path + suffix: schema} {
		check(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return path
}

// A line that is too long is one bad record, and moves no other, whether a table is read at once or block by block.
func TestLongLines(t *testing.T) {
	defer func(line, block int) { mostLine, blockSize = line, block }(mostLine, blockSize)
	mostLine = 50
	field := strings.Repeat("9", 46)
	const schema = "columns: [{name: x, bounds: [0, 1]}, {name: y}]\nlabel: {column: y, classes: [no, yes]}\nheader: optional\ntest_share: 0.4\nsplit_key: k\n"
	var table strings.Builder
	for i := range 40 {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&table, "%s,yes\n", field) // as long as a line may be
		case 1:
			fmt.Fprintf(&table, "%s9,yes\r\n", field)
		case 2:
			fmt.Fprintf(&table, "%d,no%s\n", i, strings.Repeat(",", 97*i))
		default:
			fmt.Fprintf(&table, "0.%d,no\n", i)
		}
	}
	table.WriteString(strings.Repeat(" ", 99) + ",yes") // the last one has no end
	path := tabled(t, table.String(), schema)
	want, err := Open(path, Options{})
	check(t, err)
	count := map[uint8]int{}
	for _, label := range append(slices.Clone(want.Train.Labels), want.Test.Labels...) {
		count[label]++
	}
	if count[0] != 10 || count[1] != 10 || count[badLabel] != 21 {
		t.Errorf("labels %v", count)
	}
	for blockSize = 1; blockSize < 300; blockSize++ {
		var train, test datasets.Split
		if err := Each(path, Options{}, func(a, b datasets.Split) error {
			train.Labels, test.Labels = append(train.Labels, a.Labels...), append(test.Labels, b.Labels...)
			train.Values, test.Values = append(train.Values, a.Values...), append(test.Values, b.Values...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(train.Labels, want.Train.Labels) || !slices.Equal(test.Labels, want.Test.Labels) || !slices.Equal(train.Values, want.Train.Values) {
			t.Fatalf("blocks of %d: other records than at once", blockSize)
		}
	}
	blockSize = 10
	if err := blocks(strings.NewReader(strings.Repeat("x", 1000)+"\ny\n"), 1, func(text []byte) error {
		if len(text) > mostLine+endOfLine+blockSize {
			t.Errorf("%d bytes of a long line are kept", len(text))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Unlabeled(path, path, Options{}); err == nil || !strings.Contains(err.Error(), "record 1 is longer than") {
		t.Errorf("to predict: %v", err)
	}
	long := tabled(t, strings.Repeat("x", 60)+",y\n", "columns: [{name: x, bounds: [0, 1]}]\nlabel: {column: y, classes: [no, yes]}\n")
	if _, err := Open(long, Options{}); err == nil || !strings.Contains(err.Error(), "its header is longer than") {
		t.Errorf("a long header: %v", err)
	}
}

// Bad records of a public test file are found by their lines. Those of a file with private records are found by their place among
// the test records, which no private record moves.
func TestFaultsOfTestRecords(t *testing.T) {
	const schema = "columns: [{name: x, bounds: [0, 1]}]\nlabel: {column: y, classes: [no, yes]}\n"
	path := tabled(t, "x,y\n1,what\n0,no\n", schema+"test: test.csv\n")
	test := filepath.Join(filepath.Dir(path), "test.csv")
	check(t, os.WriteFile(test, []byte("x,y\n0,no\n\n1,maybe\n1\n1,2,3\n0,yes\n"), 0o600))
	s, err := Open(path, Options{})
	check(t, err)
	want := map[int]string{
		1: "line 4 of " + test + ` has none of the schema's labels in column "y"`,
		2: "line 5 of " + test + " has 1 fields in place of 2", 3: "line 6 of " + test + " has 3 fields in place of 2",
	}
	if fmt.Sprint(s.TestFaults) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", s.TestFaults, want)
	}

	const shared = schema + "test_share: 0.5\nsplit_key: k\n"
	of := func(table string) (string, int) {
		s, err := Open(tabled(t, table, shared), Options{})
		check(t, err)
		var all []string
		for i := range s.Test.Len() {
			_, said, _ := strings.Cut(s.TestFaults[i], "t.csv, ")
			all = append(all, said)
		}
		return strings.Join(all, "|"), s.Train.Len()
	}
	var lines []string
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("0.%d,%s\n", i, []string{"no", "none"}[i%2]))
	}
	public, private := []string{"x,y\n"}, 0
	for _, line := range lines { // those that test, alone
		if faults, n := of("x,y\n" + line); n == 0 {
			public = append(public, line)
			if strings.Contains(line, "none") != strings.Contains(faults, "test record 1 (the first is 1),") {
				t.Errorf("%q: %q", line, faults)
			}
		} else {
			private++
		}
	}
	without, n := of(strings.Join(public, ""))
	with, more := of("x,y\n" + strings.Join(lines, ""))
	if n != 0 || more != private || private == 0 || without == "" || with != without {
		t.Errorf("%d private records beside: %q, without: %q", more, with, without)
	}
}
