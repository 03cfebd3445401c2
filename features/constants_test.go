package features

import (
	"bytes"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the constants that come with the package anew")

// shipped are the specs whose constants come with the package, each of one kind.
var shipped = []Spec{
	{Kind: "scatter", Whiten: Leaves, Shape: [3]int{1, 28, 28}},
	{Kind: "scatter", Whiten: Leaves, Mirror: true, Shape: [3]int{1, 28, 28}},
	{Kind: "scatter", Whiten: Leaves, Mirror: true, Shape: [3]int{3, 32, 32}},
	{Kind: "patches", Whiten: Leaves, Mirror: true, Shape: [3]int{1, 28, 28}},
	{Kind: "patches", Whiten: Leaves, Mirror: true, Shape: [3]int{3, 32, 32}},
	{Kind: "pairs", Whiten: Leaves, Mirror: true, Shape: [3]int{3, 32, 32}},
	{Kind: "encoder", Whiten: Leaves, Mirror: true, Shape: [3]int{3, 32, 32}},
}

// joined are specs of shipped kinds that recipes take.
var joined = []Spec{
	{Kind: "scatter+patches", Whiten: Leaves, Mirror: true, Shape: [3]int{1, 28, 28}},
	{Kind: "scatter+patches+pairs", Whiten: Leaves, Mirror: true, Shape: [3]int{3, 32, 32}},
	{Kind: "scatter+patches+pairs+encoder", Whiten: Leaves, Mirror: true, Shape: [3]int{3, 32, 32}},
}

// What is committed is what Fit makes, on every machine: rounding of float32 products may
// differ, by 1e-5 of the largest constant.
func TestLongConstants(t *testing.T) {
	for _, spec := range shipped {
		t.Run(spec.name(), func(t *testing.T) {
			fitted, err := Fit(spec, nil)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				var b bytes.Buffer
				if err := fitted.Write(&b); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(constantPath(spec), b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			had, err := committed(spec)
			if err != nil || had == nil {
				t.Fatalf("no constants: %v", err)
			}
			for i, b := range fitted.blocks {
				for name, values := range b.constants {
					largest, worst := 0., 0.
					for k, v := range values {
						largest = max(largest, math.Abs(float64(v)))
						rounded := 0.
						if b.half(name) { // one may round up, the other down
							rounded = math.Abs(float64(v)) / (1 << 10)
						}
						worst = max(worst, math.Abs(float64(v-had.blocks[i].constants[name][k]))-rounded)
					}
					t.Logf("%s.%s: at most %.2g of the largest, %g", b.name, name, worst/largest, largest)
					if !(worst <= 1e-5*largest) {
						t.Errorf("%s.%s differ by %g, the largest is %g: run make features and say why in the commit", b.name, name, worst, largest)
					}
				}
			}
		})
	}
}

func TestShippedConstantsAreFew(t *testing.T) {
	entries, err := constantFiles.ReadDir("constants")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(shipped) {
		t.Errorf("%d files of constants for %d specs", len(entries), len(shipped))
	}
	size, encoder := int64(0), int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Name(), "encoder-") {
			encoder += info.Size()
		} else {
			size += info.Size()
		}
	}
	if size > 12e6 || encoder > 8<<20 {
		t.Errorf("constants have %d bytes, and those of the encoder %d, which every binary carries", size, encoder)
	}
	for _, spec := range slices.Concat(shipped, joined) {
		if f, err := committed(spec); f == nil || err != nil || f.spec != spec {
			t.Errorf("no constants of %s come with the package: %v", spec.name(), err)
		}
	}
}
