package tabular

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// text is a table with all that may be wrong with lines.
func text(r *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString("about\n\xef\xbb\xbfx,y,kind,label\n")
	for i := range n {
		switch r.IntN(12) {
		case 0:
			b.WriteString("\n")
		case 1:
			b.WriteString("1,2\r\n")
		case 2:
			b.WriteString("\xef\xbb\xbf3,\"4,red,yes\n")
		default:
			fmt.Fprintf(&b, "%v,%d,%s,%s\n", r.Float64(), r.IntN(12), []string{"red", "green", "\"blue\"", "?"}[r.IntN(4)], []string{"yes", "no", "perhaps"}[r.IntN(3)])
		}
		if i == n-1 && r.IntN(2) == 0 {
			b.WriteString("0.5,2,red,no") // without its end
		}
	}
	return b.String()
}

// What Each gives block by block is what Open reads at once, wherever the blocks end.
func TestEach(t *testing.T) {
	defer func(size int) { blockSize = size }(blockSize)
	const schema = `skip: 1
columns:
  - {name: x, bounds: [0, 1]}
  - {name: y, bounds: [0, 10]}
  - {name: kind, categories: [red, green, blue]}
label: {column: label, classes: ["no", "yes"]}
`
	r, dir := rand.New(rand.NewPCG(3, 4)), t.TempDir()
	path := filepath.Join(dir, "t.csv")
	for round, extra := range []string{"", "test_share: 0.3\nsplit_key: k\n", "test: t2.csv\n", "also: [t2.csv]\n"} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write([]byte(text(r, 40))); err != nil {
			t.Fatal(err)
		}
		check(t, z.Close())
		for name, content := range map[string]string{"t.csv": text(r, 60*round), "t2.csv.gz": packed.String(), "t.csv.schema.yaml": schema + extra} {
			check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		for _, o := range []Options{{}, {Folds: 3, Fold: 2}} {
			want, err := Open(path, o)
			check(t, err)
			for _, blockSize = range []int{1, 2, 7, 40, 1000, 1 << 20} {
				var train, test datasets.Split
				if err := Each(path, o, func(a, b datasets.Split) error {
					for _, to := range []struct{ to, from *datasets.Split }{{&train, &a}, {&test, &b}} {
						to.to.Values, to.to.Labels = append(to.to.Values, to.from.Values...), append(to.to.Labels, to.from.Labels...)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				for name, m := range map[string][2]datasets.Split{"training": {train, want.Train}, "test": {test, want.Test}} {
					if !slices.Equal(m[0].Values, m[1].Values) || !slices.Equal(m[0].Labels, m[1].Labels) {
						t.Errorf("%q %+v, blocks of %d: %d %s records, Open reads %d", extra, o, blockSize, m[0].Len(), name, m[1].Len())
					}
				}
			}
		}
	}
	never := func(datasets.Split, datasets.Split) error { return nil }
	// Tables are read in order: while the second is broken, the first must not be.
	for _, bad := range []struct{ file, content, says string }{
		{"t2.csv.gz", "not gzip", "t2.csv"},
		{"t.csv", "about\nx,y,label\n", "t.csv"},
	} {
		check(t, os.WriteFile(filepath.Join(dir, bad.file), []byte(bad.content), 0o600))
		if err := Each(path, Options{}, never); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: the error is %v", bad.file, err)
		}
	}
}
