package features

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/half"
)

// small are specs of every kind whose constants are made fast.
var small = []Spec{
	{Kind: "scatter", Whiten: None, Shape: [3]int{1, 12, 8}},
	{Kind: "scatter", Whiten: None, Mirror: true, Shape: [3]int{2, 12, 12}},
	{Kind: "scatter", Whiten: Pink, Mirror: true, Shape: [3]int{1, 8, 8}},
	{Kind: "patches", Whiten: None, Shape: [3]int{1, 9, 10}},
	{Kind: "scatter+patches", Whiten: None, Mirror: true, Shape: [3]int{1, 16, 16}},
	{Kind: "scatter", Whiten: None, Deskew: true, Shape: [3]int{2, 12, 16}},
	{Kind: "patches", Whiten: None, Mirror: true, Deskew: true, Shape: [3]int{1, 16, 12}},
	{Kind: "pairs", Whiten: None, Mirror: true, Shape: [3]int{1, 22, 21}},
	{Kind: "scatter+pairs", Whiten: None, Shape: [3]int{2, 24, 28}},
	{Kind: "encoder", Whiten: None, Shape: [3]int{3, 17, 20}},
	{Kind: "scatter+encoder", Whiten: None, Mirror: true, Shape: [3]int{3, 16, 20}},
}

// fronts gives the small front ends, made once, and those of recipes.
func fronts(t *testing.T) []*Front {
	t.Helper()
	var all []*Front
	for _, spec := range slices.Concat(small, shipped[:1], joined) {
		all = append(all, front(t, spec))
	}
	return all
}

var made = map[Spec]*Front{}

// front is the front end of a spec, made once.
func front(t *testing.T, spec Spec) *Front {
	t.Helper()
	if made[spec] == nil {
		f, err := New(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		made[spec] = f
	}
	return made[spec]
}

func eachFront(t *testing.T, test func(t *testing.T, f *Front)) {
	for _, f := range fronts(t) {
		t.Run(f.spec.name(), func(t *testing.T) { test(t, f) })
	}
}

func floats(row []uint16) []float64 {
	x := make([]float64, len(row))
	for i, h := range row {
		x[i] = float64(half.ToFloat32(h))
	}
	return x
}

func norm(x []float64) float64 {
	square := 0.
	for _, v := range x {
		square += v * v
	}
	return math.Sqrt(square)
}

// Rounding to halves moves an element by at most 2⁻¹¹ of itself, or by 2⁻²⁵ where it is tiny.
const halfRounding = 1. / (1 << 11)

func TestRowsHaveTheirNorm(t *testing.T) {
	eachFront(t, func(t *testing.T, f *Front) {
		const n = 5
		rows := f.Rows(Images{Values: drawn(f.In(), n)}, 1, nil)
		if len(rows) != n*f.Width() || volume(f.Out()) != f.Width() {
			t.Fatalf("%d values in %d rows of %d, shape %v", len(rows), n, f.Width(), f.Out())
		}
		for i := range n {
			row := floats(rows[i*f.Width() : (i+1)*f.Width()])
			if got := norm(row); math.Abs(got-Scale) > Scale*2*halfRounding {
				t.Errorf("row %d has norm %g", i, got)
			}
			weights, all := map[string]float64{"scatter": .3, "patches": .7, "pairs": 1, "encoder": .8}, 0.
			for _, b := range f.blocks {
				all += weights[b.name]
			}
			for _, b := range f.blocks {
				want := Scale * math.Sqrt(weights[b.name]/all)
				if got := norm(row[:b.width()]); math.Abs(got-want) > want*2*halfRounding {
					t.Errorf("block %s of row %d has norm %g, want %g", b.name, i, got, want)
				}
				row = row[b.width():]
			}
		}
	})
}

// A row is a function of its image: other images, their order and the number of threads do not change a bit.
func TestRowsSeeTheirImageAlone(t *testing.T) {
	eachFront(t, func(t *testing.T, f *Front) {
		const n = 19 // four together on one thread
		in, width := volume(f.In()), f.Width()
		images := drawn(f.In(), n)
		want := f.Rows(Images{Values: images}, 1, nil)
		if got := f.Rows(Images{Values: images}, 4, nil); !slices.Equal(got, want) {
			t.Error("four threads give other rows")
		}
		var reversed []float32
		for i := n - 1; i >= 0; i-- {
			reversed = append(reversed, images[i*in:(i+1)*in]...)
		}
		backwards := f.Rows(Images{Values: reversed}, 2, nil)
		wild := slices.Clone(images)
		for i := range wild {
			if i/in != 3 {
				wild[i] *= 1000
			}
		}
		wild[0] = float32(math.Inf(1))
		for i := in; i < 2*in; i++ {
			wild[i] = float32(1-2*(i%2)) * math.MaxFloat32
		}
		among := f.Rows(Images{Values: wild}, 1, nil)
		for i := range n {
			row := want[i*width : (i+1)*width]
			if !slices.Equal(row, backwards[(n-1-i)*width:(n-i)*width]) {
				t.Errorf("row %d is another one in another order", i)
			}
			if alone := f.Rows(Images{Values: images[i*in : (i+1)*in]}, 1, nil); !slices.Equal(row, alone) {
				t.Errorf("row %d is another one alone", i)
			}
			if i == 3 && !slices.Equal(row, among[i*width:(i+1)*width]) {
				t.Errorf("row %d is another one among other images", i)
			}
			for j := range i {
				if slices.Equal(row, want[j*width:(j+1)*width]) {
					t.Errorf("rows %d and %d are the same", i, j)
				}
			}
		}
	})
}

// flipped are the mirror images.
func flipped(images []float32, width int) []float32 {
	out := slices.Clone(images)
	for i := 0; i < len(out); i += width {
		slices.Reverse(out[i : i+width])
	}
	return out
}

func TestMirrorImagesHaveOneRow(t *testing.T) {
	eachFront(t, func(t *testing.T, f *Front) {
		const n = 4
		images := drawn(f.In(), n)
		rows := floats(f.Rows(Images{Values: images}, 1, nil))
		others := floats(f.Rows(Images{Values: flipped(images, f.In()[2])}, 1, nil))
		for i := range n {
			row, other := rows[i*f.Width():(i+1)*f.Width()], others[i*f.Width():(i+1)*f.Width()]
			apart := 0.
			for k := range row {
				apart += (row[k] - other[k]) * (row[k] - other[k])
			}
			apart = math.Sqrt(apart) / Scale
			// Sums in another order differ by some roundings of float32, which whitening makes up to 30 times
			// as large; halves then by one.
			if f.spec.Mirror && apart > 2*halfRounding {
				t.Errorf("the mirror image's row is %g away", apart)
			}
			if !f.spec.Mirror && apart < .02 {
				t.Errorf("the mirror image's row is only %g away", apart)
			}
		}
	})
}

// What is left out where rows are mirrored is what is there already: products of rows
// are those of whole rows.
func TestLeftHalfSuffices(t *testing.T) {
	for _, f := range fronts(t) {
		for _, b := range f.blocks {
			if b.keep == b.cols {
				continue
			}
			t.Run(f.spec.name()+" "+b.name, func(t *testing.T) {
				whole := *b
				whole.keep = whole.cols
				const n = 3
				images, in := drawn(f.In(), n), volume(f.In())
				var short, long [n][]float64
				for i := range n {
					for _, of := range []struct {
						b    *block
						rows *[n][]float64
					}{{b, &short}, {&whole, &long}} {
						row := make([]uint16, of.b.width())
						ok := []bool{true}
						of.b.part(0, 1)([][]uint16{row}, images[i*in:(i+1)*in], ok)
						if !ok[0] {
							t.Fatal("not finite")
						}
						of.rows[i] = floats(row)
					}
				}
				for i := range n {
					for j := range n {
						a, b := inner(short[i], short[j]), inner(long[i], long[j])
						if math.Abs(a-b) > 2*halfRounding {
							t.Errorf("rows %d and %d: %g of the left half, %g of all", i, j, a, b)
						}
					}
				}
			})
		}
	}
}

func inner(x, y []float64) float64 {
	sum := 0.
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func TestBytesAreValuesOver255(t *testing.T) {
	f := fronts(t)[0]
	bytes := make([]uint8, 2*volume(f.In()))
	values := make([]float32, len(bytes))
	for i := range bytes {
		bytes[i] = uint8(i * 37)
		values[i] = float32(bytes[i]) / 255
	}
	if !slices.Equal(f.Rows(Images{Bytes: bytes}, 1, nil), f.Rows(Images{Values: values}, 1, nil)) {
		t.Error("bytes give other rows than their values")
	}
}

func TestImagesThatAreNotFinite(t *testing.T) {
	eachFront(t, func(t *testing.T, f *Front) {
		in, width := volume(f.In()), f.Width()
		images := drawn(f.In(), 4)
		images[0] = float32(math.NaN())
		images[2*in-1] = float32(math.Inf(-1))
		images[2*in], images[2*in+1] = math.MaxFloat32, -math.MaxFloat32 // finite, and too large for any arithmetic
		rows := f.Rows(Images{Values: images}, 1, nil)
		for i := range 4 {
			row, nans := floats(rows[i*width:(i+1)*width]), 0
			for _, v := range row {
				if math.IsInf(v, 0) {
					t.Fatalf("row %d has an infinite value", i)
				}
				if math.IsNaN(v) {
					nans++
				}
			}
			if i < 2 && nans != width || i == 2 && nans != 0 && nans != width || i == 3 && nans != 0 {
				t.Errorf("row %d has %d values that are no numbers, of %d", i, nans, width)
			}
		}
	})
}

func TestBlankImages(t *testing.T) {
	f := fronts(t)[3] // patches without whitening: nothing stands out of a blank image
	if f.spec.Kind != "patches" {
		t.Fatal(f.spec)
	}
	for _, h := range f.Rows(Images{Bytes: make([]uint8, volume(f.In()))}, 1, nil) {
		if h != 0 {
			t.Fatalf("a blank image has the feature %g", half.ToFloat32(h))
		}
	}
}

// Percents say nothing of how many images there are.
func TestProgress(t *testing.T) {
	f := fronts(t)[0]
	for _, n := range []int{0, 1, 3, 250} {
		var got []int
		f.Rows(Images{Bytes: make([]uint8, n*volume(f.In()))}, 3, func(p int) { got = append(got, p) })
		if len(got) != 100 {
			t.Fatalf("%d reports of %d images", len(got), n)
		}
		for i, p := range got {
			if p != i+1 {
				t.Fatalf("report %d of %d images is %d", i, n, p)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	good := Spec{Kind: "scatter", Whiten: Leaves, Shape: [3]int{1, 28, 28}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(Kinds(), " "); got != "scatter patches pairs encoder scatter+patches scatter+pairs patches+pairs scatter+encoder patches+encoder pairs+encoder "+
		"scatter+patches+pairs scatter+patches+encoder scatter+pairs+encoder patches+pairs+encoder scatter+patches+pairs+encoder" {
		t.Errorf("kinds are %s", got)
	}
	for _, c := range []struct {
		change func(*Spec)
		say    string
	}{
		{func(s *Spec) { s.Kind = "" }, "use one of scatter, patches, pairs, encoder, scatter+patches"},
		{func(s *Spec) { s.Kind = "patches+scatter" }, "use one of"},
		{func(s *Spec) { s.Kind = "scatter+scatter" }, "use one of"},
		{func(s *Spec) { s.Whiten = "" }, "use one of none, leaves, pink"},
		{func(s *Spec) { s.Shape[1] = 30 }, "multiples of 4"},
		{func(s *Spec) { s.Shape[2] = 4 }, "8 or more"},
		{func(s *Spec) { s.Shape[0] = 0 }, "0x28x28"},
		{func(s *Spec) { s.Shape[0] = 9 }, "at most 8 channels"},
		{func(s *Spec) { s.Shape[1] = 100 }, "96×96"},
		{func(s *Spec) { s.Kind, s.Shape = "patches", [3]int{1, 6, 30} }, "7×7"},
		{func(s *Spec) { s.Kind, s.Shape = "scatter+pairs", [3]int{1, 20, 28} }, "21×21"},
		{func(s *Spec) { s.Kind = "encoder" }, "3 colors"},
		{func(s *Spec) { s.Kind, s.Shape = "encoder", [3]int{3, 15, 28} }, "16×16"},
		{func(s *Spec) { s.Shape = [3]int{math.MaxInt, math.MaxInt, 4} }, "smaller"},
	} {
		s := good
		c.change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%+v: error %v, which should say %q", s, err, c.say)
		}
		if _, err := New(s, nil); err == nil {
			t.Errorf("New takes %+v", s)
		}
		if _, err := Fit(s, nil); err == nil {
			t.Errorf("Fit takes %+v", s)
		}
	}
}

func TestTaking(t *testing.T) {
	for kind, want := range map[string]string{"scatter+patches+pairs": "scatter+patches", "pairs": "pairs", "scatter": "scatter", "": "", "pairs+encoder": "encoder"} {
		if got := Taking(kind, [3]int{3, 16, 16}); got != want {
			t.Errorf("of %q, %q takes small images, want %q", kind, got, want)
		}
	}
}

// extremes are the smallest and the largest images of each kind.
var extremes = []Spec{
	{Kind: "scatter", Whiten: None, Shape: [3]int{1, 8, 96}, Mirror: true},
	{Kind: "scatter", Whiten: None, Shape: [3]int{8, 8, 8}},
	{Kind: "scatter", Whiten: None, Shape: [3]int{1, 96, 96}},
	{Kind: "patches", Whiten: None, Shape: [3]int{1, 7, 7}, Mirror: true},
	{Kind: "patches", Whiten: None, Shape: [3]int{1, 9, 96}, Mirror: true},
	{Kind: "patches", Whiten: None, Shape: [3]int{1, 96, 9}},
	{Kind: "pairs", Whiten: None, Shape: [3]int{3, 21, 21}},
	{Kind: "pairs", Whiten: None, Shape: [3]int{1, 21, 96}, Mirror: true},
	{Kind: "encoder", Whiten: None, Shape: [3]int{3, 16, 16}, Mirror: true},
	{Kind: "encoder", Whiten: None, Shape: [3]int{3, 16, 96}, Mirror: true},
	{Kind: "encoder", Whiten: None, Shape: [3]int{3, 96, 17}},
}

// The largest images take the reference too long: this compares nothing, and finds what does not fit.
func TestLargestImages(t *testing.T) {
	for _, mirror := range []bool{false, true} {
		spec := Spec{Kind: "pairs", Whiten: None, Mirror: mirror, Shape: [3]int{maxChannels, maxSide, maxSide - 5}}
		f, err := Rehearse(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := norm(floats(f.Rows(Images{Values: drawn(spec.Shape, 1)}, 1, nil))); math.Abs(got-Scale) > Scale*2*halfRounding {
			t.Errorf("%s: norm %g", spec.name(), got)
		}
	}
}

func TestExtremeShapes(t *testing.T) {
	for _, spec := range extremes {
		f := front(t, spec)
		if got := norm(floats(f.Rows(Images{Values: drawn(spec.Shape, 1)}, 1, nil))); math.Abs(got-Scale) > Scale*2*halfRounding {
			t.Errorf("%s: norm %g", spec.name(), got)
		}
	}
}
