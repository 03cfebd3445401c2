package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
)

// made is a small image set of four classes. The seed changes the training pixels,
// and rows their number.
func made(seed uint64, rows int) *datasets.Set {
	const side, classes = 8, 4
	draw := func(n int) datasets.Split {
		s := datasets.Split{Shape: [3]int{1, side, side}}
		for i := range n {
			s.Labels = append(s.Labels, uint8(i%classes))
			for j := range side * side {
				s.Features = append(s.Features, uint8(31*i+7*j+int(seed)))
			}
		}
		return s
	}
	return &datasets.Set{
		Name: "made", Classes: classes, ClassNames: []string{"a", "b", "c", "d"},
		Train: draw(rows), Test: draw(80),
		PublicN: 400, PerClass: []int{100, 100, 100, 100}, TestIsPublic: true,
	}
}

func sources(set *datasets.Set) map[string]source.Source {
	return map[string]source.Source{"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}
}

func ptr[T any](x T) *T { return &x }

// small is a short private run on the made set, two classes of it.
func small() config.Config {
	c := config.Default()
	c.Data, c.Classes, c.Model = "made", []int{0, 1}, "logistic"
	c.NoiseMultiplier, c.Batch, c.Steps = ptr(1.0), ptr(40.0), ptr(24)
	c.LR, c.EvalEvery, c.Threads = ptr(0.5), 5, 1
	return c
}

// makeTable writes t.csv with a schema to the working directory.
func makeTable(t *testing.T, schema string) {
	t.Helper()
	columns := "columns: [{name: a, bounds: [0, 1]}, {name: b, categories: [p, q, r]}, {name: c, bounds: [-1, 1]}]\n" +
		"label: {column: y, classes: [0, 1]}\n"
	check(t, os.WriteFile("t.csv", []byte("a,b,c,y\n"+strings.Repeat("0.4,q,-0.2,1\n0.7,p,0.3,0\n", 25)), 0o644))
	check(t, os.WriteFile("t.csv.schema.yaml", []byte(columns+schema), 0o644))
}

// tableConfig is a short private run on t.csv.
func tableConfig() config.Config {
	c := config.Default()
	c.Data, c.PublicN, c.Delta = source.TablePrefix+"t.csv", ptr(2000), ptr(1e-5)
	c.NoiseMultiplier, c.Batch, c.Steps, c.Threads = ptr(1.0), ptr(200.0), ptr(30), 1
	return c
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	check(t, err)
	return b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
