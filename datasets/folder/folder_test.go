package folder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

func write(t *testing.T, data []byte, elem ...string) {
	t.Helper()
	name := filepath.Join(elem...)
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, data, 0o644))
}

func pngOf(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	check(t, png.Encode(&b, img))
	return b.Bytes()
}

// drawn is an opaque color image of random pixels.
func drawn(seed uint64, width, height int) *image.NRGBA {
	random := rand.New(rand.NewPCG(seed, 3))
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		if img.Pix[i] = uint8(random.Uint32()); i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	return img
}

// flat is a gray image of one value.
func flat(value uint8) image.Image {
	img := image.NewGray(image.Rect(0, 0, 4, 4))
	for i := range img.Pix {
		img.Pix[i] = value
	}
	return img
}

// huge is a PNG whose header announces more pixels than are decoded; nothing follows it.
func huge() []byte {
	chunk := append([]byte("IHDR"), 0, 1, 0, 0, 0, 1, 0, 0, 8, 2, 0, 0, 0) // 65536×65536
	b := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), uint32(len(chunk)-4))
	return binary.BigEndian.AppendUint32(append(b, chunk...), crc32.ChecksumIEEE(chunk))
}

func declared(size string, classes ...string) datasets.Declared {
	return datasets.Declared{Size: size, Classes: classes}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file is a record of its class; what cannot be decoded counts as zero, and what is no
// record leaves no trace.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	whole := pngOf(t, drawn(1, 4, 4))
	write(t, pngOf(t, flat(10)), dir, "train", "b", "1.png")
	write(t, pngOf(t, flat(20)), dir, "train", "b", "2.PNG")
	write(t, pngOf(t, flat(30)), dir, "train", "a", "x.jpeg") // by its content
	for name, data := range map[string][]byte{"damaged.png": []byte("no image"), "empty.jpg": nil, "cut.png": whole[:len(whole)-30], "huge.png": huge()} {
		write(t, data, dir, "train", "a", name)
	}
	// None of these is a record.
	write(t, whole, dir, "train", "other", "1.png")
	write(t, whole, dir, "train", "1.png")
	write(t, whole, dir, "train", "a", "below", "1.png")
	write(t, whole, dir, "train", "a", "named.png", "1.png")
	write(t, whole, dir, "train", "a", "notes.txt")
	for _, link := range [][2]string{{"../b/1.png", "train/a/link.png"}, {"b", "train/linked"}} {
		check(t, os.Symlink(link[0], filepath.Join(dir, link[1])))
	}
	s, err := open(dir, declared("4x4", "a", "b", "linked", "nowhere"))
	check(t, err)
	if facts, err := facts(dir, declared("4x4", "a", "b")); err != nil || !facts.Moves || !s.Moves {
		t.Errorf("a record that changes its class or its name moves others, which the set does not say (%v)", err)
	}
	if s.Train.Shape != [3]int{1, 4, 4} || s.Classes != 4 || s.Test.Shape != [3]int{} || s.Published || s.PublicN != 0 {
		t.Errorf("the set is %+v", s)
	}
	const none = datasets.NoClass // cut, damaged, empty and huge come before x.jpeg
	if want := []uint8{none, none, none, none, 0, 1, 1}; !slices.Equal(s.Train.Labels, want) {
		t.Fatalf("labels %v, want %v", s.Train.Labels, want)
	}
	for i, want := range []uint8{0, 0, 0, 0, 30, 10, 20} {
		if got := s.Train.Features[16*i:][:16]; !slices.Equal(got, slices.Repeat([]uint8{want}, 16)) {
			t.Errorf("record %d is %v, want %d", i, got, want)
		}
	}

	r, err := verify(dir, declared("4x4", "a", "b"))
	if err != nil || r.Structure != nil {
		t.Fatal(err, r.Structure)
	}
	counts := map[string]int{}
	for _, c := range r.Private.Counts {
		counts[c.What] = c.Train
	}
	for what, want := range map[string]int{
		"records": 7, "records that count as zero": 4, "class a": 1, "class b": 2, "images of 4×4 (the declared size)": 3, "images that are resized": 0,
		"damaged images, or no PNG or JPEG": 3, "links and folders in class folders, left out": 3, "hidden files, and files with other endings, left out": 1,
	} {
		if got, ok := counts[what]; !ok || got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	notes := strings.Join(r.Private.Notes, "\n")
	for _, name := range []string{"damaged.png", "empty.jpg", "cut.png", "huge.png", "other", "linked"} {
		if !strings.Contains(notes, name) {
			t.Errorf("the owner is not told of %s:\n%s", name, notes)
		}
	}
}

// Where the folders of the test images and the declared classes differ, the set says so, with
// its records and without. What is in the training folder makes no difference. The owner is told of both.
func TestDoubts(t *testing.T) {
	image := pngOf(t, flat(10))
	for _, x := range []struct {
		test []string // folders with an image
		want string
	}{
		{nil, ""},
		{[]string{"cat", "dogs", ".hidden"}, ""},
		{[]string{"cat", "dog"}, "the public test folder has no images of class dogs, and has a folder dog that --class-names does not list: is a name misspelled?"},
		{[]string{"cat"}, "the public test folder has no images of class dogs: is a name misspelled?"},
		{[]string{"cat", "dogs", "ship", "x\ny"}, `the public test folder has folders ship, "x\ny" that --class-names does not list: its images are not used`},
	} {
		for _, train := range [][]string{{"cat", "dogs"}, {"dog", "other"}, {"cat"}} {
			dir := t.TempDir()
			for _, name := range train {
				write(t, image, dir, "train", name, "1.png")
			}
			for _, name := range x.test {
				write(t, image, dir, "test", name, "1.png")
			}
			for of, read := range map[string]func(string, datasets.Declared) (*datasets.Set, error){"open": open, "facts": facts} {
				s, err := read(dir, declared("4x4", "cat", "dogs"))
				check(t, err)
				if got := strings.Join(s.TestDoubts, "|"); got != x.want {
					t.Errorf("%s, train %v, test %v: %q, want %q", of, train, x.test, got, x.want)
				}
			}
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"train/cat", "train/dog", "test/cat", "test/dogs"} {
		write(t, image, dir, name, "1.png")
	}
	r, err := verify(dir, declared("", "cat", "dogs"))
	if err != nil || r.Structure != nil {
		t.Fatal(err, r.Structure)
	}
	want := []string{"class dogs has no training record", "train has a folder dog that --class-names does not list"}
	if !slices.Equal(r.Private.Faults, want) {
		t.Errorf("faults %q, want %q", r.Private.Faults, want)
	}
	if !slices.ContainsFunc(r.Private.Counts, func(c datasets.Count) bool { return c.What == "images of 32×32 (the default)" }) {
		t.Errorf("the default size is not said: %v", r.Private.Counts)
	}
}

// What is refused follows from settings, and from whether PATH/train is there.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	if _, err := open(dir, declared("", "a", "b")); err == nil || !strings.Contains(err.Error(), "there is no folder "+filepath.Join(dir, "train")) {
		t.Errorf("without train: %v", err)
	}
	write(t, nil, dir, "train", "a", "1.png")
	for want, d := range map[string]datasets.Declared{
		"nothing says which classes":   declared(""),
		"class-names has 1 names":      declared("", "a"),
		`"a" twice`:                    declared("", "a", "b", "a"),
		"name 2 is empty":              declared("", "a", " "),
		`".." cannot be the name`:      declared("", "a", ".."),
		`"a/b" cannot be the name`:     declared("", "a", "a/b"),
		`"." cannot be the name`:       declared("", "a", "."),
		"image-size 4":                 declared("4", "a", "b"),
		"image-size 2x4x4: images are": declared("2x4x4", "a", "b"),
		"image-size 0x4":               declared("0x4", "a", "b"),
		"image-size 3x4x4x4":           declared("3x4x4x4", "a", "b"),
		"image-size 1024x1025":         declared("1024x1025", "a", "b"),
	} {
		if _, err := open(dir, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := facts(dir, d); strings.HasPrefix(want, "image-size") && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("before the images are read: %v, want %q", err, want)
		}
	}
	write(t, []byte("b\n\n  a  \r\n"), dir, ClassFile)
	s, err := open(dir, declared(""))
	if err != nil || !slices.Equal(s.ClassNames, []string{"b", "a"}) || s.Train.Shape != [3]int{3, 32, 32} || !slices.Equal(s.Train.Labels, []uint8{datasets.NoClass}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// mean is a value of a resized image by the definition: every pixel of the source is cut
// into pieces that fit into one of the result.
func mean(img image.Image, channel func(color.NRGBA) int, width, height, column, row int) int {
	b := img.Bounds()
	sum := 0
	for y := row * b.Dy(); y < (row+1)*b.Dy(); y++ {
		for x := column * b.Dx(); x < (column+1)*b.Dx(); x++ {
			sum += channel(color.NRGBAModel.Convert(img.At(b.Min.X+x/width, b.Min.Y+y/height)).(color.NRGBA))
		}
	}
	area := b.Dx() * b.Dy()
	return (sum + area/2) / area
}

// Every size to every other, by the definition, and to itself without a change.
func TestFit(t *testing.T) {
	colors := []func(color.NRGBA) int{
		func(c color.NRGBA) int { return int(c.R) }, func(c color.NRGBA) int { return int(c.G) }, func(c color.NRGBA) int { return int(c.B) },
	}
	for _, from := range [][2]int{{1, 1}, {5, 7}, {4, 4}, {13, 3}, {9, 9}} {
		img := drawn(uint64(from[0]), from[0], from[1]).SubImage(image.Rect(1, 0, from[0], from[1]))
		if from[0] == 1 {
			img = drawn(1, 1, 1)
		}
		for _, to := range [][2]int{{1, 1}, {4, 4}, {3, 8}, {12, 7}} {
			shape := [3]int{3, to[1], to[0]}
			dst := make([]uint8, 3*to[0]*to[1])
			fit(img, shape, dst)
			for c, channel := range colors {
				for y := range to[1] {
					for x := range to[0] {
						got := int(dst[(c*to[1]+y)*to[0]+x])
						if want := mean(img, channel, to[0], to[1], x, y); got != want {
							t.Fatalf("%v to %v: channel %d at %d, %d is %d, want %d", img.Bounds(), to, c, x, y, got, want)
						}
					}
				}
			}
		}
	}
}

func TestColors(t *testing.T) {
	pixel := func(img image.Image, channels int) []uint8 {
		dst := make([]uint8, channels)
		fit(img, [3]int{channels, 1, 1}, dst)
		return dst
	}
	one := func(c color.Color) image.Image {
		img := image.NewNRGBA64(image.Rect(0, 0, 1, 1))
		img.Set(0, 0, c)
		return img
	}
	for v := range 256 {
		gray := image.NewGray(image.Rect(0, 0, 1, 1))
		gray.Pix[0] = uint8(v)
		colored := one(color.NRGBA{uint8(v), uint8(v), uint8(v), 255})
		if a, b := pixel(gray, 3), pixel(colored, 1); !slices.Equal(a, []uint8{uint8(v), uint8(v), uint8(v)}) || b[0] != uint8(v) {
			t.Fatalf("gray %d becomes %v, and back %d", v, a, b[0])
		}
		c := color.NRGBA{uint8(v), uint8(255 - v), uint8(3 * v), 255}
		// The weights are rounded to 2⁻¹⁶, which moves the luma by 255·3·2⁻¹⁷ < 0.01, and the result to nearest.
		want := 0.299*float64(c.R) + 0.587*float64(c.G) + 0.114*float64(c.B)
		if got := pixel(one(c), 1)[0]; math.Abs(float64(got)-want) > 0.51 {
			t.Fatalf("%v is gray %d, want %v", c, got, want)
		}
	}
	if got := pixel(one(color.NRGBA{200, 100, 50, 0}), 3); !slices.Equal(got, []uint8{0, 0, 0}) {
		t.Errorf("what is transparent is %v, not black", got)
	}
	palette := image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.NRGBA{1, 2, 3, 255}})
	if got := pixel(palette, 3); !slices.Equal(got, []uint8{1, 2, 3}) {
		t.Errorf("of a palette: %v", got)
	}
}

// A JPEG is near what it was made of; one without colors is gray.
func TestJPEG(t *testing.T) {
	for _, img := range []image.Image{flat(77), image.NewUniform(color.NRGBA{200, 40, 90, 255})} {
		var b bytes.Buffer
		if u, ok := img.(*image.Uniform); ok {
			drawn := image.NewRGBA(image.Rect(0, 0, 8, 8))
			for i := range 64 {
				drawn.Set(i%8, i/8, u.C)
			}
			img = drawn
		}
		check(t, jpeg.Encode(&b, img, nil))
		d, dst := decoder{shape: [3]int{3, 2, 2}}, make([]uint8, 12)
		if v, err := d.decode(b.Bytes(), dst, false); v != resized || err != nil {
			t.Fatalf("verdict %d, %v", v, err)
		}
		red, green, blue, _ := img.At(0, 0).RGBA()
		for c, want := range []uint32{red >> 8, green >> 8, blue >> 8} {
			if got := int(dst[4*c]); got < int(want)-6 || got > int(want)+6 {
				t.Errorf("channel %d is %d, want about %d", c, got, want)
			}
		}
	}
}

// A decoder's panic is a bad record, and leaves no pixel behind.
func TestPanicIsABadRecord(t *testing.T) {
	dir := t.TempDir()
	write(t, pngOf(t, flat(9)), dir, "1.png")
	d, dst := decoder{shape: [3]int{3, 4, 4}}, make([]uint8, 20) // too small: fit is out of range
	for range 2 {                                                // and holds no lock
		if v, err := d.read(filepath.Join(dir, "1.png"), dst); v != corrupt || err == nil || !slices.Equal(dst, make([]uint8, 20)) {
			t.Errorf("verdict %d, pixels %v", v, dst)
		}
	}
}

// A long line of pixels, which a small file may hold, is judged by its header as well.
func TestLongSides(t *testing.T) {
	for _, side := range [][2]int{{mostSide + 1, 1}, {1, mostSide + 1}, {mostSide, 1}, {1, mostSide}} {
		d, dst := decoder{shape: [3]int{1, 2, 2}}, make([]uint8, 4)
		want := resized
		if max(side[0], side[1]) > mostSide {
			want = oversized
		}
		if v, _ := d.decode(pngOf(t, image.NewGray(image.Rect(0, 0, side[0], side[1]))), dst, false); v != want {
			t.Errorf("%v: verdict %d, want %d", side, v, want)
		}
	}
}

// No file is a record of two classes, as it would be where two names are one folder's.
func TestOneFolderOfTwoNames(t *testing.T) {
	dir := t.TempDir()
	write(t, nil, dir, "1.png")
	var s seen
	if err := errors.Join(s.list(dir), s.list(dir+"/.")); err != nil || len(s.names) != 1 {
		t.Errorf("records %v", s.names)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(pngOf(f, flat(3)))
	f.Add(pngOf(f, drawn(1, 5, 3)))
	f.Add(huge())
	for _, name := range []string{"ink.jpg", "ink-progressive-marked.jpg"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, flat(200), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		d, dst := decoder{shape: [3]int{3, 4, 4}}, make([]uint8, 48)
		if v, err := d.decode(data, dst, false); (v >= oversized) != (err != nil) || err != nil && !slices.Equal(dst, make([]uint8, 48)) {
			t.Error("a bad record left pixels")
		}
	})
}
