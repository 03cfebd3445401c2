package plan

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
)

// Whatever the number of ranks, they have each training record once, in the order of one process:
// of a table that each of them reads whole, of its shards, and of some classes of a set.
func TestRanksTogether(t *testing.T) {
	t.Chdir(t.TempDir())
	var table strings.Builder
	for i := range 53 {
		fmt.Fprintf(&table, "%d,%d\n", i, i%3)
	}
	check(t, os.WriteFile("t.csv", []byte(table.String()), 0o600))
	check(t, os.WriteFile("t.csv.schema.yaml", []byte("header: none\ncolumns: [{name: x, bounds: [0, 64]}, {name: y}]\nlabel: {column: y, classes: [0, 1]}\n"), 0o600))

	load := func(c config.Config, rank datasets.Rank) (values []float32, features, labels []uint8) {
		set, _, err := source.Open(&c, sources(made(1, 100)), false, rank)
		check(t, err)
		return set.Train.Values, set.Train.Features, set.Train.Labels
	}
	csv := config.Config{Data: "csv:t.csv"}
	set, err := source.OpenFiles(&csv, nil, false)
	check(t, err)
	w, err := shards.Create("s", set, 60, 4) // unequal ones
	check(t, err)
	check(t, w.Train(set.Train))
	check(t, w.Close())

	some := small()
	some.Classes, some.PublicN = []int{1, 0}, nil
	for _, c := range []config.Config{{Data: "csv:t.csv"}, {Data: "shards:s"}, some} {
		values, features, labels := load(c, datasets.Rank{})
		if len(labels) < 20 {
			t.Fatalf("%s has %d records", c.Data, len(labels))
		}
		for ranks := 1; ranks <= 8; ranks++ {
			var v []float32
			var f, l []uint8
			for rank := range ranks {
				x, y, z := load(c, datasets.Rank{Rank: rank, Of: ranks})
				v, f, l = append(v, x...), append(f, y...), append(l, z...)
			}
			if !slices.Equal(v, values) || !slices.Equal(f, features) || !slices.Equal(l, labels) {
				t.Errorf("%s: %d ranks have %d records together, one process has %d", c.Data, ranks, len(l), len(labels))
			}
		}
	}
}

// Shards stand for the published images that have their classes and size, whatever their folder's name: a
// protector that was trained on those knows them.
func TestRecordsOfShards(t *testing.T) {
	digits := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	for _, test := range []struct {
		data, size string
		classes    []string
		want       string
	}{
		{"shards:s", "1x28x28", digits, "mnist"}, {"shards:s", "1x14x14", digits, "shards:s"}, {"shards:s", "1x28x28", digits[1:], "shards:s"},
		{"npz:s", "1x28x28", digits, "npz:s"}, {"mnist", "", nil, "mnist"},
	} {
		c := config.Config{Data: test.data, ImageSize: test.size, ClassNames: test.classes}
		if got := source.RecordsOf(&c); got != test.want {
			t.Errorf("%+v are the records of %s", test, got)
		}
	}
}
