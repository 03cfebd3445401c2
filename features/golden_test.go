package features

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/encoder"
	"github.com/privgrad/privgrad/internal/patches"
)

// pseudo repeats the stream of scripts/features_golden.py.
func pseudo(seed uint64, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		seed = (seed*1103515245 + 12345) % (1 << 31)
		out[i] = float32(seed>>16&255) / 256
	}
	return out
}

// testdata/golden.json is made by scripts/features_golden.py in another language and in float64, where
// kernels add hundreds of float32 products: 1e-5 of the largest value is some fifty roundings.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Kind   string
		Shape  [3]int
		Seed   uint64
		Maps   int
		Side   int // of patches
		Mirror bool
		Values []float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		var l layer
		maps := c.Maps
		switch c.Kind {
		case "scatter":
			l = scatterKind.open(c.Shape, false, nil)
		case "patches": // of the first atoms, both signs
			p := patches.New("patches", c.Shape, false, c.Side, someAtoms(c.Seed+100, c.Shape[0]*c.Side*c.Side, c.Maps/2)).Ready()
			l = onCells([]*patches.Patches{p}, 2*patchAtoms)
		case "pairs": // of one size
			size := pairsSizes[slices.IndexFunc(pairsSizes, func(s pairsSize) bool { return s.side == c.Side })]
			values := c.Shape[0] * c.Side * c.Side
			p := size.open(c.Shape, c.Mirror, map[string][]float32{
				atomsName(c.Side):   centred(pseudo(c.Seed+100, size.atoms*values), values),
				projectName(c.Side): lessHalf(pseudo(c.Seed+200, patches.Directions*4*size.atoms)),
				offsetName(c.Side):  lessHalf(pseudo(c.Seed+300, patches.Directions)),
			}).Ready()
			l = onCells([]*patches.Pairs{p}, patches.Vectors)
		case "encoder":
			constants := map[string][]float32{}
			for name, shape := range encoder.Shapes() {
				n := 1
				for _, side := range shape {
					n *= side
				}
				layer := uint64(name[len("conv")] - '0')
				if len(shape) == 1 {
					layer += 10
				}
				constants[name] = lessHalf(pseudo(c.Seed+100*layer, n))
			}
			l = encoderKind.open(c.Shape, c.Mirror, constants)
		default:
			t.Fatal(c.Kind)
		}
		got := make([]float32, l.channels*l.rows*l.cols)
		l.worker()(got, pseudo(c.Seed, volume(c.Shape)))
		grid := l.rows * l.cols
		if len(c.Values) != maps*grid {
			t.Fatalf("%s of %v: %d values, want %d", c.Kind, c.Shape, maps*grid, len(c.Values))
		}
		largest := 0.
		for _, v := range c.Values {
			largest = max(largest, math.Abs(v))
		}
		for i, want := range c.Values {
			k := i / grid
			switch {
			case c.Kind == "pairs":
				k *= 31
			case c.Kind == "encoder":
				k *= 17
			case c.Kind == "patches" && k >= maps/2:
				k += patchAtoms - maps/2
			}
			if v := float64(got[i%grid*l.channels+k]); !(math.Abs(v-want) <= 1e-5*largest) {
				t.Fatalf("%s of %v: map %d is %g at %d, want %g", c.Kind, c.Shape, k, v, i%grid, want)
			}
		}
	}
}

// someAtoms are n atoms of mean 0, and zeros.
func someAtoms(seed uint64, size, n int) []float32 {
	return append(centred(pseudo(seed, n*size), size), make([]float32, (patchAtoms-n)*size)...)
}

// centred takes its mean from every atom.
func centred(atoms []float32, size int) []float32 {
	for atom := range slices.Chunk(atoms, size) {
		mean := 0.
		for _, v := range atom {
			mean += float64(v) / float64(size)
		}
		for i, v := range atom {
			atom[i] = float32(float64(v) - mean)
		}
	}
	return atoms
}

func lessHalf(x []float32) []float32 {
	for i := range x {
		x[i] -= .5
	}
	return x
}

// Whitening makes rounding larger. testdata/whitened.json has every 31st value of kernels with AVX-512, which
// those of other processors, and portable code, have to 1e-5 of the largest. make features writes it anew.
func TestGoldenWhitened(t *testing.T) {
	const path, stride = "testdata/whitened.json", 31
	golden := map[string][]float32{}
	if !*update {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &golden); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range shipped {
		f, err := committed(spec)
		if f == nil || err != nil {
			t.Fatal(err)
		}
		image := pseudo(7, volume(spec.Shape))
		for _, b := range f.blocks {
			maps, out := make([]float32, b.channels*b.rows*b.cols), make([]float32, b.channels*b.rows*b.keep)
			b.worker()(maps, image)
			b.whiten()(out, maps)
			name := spec.name() + " " + b.name
			if *update {
				for i := 0; i < len(out); i += stride {
					golden[name] = append(golden[name], out[i])
				}
				continue
			}
			largest := 0.
			for _, v := range out {
				largest = max(largest, math.Abs(float64(v)))
			}
			if len(golden[name]) != (len(out)+stride-1)/stride {
				t.Fatalf("%s: %d values", name, len(golden[name]))
			}
			for i, want := range golden[name] {
				if v := out[i*stride]; !(math.Abs(float64(v-want)) <= 1e-5*largest) {
					t.Errorf("%s: value %d is %g, want %g; the largest is %g", name, i*stride, v, want, largest)
					break
				}
			}
		}
	}
	if *update {
		text, err := json.Marshal(golden)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
