package numpy

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// small.npz was written by numpy 2.4:
//
//	import numpy as np; r = np.random.default_rng(1)
//	x = r.integers(0, 256, (5, 2, 3, 3), np.uint8); y = np.array([0, 1, 2, -1, 300])
//	np.savez_compressed("small.npz", x_train=x, y_train=y, x_test=(x[:2] / 255).astype("f4"), y_test=y[:2].astype("u1")[:, None])
//	x.transpose(0, 3, 1, 2)[0].ravel()
func TestNumpysFile(t *testing.T) {
	s, err := open(filepath.Join("testdata", "small.npz"), datasets.Declared{Size: "3x2x3", Classes: []string{"a", "b", "c"}})
	check(t, err)
	first := []uint8{255, 121, 6, 168, 187, 243, 228, 243, 131, 82, 150, 205, 34, 189, 102, 193, 81, 24}
	sum := 0
	for _, v := range s.Train.Features {
		sum += int(v)
	}
	if !slices.Equal(s.Train.Features[:18], first) || len(s.Train.Features) != 90 || sum != 11763 {
		t.Errorf("the records are %v", s.Train.Features)
	}
	if want := []uint8{0, 1, 2, datasets.NoClass, datasets.NoClass}; !slices.Equal(s.Train.Labels, want) {
		t.Errorf("labels %v, want %v", s.Train.Labels, want)
	}
	if s.Test.Features != nil || len(s.Test.Values) != 36 || !slices.Equal(s.Test.Labels, []uint8{0, 1}) {
		t.Fatalf("the test split is %+v", s.Test)
	}
	for i, v := range s.Test.Values {
		if v != float32(float64(s.Train.Features[i])/255) {
			t.Fatalf("value %d is %v", i, v)
		}
	}
	if s.Name != "small" || s.Train.Unit || s.PublicN != 0 || s.Published || s.TestIsPublic {
		t.Errorf("the set is %+v", s)
	}
}

// array is one in numpy's format 1.0.
func array(kind, shape string, values any) string {
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", kind, shape)
	return raw(text) + bytesOf(values)
}

func raw(text string) string {
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(text)))) + text
}

func bytesOf(values any) string {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		return err.Error()
	}
	return b.String()
}

// archive writes arrays by name into one file.
func archive(t testing.TB, arrays map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.npz")
	f, err := os.Create(path)
	check(t, err)
	z := zip.NewWriter(f)
	for name, data := range arrays {
		w, err := z.Create(strings.TrimRight(name, "'") + ".npy") // a name may be there twice
		if err == nil {
			_, err = w.Write([]byte(data))
		}
		check(t, err)
	}
	check(t, z.Close())
	check(t, f.Close())
	return path
}

// What is compressed may inflate to more or less than the archive and the array say: then it is refused.
func TestInflates(t *testing.T) {
	x, y := array("|u1", "2, 1, 2", []uint8{1, 2, 3, 4}), array("|u1", "2,", []uint8{0, 1})
	for name, c := range map[string]struct {
		data string
		size int
		says string
	}{
		"as it says":                    {x, len(x), ""},
		"to more than the archive says": {x, len(x) - 1, "damaged"},
		"to less than the archive says": {x, len(x) + 1, "too early"},
		"to more than the array says":   {x + strings.Repeat("\x00", 1<<20), len(x), "damaged"},
		"to more than both say":         {x + strings.Repeat("\x00", 1<<20), len(x) + 1<<20, "goes on"},
		"to less than the array says":   {x[:len(x)-1], len(x) - 1, "too early"},
	} {
		var file, packed bytes.Buffer
		z := zip.NewWriter(&file)
		for array, data := range map[string]string{"x_train": c.data, "y_train": y} {
			packed.Reset()
			w, err := flate.NewWriter(&packed, 9)
			if err == nil {
				_, err = w.Write([]byte(data))
			}
			if err == nil {
				err = w.Close()
			}
			h := &zip.FileHeader{
				Name: array + ".npy", Method: zip.Deflate, CRC32: crc32.ChecksumIEEE([]byte(data)),
				CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(data)),
			}
			if array == "x_train" {
				h.UncompressedSize64 = uint64(c.size)
			}
			entry, e := z.CreateRaw(h)
			if e == nil {
				_, e = entry.Write(packed.Bytes())
			}
			if err != nil || e != nil {
				t.Fatal(err, e)
			}
		}
		check(t, z.Close())
		path := filepath.Join(t.TempDir(), "made.npz")
		check(t, os.WriteFile(path, file.Bytes(), 0o644))
		s, err := open(path, datasets.Declared{Size: "1x2", Classes: two})
		switch {
		case c.says == "" && (err != nil || !slices.Equal(s.Train.Features, []uint8{1, 2, 3, 4})):
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want one with %q", name, err, c.says)
		}
	}
}

var two = []string{"a", "b"}

func TestKindsOfArrays(t *testing.T) {
	nan := float32(math.NaN())
	for name, test := range map[string]struct {
		size, x, y string
		features   []uint8
		values     []float32
		unit       bool
	}{
		"flat image":    {"1x2", array("|u1", "2, 2", []uint8{1, 2, 3, 4}), array("|b1", "2,", []uint8{0, 1}), []uint8{1, 2, 3, 4}, nil, true},
		"gray":          {"2x1", array("|u1", "2, 2, 1", []uint8{1, 2, 3, 4}), array("<i2", "2,", []int16{0, 1}), []uint8{1, 2, 3, 4}, nil, false},
		"channel last":  {"2x1", array("|u1", "2, 2, 1, 1", []uint8{1, 2, 3, 4}), array("<u2", "2,", []uint16{0, 1}), []uint8{1, 2, 3, 4}, nil, false},
		"channel first": {"2x2x1", array("|u1", "2, 2, 2, 1", []uint8{1, 2, 3, 4, 5, 6, 7, 8}), array("<i4", "2, 1", []int32{0, 1}), []uint8{1, 2, 3, 4, 5, 6, 7, 8}, nil, false},
		"values":        {"2", array("<f4", "2, 2", []float32{-1, nan, 7, .5}), array("<u8", "2,", []uint64{0, 1}), nil, []float32{-1, nan, 7, .5}, true},
		"as numpy 1.7":  {"1", raw("{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 1), }") + "ab", "", nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := archive(t, map[string]string{"x_train": test.x, "y_train": test.y})
			s, err := open(path, datasets.Declared{Size: test.size, Classes: two})
			if test.y == "" {
				if err == nil || !strings.Contains(err.Error(), "is no plain array") {
					t.Error(err)
				}
				return
			}
			check(t, err)
			same := func(a, b float32) bool { return a == b || a != a && b != b }
			if !slices.Equal(s.Train.Features, test.features) || !slices.EqualFunc(s.Train.Values, test.values, same) || s.Train.Unit != test.unit || !slices.Equal(s.Train.Labels, []uint8{0, 1}) {
				t.Errorf("%+v", s.Train)
			}
			if s.Test.Shape != [3]int{} {
				t.Errorf("there is a test split: %+v", s.Test)
			}
		})
	}
}

// What is refused, in words that give away no number of records and no shape.
func TestRefusals(t *testing.T) {
	x, y := array("|u1", "4321, 2", make([]uint8, 8642)), array("|u1", "4321,", make([]uint8, 4321))
	header := func(shape string) string { return array("|u1", shape, []uint8{}) }
	for want, arrays := range map[string]map[string]string{
		"y_train is not there":                        {"x_train": x},
		"x_train is not there":                        {"y_train": y},
		"x_test is not there":                         {"x_train": x, "y_train": y, "y_test": y},
		"different numbers of records":                {"x_train": array("|u1", "4322, 2", make([]uint8, 8644)), "y_train": y},
		"holds no records of the declared 1x1x2":      {"x_train": array("|u1", "4321, 7", make([]uint8, 7*4321)), "y_train": y},
		"x_train ends too early":                      {"x_train": x[:len(x)-1], "y_train": y},
		"y_train ends too early":                      {"x_train": x, "y_train": y[:4000]},
		"x_train goes on behind its last value":       {"x_train": x + "a", "y_train": y},
		"x_train is not an array":                     {"x_train": "PK4321", "y_train": y},
		"version of numpy's format that is not known": {"x_train": x[:6] + "\x04" + x[7:], "y_train": y},
		"longer description":                          {"x_train": "\x93NUMPY\x02\x00\xff\xff\xff\xff" + x, "y_train": y},
		"neither uint8 nor float32":                   {"x_train": array("<f8", "4321, 2", make([]float64, 8642)), "y_train": y},
		"must hold whole numbers":                     {"x_train": x, "y_train": array("<f4", "4321,", make([]float32, 4321))},
		"must hold one number a record":               {"x_train": x, "y_train": array("|u1", "4321, 2", make([]uint8, 8642))},
		"is in Fortran order":                         {"x_train": raw("{'descr': '|u1', 'fortran_order': True, 'shape': (4321, 2), }"), "y_train": y},
		"is no plain array of numbers":                {"x_train": raw("{'descr': '|O', 'fortran_order': False, 'shape': (4321, 2), }"), "y_train": y},
		"larger than any array":                       {"x_train": header("9223372036854775807, 2"), "y_train": y},
		"larger than any array: large":                {"x_train": header("4294967296, 4294967296"), "y_train": y},
		"larger than any array: none":                 {"x_train": header("0, 99999999999999999999"), "y_train": y},
		"from one to 4 dimensions":                    {"x_train": header("1,1,1,1,1"), "y_train": y},
		"from one to 4 dimensions: none":              {"x_train": header(""), "y_train": y},
		"ends too early: a billion":                   {"x_train": header("100000000, 2"), "y_train": y},
	} {
		want, _, _ := strings.Cut(want, ": ")
		_, err := open(archive(t, arrays), datasets.Declared{Size: "2", Classes: two})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			continue
		}
		message := strings.ReplaceAll(err.Error(), filepath.Dir(err.Error()[len("arrays "):]), "")
		if regexp.MustCompile(`432|[0-9]{4}|\b7\b`).MatchString(message[strings.Index(message, "made.npz"):]) {
			t.Errorf("a number of the file's in %q", message)
		}
	}
	dir := t.TempDir()
	other := filepath.Join(dir, "other.npz")
	check(t, os.WriteFile(other, []byte("no archive"), 0o644))
	twice := archive(t, map[string]string{"x_train": x, "x_train'": x, "y_train": y})
	for path, want := range map[string]string{
		other: "not a file that numpy.savez writes", filepath.Join(dir, "nowhere.npz"): "there is no such file", dir: "cannot be read: is a directory",
		twice: "one name stands for two arrays",
	} {
		if _, err := open(path, datasets.Declared{Size: "2", Classes: two}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	good := archive(t, map[string]string{"x_train": x, "y_train": y})
	if _, err := open(good, datasets.Declared{Size: "2"}); err == nil || !strings.Contains(err.Error(), good+classFile) {
		t.Errorf("without classes: %v", err)
	}
	check(t, os.WriteFile(good+classFile, []byte("no\nyes\n"), 0o644))
	if s, err := open(good, datasets.Declared{Size: "2"}); err != nil || !slices.Equal(s.ClassNames, []string{"no", "yes"}) {
		t.Errorf("with a class file: %+v, %v", s, err)
	}
}

// A flipped bit is found by the archive's checksum.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.npz")
	data, err := os.ReadFile(filepath.Join("testdata", "small.npz"))
	check(t, err)
	data[200] ^= 1
	check(t, os.WriteFile(path, data, 0o644))
	if _, err := open(path, datasets.Declared{Size: "3x2x3", Classes: []string{"a", "b", "c"}}); err == nil {
		t.Error("a damaged file was read")
	}
}

// The owner sees what is there, whether it is refused or not.
func TestVerify(t *testing.T) {
	nan := float32(math.NaN())
	path := archive(t, map[string]string{"x_train": array("<f4", "3, 2", []float32{1, 2, 3, nan, 5, 6}), "y_train": array("|u1", "3,", []uint8{0, 1, 9}), "other": "text"})
	r, err := verify(path, datasets.Declared{Size: "2", Classes: two})
	if err != nil || r.Structure != nil {
		t.Fatal(err, r.Structure)
	}
	want := []datasets.Count{
		{What: "records", Train: 3}, {What: "records that count as zero", Train: 1}, {What: "class a", Train: 1}, {What: "class b", Train: 1},
		{What: "records with a value that is not finite, which count as zero", Train: 1},
	}
	if !slices.Equal(r.Private.Counts, want) {
		t.Errorf("counts %+v", r.Private.Counts)
	}
	r, err = verify(path, datasets.Declared{Size: "3", Classes: two})
	if notes := strings.Join(r.Private.Notes, "\n"); err != nil || r.Structure == nil || r.Set != nil || !strings.Contains(notes, "x_train.npy: elements <f4, shape [3 2]") || !strings.Contains(notes, "other.npy: no array") {
		t.Errorf("%v, structure %v, notes %s", err, r.Structure, notes)
	}
}

// What is wrong with test records is known by their numbers.
func TestFaultsOfTestRecords(t *testing.T) {
	inf := float32(math.Inf(1))
	x, y := array("<f4", "4, 2", []float32{1, 2, 3, inf, 5, 6, 7, 8}), array("<i8", "4,", []int64{0, 1, -1, 2})
	s, err := open(archive(t, map[string]string{"x_train": x, "y_train": y, "x_test": x, "y_test": y}), datasets.Declared{Size: "2", Classes: []string{"a", "b"}})
	check(t, err)
	want := map[int]string{
		1: "x_test[1] has a value that is not finite", 2: "y_test[2] is none of the 2 classes, which are numbered from 0",
		3: "y_test[3] is none of the 2 classes, which are numbered from 0",
	}
	if !maps.Equal(s.TestFaults, want) {
		t.Errorf("%v, want %v", s.TestFaults, want)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte(array("|u1", "2, 2", []uint8{1, 2, 3, 4})))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': "))
	f.Add([]byte(raw("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, -1), }")))
	f.Add([]byte(raw("{'descr': __import__('os'), 'fortran_order': False, 'shape': (,,), }")))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readHeader(bytes.NewReader(data))
		if err != nil {
			return
		}
		size := 8.0
		for _, n := range h.shape {
			size *= math.Max(float64(n), 1)
		}
		if len(h.shape) == 0 || size > mostBytes {
			t.Errorf("taken: %+v", h)
		}
		var s datasets.Split
		s.Shape = [3]int{1, 1, 2}
		if err := values(&s, h, bytes.NewReader(data)); err == nil && len(s.Features)+4*len(s.Values) > len(data) {
			t.Error("more values than bytes")
		}
		if err := labels(&s, h, bytes.NewReader(data)); err == nil && len(s.Labels) > len(data) {
			t.Error("more labels than bytes")
		}
	})
}
