package datasets

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// toy has images of 2×3 in an IDX pair for training and one for testing.
var toy = &Layout{
	Name: "toy", ClassNames: []string{"zero", "one", "two"}, PerClass: []int{100, 200, 300},
	Shape: [3]int{1, 2, 3}, Note: "made up", Subdir: "toy-dir",
	Train: []Part{{"train-x", IDXImages}, {"train-y", IDXLabels}},
	Test:  []Part{{"test-x", IDXImages}, {"test-y", IDXLabels}},
}

// rows is the private row count of the toy training file.
const rows = 4321

// idxFile writes an IDX file of unsigned bytes.
func idxFile(payload []byte, dims ...uint32) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, payload...)
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	check(t, z.Close())
	return b.Bytes()
}

func count(n int, step byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) * step
	}
	return b
}

// toyFiles returns the files of a well-formed set by name without .gz. Every
// 256th training label or so is out of range.
func toyFiles() map[string][]byte {
	labels := count(rows, 1)
	for i := range labels {
		if labels[i] != 255 {
			labels[i] %= 3
		}
	}
	return map[string][]byte{
		"train-x": idxFile(count(rows*6, 7), rows, 2, 3),
		"train-y": idxFile(labels, rows),
		"test-x":  idxFile(count(2*6, 5), 2, 2, 3),
		"test-y":  idxFile([]byte{2, 9}, 2),
	}
}

func mapFS(files map[string][]byte) fstest.MapFS {
	m := fstest.MapFS{}
	for name, data := range files {
		m[name] = &fstest.MapFile{Data: data}
	}
	return m
}

func packed(t testing.TB, files map[string][]byte) map[string][]byte {
	p := make(map[string][]byte)
	for name, data := range files {
		p[name+".gz"] = pack(t, data)
	}
	return p
}

func under(dir string, files map[string][]byte) map[string][]byte {
	p := make(map[string][]byte)
	for name, data := range files {
		p[dir+"/"+name] = data
	}
	return p
}

func write(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		name = filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(name), 0o755))
		check(t, os.WriteFile(name, data, 0o644))
	}
}

func TestOpen(t *testing.T) {
	plain := toyFiles()
	mixed := packed(t, plain)
	delete(mixed, "train-y.gz")
	mixed["train-y"] = plain["train-y"]
	concatenated := packed(t, plain)
	concatenated["train-x.gz"] = append(pack(t, plain["train-x"][:1000]), pack(t, plain["train-x"][1000:])...)
	empty := toyFiles()
	empty["train-x"], empty["train-y"] = idxFile(nil, 0, 2, 3), idxFile(nil, 0)
	for name, files := range map[string]map[string][]byte{
		"plain": plain, "gz": packed(t, plain), "mixed": mixed, "concatenated gz": concatenated,
		"subdirectory": under("toy-dir", plain), "subdirectory gz": under("toy-dir", packed(t, plain)),
		"no training rows": empty,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, files)
			s, err := toy.Open(dir)
			check(t, err)
			if s.Name != "toy" || s.Classes != 3 || s.PublicN != 600 || !slices.Equal(s.PerClass, toy.PerClass) ||
				!slices.Equal(s.ClassNames, toy.ClassNames) || !s.TestIsPublic || s.Note != "made up" {
				t.Errorf("the set is described as %q %d %d %v", s.Name, s.Classes, s.PublicN, s.PerClass)
			}
			want := plain
			if name == "no training rows" {
				want = empty
			}
			if s.Train.Shape != toy.Shape || !bytes.Equal(s.Train.Features, want["train-x"][16:]) || !bytes.Equal(s.Train.Labels, want["train-y"][8:]) {
				t.Error("the training split differs from its files")
			}
			if s.Test.Shape != toy.Shape || !bytes.Equal(s.Test.Features, want["test-x"][16:]) || !bytes.Equal(s.Test.Labels, []byte{2, 9}) {
				t.Error("the test split differs from its files")
			}
			s.PerClass[0], s.ClassNames[0] = 0, ""
			if toy.PerClass[0] != 100 || toy.ClassNames[0] != "zero" {
				t.Error("the set shares its tables with the layout")
			}
		})
	}
}

// faults are the structural faults of an IDX set: what the file contains and what
// the error says.
var faults = []struct {
	name, file string
	damage     func([]byte) []byte
	want       string
}{
	{"empty file", "train-x", func([]byte) []byte { return nil }, "header is cut off"},
	{"short header", "train-x", func(b []byte) []byte { return b[:15] }, "header is cut off"},
	{"short label header", "train-y", func(b []byte) []byte { return b[:7] }, "header is cut off"},
	{"a web page", "train-x", func([]byte) []byte { return []byte("<!DOCTYPE html><html>") }, "magic number"},
	{"float elements", "train-x", func(b []byte) []byte { b[2] = 0x0d; return b }, "element type is 0x0d, want 0x08"},
	{"labels for images", "train-x", func([]byte) []byte { return idxFile(make([]byte, 20), 20) }, "number of dimensions is 1, want 3"},
	{"images for labels", "test-y", func([]byte) []byte { return idxFile(make([]byte, 12), 2, 2, 3) }, "number of dimensions is 3, want 1"},
	{"other height", "train-x", func(b []byte) []byte { b[11] = 3; return b }, "dimension 1 of a record is 3, want 2"},
	{"other width", "train-x", func(b []byte) []byte { b[12] = 1; return b }, "dimension 2 of a record is 16777219, want 3"},
	{"truncated", "train-x", func(b []byte) []byte { return b[:len(b)-1] }, "ends before the last record"},
	{"truncated labels", "train-y", func(b []byte) []byte { return b[:len(b)-1] }, "ends before the last record"},
	{"huge announcement", "train-x", func(b []byte) []byte { copy(b[4:], "\xff\xff\xff\xff"); return b }, "ends before the last record"},
	{"trailing byte", "train-x", func(b []byte) []byte { return append(b, 0) }, "bytes follow the last record"},
	{"trailing labels", "test-y", func(b []byte) []byte { return append(b, 1, 1) }, "bytes follow the last record"},
	{"one label less", "train-y", func(b []byte) []byte { return idxFile(b[8:len(b)-1], rows-1) }, "hold different numbers of records"},
	{"one test image more", "test-x", func(b []byte) []byte { return idxFile(append(b[16:], 1, 2, 3, 4, 5, 6), 3, 2, 3) }, "hold different numbers of records"},
}

// sober checks an error: it names the file and no private count.
func sober(t *testing.T, err error, path, want string) {
	t.Helper()
	if err == nil {
		t.Fatal("the fault was accepted")
	}
	msg := err.Error()
	if !strings.HasPrefix(msg, "toy: ") || !strings.Contains(msg, path) || !strings.Contains(msg, want) {
		t.Errorf("error %q, want one that names %q and says %q", msg, path, want)
	}
	for _, private := range []string{"4320", "4321", "25926", "25942"} { // rows, payload and file sizes
		if strings.Contains(strings.TrimPrefix(msg, path), private) {
			t.Errorf("error %q quotes the private number %s", msg, private)
		}
	}
}

func TestStructuralFaults(t *testing.T) {
	for _, f := range faults {
		for _, compress := range []bool{false, true} {
			name, shown := f.name, f.file
			files := toyFiles()
			files[f.file] = f.damage(files[f.file])
			if compress {
				name, shown, files = name+" gz", shown+".gz", packed(t, files)
			}
			t.Run(name, func(t *testing.T) {
				_, err := toy.OpenFS(mapFS(files))
				sober(t, err, shown, f.want)
			})
		}
	}
}

func TestGzipFaults(t *testing.T) {
	for _, f := range []struct {
		name   string
		damage func([]byte) []byte
		want   string
	}{
		{"empty", func([]byte) []byte { return nil }, "not gzip data"},
		{"not compressed", func([]byte) []byte { return toyFiles()["train-x"] }, "not gzip data"},
		{"cut in the data", func(b []byte) []byte { return b[:len(b)/2] }, "damaged or cut off"},
		{"cut in the trailer", func(b []byte) []byte { return b[:len(b)-3] }, "damaged or cut off"},
		{"flipped bit", func(b []byte) []byte { b[len(b)-6] ^= 1; return b }, "damaged or cut off"},
		{"wrong length", func(b []byte) []byte { b[len(b)-1] ^= 0x80; return b }, "damaged or cut off"},
		{"trailing byte", func(b []byte) []byte { return append(b, 0) }, "bytes follow the end of the gzip data"},
		{"trailing bytes", func(b []byte) []byte { return append(b, "garbage after the stream"...) }, "bytes follow the end of the gzip data"},
		{"second part cut", func(b []byte) []byte { return append(b, b[:len(b)-9]...) }, "damaged or cut off"},
	} {
		t.Run(f.name, func(t *testing.T) {
			files := packed(t, toyFiles())
			files["train-x.gz"] = f.damage(files["train-x.gz"])
			_, err := toy.OpenFS(mapFS(files))
			sober(t, err, "train-x.gz", f.want)
		})
	}
}

func TestMissingFiles(t *testing.T) {
	for name := range toyFiles() {
		files := toyFiles()
		delete(files, name)
		dir := t.TempDir()
		write(t, dir, files)
		_, err := toy.Open(dir)
		sober(t, err, filepath.Join(dir, name), name+".gz exists: name the directory that holds it, or run `privgrad data fetch toy`")
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not fs.ErrNotExist", err)
		}
	}
	_, err := toy.Open(filepath.Join(t.TempDir(), "nowhere"))
	sober(t, err, filepath.Join("nowhere", "train-x"), "neither")
	if _, err := toy.Open(""); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("no directory: error %v", err)
	}

	files := mapFS(toyFiles())
	files["test-x"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	_, err = toy.OpenFS(files)
	sober(t, err, "test-x", "not a regular file")
}

// Files over the limit are refused: plain ones unread, compressed ones once the
// limit is passed, whatever their trailer claims.
func TestReadFileLimit(t *testing.T) {
	const limit = 1000
	data := make([]byte, limit+1)
	bomb := pack(t, make([]byte, 1<<20))
	liar := slices.Clone(bomb)
	binary.LittleEndian.PutUint32(liar[len(liar)-4:], 10)
	two := append(pack(t, data[:limit/2+1]), pack(t, data[:limit/2+1])...)
	fsys := mapFS(map[string][]byte{
		"fits": data[:limit], "fits-gz.gz": pack(t, data[:limit]),
		"plain": data, "packed.gz": pack(t, data), "bomb.gz": bomb, "liar.gz": liar, "two.gz": two,
	})
	for _, name := range []string{"fits", "fits-gz"} {
		if got, _, err := readFile(fsys, name, limit); err != nil || len(got) != limit {
			t.Errorf("%s: %d bytes, error %v", name, len(got), err)
		}
	}
	for _, name := range []string{"plain", "packed", "bomb", "liar", "two"} {
		if _, _, err := readFile(fsys, name, limit); err == nil || !strings.Contains(err.Error(), "larger than the limit") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if got, found, err := readFile(fsys, "packed", limit+1); err != nil || found != "packed.gz" || len(got) != limit+1 {
		t.Errorf("%d bytes of %s, error %v", len(got), found, err)
	}
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, toyFiles())
	r, err := Verify(dir, toy)
	check(t, err)
	if !r.OK() || r.Private == nil || len(r.Files) != 4 {
		t.Fatalf("a well-formed set is reported as %+v", r)
	}
	for _, f := range r.Files {
		if !f.Present || f.Structure != nil || f.Digest != DigestUnlisted || f.Path != filepath.Join(dir, f.Name) {
			t.Errorf("%+v", f)
		}
	}
	train, test := r.Private.Train, r.Private.Test
	// 4321 = 16·256 + 225 labels count up to 255; 255 is no class.
	if train.Records != rows || train.OutOfRange != 16 || !slices.Equal(train.PerClass, []int{16*85 + 75, 16*85 + 75, 16*85 + 75}) {
		t.Errorf("training records: %+v", train)
	}
	if test.Records != 2 || test.OutOfRange != 1 || !slices.Equal(test.PerClass, []int{0, 0, 1}) {
		t.Errorf("test records: %+v", test)
	}
}

func TestVerifyFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			files := toyFiles()
			files[f.file] = f.damage(files[f.file])
			r, err := VerifyFS(mapFS(files), toy)
			check(t, err)
			if r.OK() || r.Private != nil {
				t.Fatalf("reported as %+v", r)
			}
			if r.Structure != nil {
				sober(t, r.Structure, f.file, f.want)
				return
			}
			for _, part := range r.Files {
				if part.Name == f.file {
					sober(t, part.Structure, f.file, f.want)
				} else if part.Structure != nil {
					t.Errorf("%s is blamed too: %v", part.Name, part.Structure)
				}
			}
		})
	}
	files := toyFiles()
	delete(files, "test-y")
	r, err := VerifyFS(mapFS(files), toy)
	check(t, err)
	if r.OK() || r.Files[3].Present || !r.Files[2].Present {
		t.Errorf("a missing file is reported as %+v", r)
	}
}

// A set under a published name whose bytes differ is well formed but unknown.
func TestVerifyDigest(t *testing.T) {
	named := *toy
	named.Name = "toy-published"
	files := toyFiles()
	upstream[named.Name] = []Download{{Files: []Content{
		{Name: "train-x", SHA256: digest(files["train-x"])},
		{Name: "train-y", SHA256: digest(files["train-x"])},
		{Name: "test-x"},
	}}}
	defer delete(upstream, named.Name)
	for _, stored := range []map[string][]byte{files, packed(t, files)} {
		r, err := VerifyFS(mapFS(stored), &named)
		check(t, err)
		want := []Digest{DigestKnown, DigestUnknown, DigestUnlisted, DigestUnlisted}
		for i, f := range r.Files {
			if f.Digest != want[i] {
				t.Errorf("%s: digest %v, want %v", f.Name, f.Digest, want[i])
			}
		}
		if !r.OK() {
			t.Error("an unknown digest is no structural fault")
		}
	}
}

func FuzzIDX(f *testing.F) {
	files := toyFiles()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f.Add(files[name][:min(len(files[name]), 64)])
	}
	f.Add(idxFile(count(12, 1), 2, 2, 3))
	f.Add(idxFile(nil, 0xffffffff, 2, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		shape := [3]int{1, 2, 3}
		if pixels, labels, err := IDXImages(data, shape); err == nil {
			if labels != nil || !bytes.Equal(idxFile(pixels, uint32(len(pixels)/6), 2, 3), data) {
				t.Error("accepted images do not encode to the same file")
			}
		}
		if pixels, labels, err := IDXLabels(data, shape); err == nil {
			if pixels != nil || !bytes.Equal(idxFile(labels, uint32(len(labels))), data) {
				t.Error("accepted labels do not encode to the same file")
			}
		}
	})
}

func FuzzGunzip(f *testing.F) {
	f.Add(pack(f, []byte("some bytes")))
	f.Add(append(pack(f, nil), pack(f, count(300, 3))...))
	f.Add(append(pack(f, []byte("x")), 0))
	f.Add(pack(f, make([]byte, 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 2000
		got, err := gunzip(slices.Clone(data), limit)
		if err != nil {
			return
		}
		if len(got) > limit {
			t.Errorf("%d bytes pass the limit of %d", len(got), limit)
		}
		again, err := gunzip(pack(t, got), limit)
		if err != nil || !bytes.Equal(again, got) {
			t.Error("accepted data do not survive another compression")
		}
	})
}

// A fault of a decoder is an error without a word of the file, not the end of the process.
func TestFaultOfADecoder(t *testing.T) {
	faulty := *toy
	faulty.Train = slices.Clone(toy.Train)
	faulty.Train[0].Decode = func(data []byte, _ [3]int) (_, _ []byte, err error) { return data[:len(data)+rows], nil, nil }
	fsys := fstest.MapFS{}
	for _, p := range slices.Concat(faulty.Train, faulty.Test) {
		fsys[p.File] = &fstest.MapFile{Data: idxFile(nil, 0)}
	}
	_, err := faulty.OpenFS(fsys)
	if err == nil || !strings.Contains(err.Error(), "internal error (at datasets/layout_test.go:") || strings.Contains(err.Error(), "range") {
		t.Errorf("the error is %v", err)
	}
}

// Files are found in the directory itself, in its folder named after the set, and in the
// subdirectory of either, and those that lie nearer come first.
func TestFindsFolders(t *testing.T) {
	files := toyFiles()
	empty := maps.Clone(files)
	empty["train-x"], empty["train-y"] = idxFile(nil, 0, 2, 3), idxFile(nil, 0)
	all := map[string][]byte{}
	for _, dir := range []string{"toy/toy-dir", "toy", "toy-dir", "."} {
		maps.Copy(all, under(dir, files))
		found := t.TempDir()
		write(t, found, all)
		if s, err := toy.Open(found); err != nil || s.Train.Len() != rows {
			t.Errorf("in %s: %v", dir, err)
		}
		maps.Copy(all, under(dir, empty)) // what lies nearer hides it
	}
}

// A user's own files in the layout of a set need no test files; one alone is a fault.
func TestOpenWithoutTest(t *testing.T) {
	files := toyFiles()
	delete(files, "test-x")
	if _, err := toy.OpenFS(mapFS(files)); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "test-x") {
		t.Errorf("with a part of the test files: %v", err)
	}
	delete(files, "test-y")
	s, err := toy.OpenFS(mapFS(files))
	if err != nil || s.Train.Len() != rows || s.Test.Shape != [3]int{} || s.TestIsPublic {
		t.Errorf("without test files: %v", err)
	}
}

// One class against the rest keeps bad labels bad, and the set as it was.
func TestAgainst(t *testing.T) {
	s, err := toy.OpenFS(mapFS(toyFiles()))
	check(t, err)
	class, err := s.Class("two")
	if err != nil || class != 2 {
		t.Fatal(class, err)
	}
	two := s.Against(class)
	if two.Classes != 2 || !slices.Equal(two.ClassNames, []string{"not two", "two"}) || !slices.Equal(two.PerClass, []int{300, 300}) || two.PublicN != 600 {
		t.Errorf("%+v", two)
	}
	for i, l := range s.Train.Labels {
		want := map[uint8]uint8{0: 0, 1: 0, 2: 1, 255: NoClass}[l]
		if two.Train.Labels[i] != want {
			t.Fatalf("label %d became %d", l, two.Train.Labels[i])
		}
	}
	if !slices.Equal(two.Test.Labels, []uint8{1, NoClass}) || !slices.Equal(s.Test.Labels, []uint8{2, 9}) {
		t.Errorf("the test labels are %v, and were %v", two.Test.Labels, s.Test.Labels)
	}
	for _, name := range []string{"three", "3", "-1", ""} {
		if _, err := s.Class(name); err == nil {
			t.Errorf("there is a class %q", name)
		}
	}
}
