package folder

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func jpegOf(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	check(t, jpeg.Encode(&b, img, nil))
	return b.Bytes()
}

// Four components are inks as Adobe's programs write them, with a marker that says so and without: pixels are those of ink.png,
// which another program made of the same files, up to a rounding.
func TestInks(t *testing.T) {
	f, err := os.Open("testdata/ink.png")
	check(t, err)
	defer f.Close()
	want, err := png.Decode(f)
	check(t, err)
	shape, pixels := [3]int{3, 16, 16}, make([]uint8, 3*16*16)
	fit(want, shape, pixels)
	for _, name := range []string{"ink.jpg", "ink-marked.jpg", "ink-progressive.jpg", "ink-progressive-marked.jpg"} {
		got, err := Image(filepath.Join("testdata", name), shape)
		if err != nil {
			t.Error(err)
			continue
		}
		for i := range got {
			if d := int(got[i]) - int(pixels[i]); d < -3 || d > 3 {
				t.Fatalf("%s: value %d is %d, want %d", name, i, got[i], pixels[i])
			}
		}
	}
}

// What cannot be read is named, with what to do.
func TestKinds(t *testing.T) {
	whole, photo := pngOf(t, drawn(1, 4, 4)), jpegOf(t, drawn(1, 16, 16))
	frame := bytes.Index(photo, []byte("\xff\xc0"))
	as := func(at int, value byte) []byte {
		other := slices.Clone(photo)
		other[frame+at] = value
		return other
	}
	scans := slices.Clone(photo[:len(photo)-2])
	scan := photo[bytes.Index(photo, []byte("\xff\xda")) : len(photo)-2]
	for range mostScans {
		scans = append(scans, scan...)
	}
	bits := bytes.Clone(whole)
	bits[len(bits)-20] ^= 0xff
	dir := t.TempDir()
	for want, data := range map[string][]byte{
		"is a GIF image: convert it to PNG or JPEG":     []byte("GIF89a and more"),
		"is a PNG in a form that only Apple's programs": []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x04CgBI\x50\x00 IEND"),
		"is a WebP image: convert":                      []byte("RIFF\x10\x00\x00\x00WEBPVP8 "),
		"is an AVIF image: convert":                     []byte("\x00\x00\x00\x20ftypavif"),
		"is a HEIC image: convert":                      []byte("\x00\x00\x00\x18ftypheic"),
		"is a HEIF image, or a film":                    []byte("\x00\x00\x00\x18ftypmif1"),
		"is a film":                                     []byte("\x00\x00\x00\x18ftypqt  "),
		"is a TIFF image, or a camera's raw one":        []byte("II*\x00\x08\x00\x00\x00"),
		"is a BMP image":                                []byte("BM\x00\x00\x00\x00"),
		"is a JPEG 2000 image":                          []byte("\x00\x00\x00\x0cjP  \r\n\x87\n"),
		"is a JPEG XL image":                            []byte("\xff\x0a\x00\x00"),
		"is a zip archive":                              []byte("PK\x03\x04"),
		"is an array of numpy":                          []byte("\x93NUMPY\x01\x00"),
		"is a companion of another file":                []byte("\x00\x05\x16\x07\x00\x02\x00\x00"),
		"is a pointer to a file that Git LFS":           []byte("version https://git-lfs.github.com/spec/v1\n"),
		"is a web page":                                 []byte("<!DOCTYPE html>"),
		"is no PNG and no JPEG: convert it":             []byte("something"),
		"is empty: copy it again":                       {},
		"ends too early: copy it again":                 whole[:len(whole)-30],
		"ends too early: copy it again, or":             photo[:len(photo)-40],
		"is a damaged PNG (":                            bits,
		"is a damaged JPEG (invalid JPEG format":        append(slices.Clone(photo[:frame]), "\xff\xd9"...),
		"is a JPEG with arithmetic coding, which":       as(1, 0xc9),
		"is a lossless JPEG, which is not supported":    as(1, 0xc3),
		"is a hierarchical JPEG":                        as(1, 0xc5),
		"is a JPEG-LS image":                            as(1, 0xf7),
		"is a JPEG of 12 bits a value, which is not":    as(4, 12),
		"is a JPEG of 2 components":                     as(9, 2),
		"is a JPEG of a kind that is not supported (lu": as(11, 0x31),
		"is too large: the most are 64 MiB, 33 million": scans,
	} {
		name := filepath.Join(dir, "x.jpg")
		write(t, data, name)
		if _, err := Image(name, [3]int{3, 4, 4}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "image "+name) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Its end is in a scan's place, and a thumbnail in a segment's.
	app := append([]byte("\xff\xd8\xff\xe1\x01\x02"), bytes.Repeat([]byte("\xff\xda\xff\xc3"), 64)...)
	write(t, append(app, photo[2:]...), dir, "y.jpg")
	if _, err := Image(filepath.Join(dir, "y.jpg"), [3]int{3, 4, 4}); err != nil {
		t.Errorf("markers within a segment: %v", err)
	}
}

// Hidden files, such as companions of macOS, are no images, wherever images are listed: by their names alone.
func TestHiddenFiles(t *testing.T) {
	dir := t.TempDir()
	image := pngOf(t, flat(10))
	for _, split := range []string{"train", "test"} {
		for _, name := range []string{"a/1.png", "a/._1.png", "a/.trashed-2.png", "a/.DS_Store", "a/Thumbs.db", "a/desktop.ini", "b/2.JPG", "b/._2.JPG", "__MACOSX/a/._1.png", ".hidden/1.png"} {
			write(t, image, dir, split, name)
		}
	}
	s, err := open(dir, declared("4x4", "a", "b"))
	if err != nil || !slices.Equal(s.Train.Labels, []uint8{0, 1}) || !slices.Equal(s.Test.Labels, []uint8{0, 1}) || s.TestDoubts != nil || len(s.TestFaults) != 0 {
		t.Errorf("%v: %+v", err, s)
	}
	names, err := Images(filepath.Join(dir, "test", "a"))
	if err != nil || !slices.Equal(names, []string{filepath.Join(dir, "test", "a", "1.png")}) {
		t.Errorf("%v, %v", names, err)
	}
	r, err := verify(dir, declared("4x4", "a", "b"))
	if err != nil || len(r.Private.Faults) > 0 {
		t.Error(err, r.Private.Faults)
	}
	for _, c := range r.Private.Counts {
		if strings.HasPrefix(c.What, "hidden files") && (c.Train != 6 || c.Test != 6) {
			t.Errorf("%+v", c)
		}
	}
}

// A damaged image of the test split is known by its name and fault; one of the training split to its owner alone.
func TestFaultsAreNamed(t *testing.T) {
	dir := t.TempDir()
	for _, split := range []string{"train", "test"} {
		write(t, pngOf(t, flat(10)), dir, split, "a", "1.png")
		write(t, []byte("GIF89a"), dir, split, "a", "2.png")
		write(t, nil, dir, split, "b", "3.png")
	}
	s, err := open(dir, declared("4x4", "a", "b"))
	check(t, err)
	want := map[int]string{1: filepath.Join(dir, "test/a/2.png") + " is a GIF image: convert it to PNG or JPEG", 2: filepath.Join(dir, "test/b/3.png") + " is empty: copy it again, or leave it out"}
	if len(s.TestFaults) != 2 || s.TestFaults[1] != want[1] || s.TestFaults[2] != want[2] {
		t.Errorf("%v", s.TestFaults)
	}
	r, err := verify(dir, declared("4x4", "a", "b"))
	notes := strings.Join(r.Private.Notes, "\n")
	if err != nil || !strings.Contains(notes, `train/a/2.png" is a GIF image`) || !strings.Contains(notes, `test/b/3.png" is empty`) {
		t.Errorf("%v\n%s", err, notes)
	}
}

// A class folder that may not be read has no records in training, without a word. Its owner is told, and of public
// test images all are.
func TestShutFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train/a/1.png", "train/b/2.png", "test/a/3.png", "test/b/4.png"} {
		write(t, pngOf(t, flat(10)), dir, name)
	}
	defer func() { readDir = os.ReadDir }()
	for _, x := range []struct {
		err  error
		want string
	}{
		{fs.ErrPermission, "may not be read: permission denied"}, {errors.New("input/output error"), "cannot be read: input/output error"},
	} {
		for _, split := range []string{"train", "test"} {
			shut := filepath.Join(dir, split, "b")
			readDir = func(name string) ([]fs.DirEntry, error) {
				if name == shut {
					return nil, &fs.PathError{Op: "open", Path: name, Err: x.err}
				}
				return os.ReadDir(name)
			}
			s, err := open(dir, declared("4x4", "a", "b"))
			f, errFacts := facts(dir, declared("4x4", "a", "b"))
			if err != nil || errFacts != nil {
				t.Fatal(err, errFacts)
			}
			want := "public test folder " + shut + " " + x.want
			for _, said := range [][]string{s.TestDoubts, f.TestDoubts} {
				if text := strings.Join(said, "; "); strings.Contains(text, want) != (split == "test") || strings.Contains(text, "train") || strings.Contains(text, "misspelled") {
					t.Errorf("%s: %q, want %q", split, text, want)
				}
			}
			r, err := verify(dir, declared("4x4", "a", "b"))
			if err != nil || len(r.Private.Faults) != 2 || !strings.Contains(r.Private.Faults[0], "folder "+shut+" "+x.want) {
				t.Errorf("%s: %v, %q", split, err, r.Private.Faults)
			}
		}
	}
}

// The folder of all training images is there whatever they are: if it may not be entered, that is said before a run makes
// nothing of none.
func TestShutSplit(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train/a/1.png", "train/b/2.png"} {
		write(t, pngOf(t, flat(10)), dir, name)
	}
	train := filepath.Join(dir, "train")
	before := enter
	defer func() { enter = before }()
	enter = func(name string) error {
		if name != train {
			t.Errorf("asked of %s", name)
		}
		return &fs.PathError{Op: "stat", Path: name, Err: fs.ErrPermission}
	}
	const want = " may not be read: permission denied; give yourself the right to read it"
	if _, err := open(dir, declared("4x4", "a", "b")); err == nil || err.Error() != "folder "+train+want {
		t.Errorf("opened: %v", err)
	}
	if r, err := verify(dir, declared("4x4", "a", "b")); err != nil || r.Structure == nil || r.Structure.Error() != "folder "+train+want {
		t.Errorf("verified: %v", r)
	}
	if enter = before; os.Geteuid() == 0 {
		return // who may enter all folders
	}
	check(t, os.Chmod(train, 0o600))
	defer os.Chmod(train, 0o700)
	if _, err := open(dir, declared("4x4", "a", "b")); err == nil || err.Error() != "folder "+train+want {
		t.Errorf("opened a folder that may not be entered: %v", err)
	}
}
