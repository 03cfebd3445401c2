// Package numpy reads arrays of a user's own from a file that numpy.savez or
// numpy.savez_compressed wrote: x_train and y_train, and, if there are test records,
// x_test and y_test.
//
// Values are uint8, which count as pixels, or float32, which a network reads as they
// are. Labels are whole numbers from 0 on, in the order of the declared classes. The shape
// of a record is declared, too; images may have their channels first or last, and records
// may be flat. Nothing in a file is executed or believed before it has been read: sizes
// that its headers announce reserve no memory. A file that comes through standard input, as
// datasets.Piped, is read to memory first.
//
// A file that is not so is refused. A record whose label is no class, or with a value that
// is not finite, counts as zero, without a word.
package numpy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/privgrad/privgrad/datasets"
)

// Form reads arrays.
var Form = datasets.Form{Prefix: "npz:", Open: open, Facts: facts, Labeled: labeled, Verify: verify}

// classFile is what a class file's name adds to that of the arrays.
const classFile = ".classes.txt"

// classesOf is the class file of arrays; empty of those that no file holds.
func classesOf(path string) string {
	if path == datasets.Piped {
		return ""
	}
	return path + classFile
}

// facts is the set as it is declared, without its records.
func facts(path string, d datasets.Declared) (*datasets.Set, error) {
	return d.Facts(path, classesOf(path))
}

func open(path string, d datasets.Declared) (*datasets.Set, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.set(d)
}

// file is an archive of arrays.
type file struct {
	*zip.Reader
	io.Closer
	path   string
	arrays map[string]*zip.File
}

// openZip opens an archive of a path, or reads it from standard input.
func openZip(path string) (*zip.Reader, io.Closer, error) {
	if path != datasets.Piped {
		z, err := zip.OpenReader(path)
		if err != nil {
			return nil, nil, err
		}
		return &z.Reader, z, nil
	}
	data, err := datasets.ReadPiped(mostBytes)
	if err != nil {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: err} // which is no damage
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	return z, io.NopCloser(nil), err
}

func openFile(path string) (*file, error) {
	z, closer, err := openZip(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("arrays %s: there is no such file: give the path of what numpy.savez wrote", path)
	}
	if err != nil {
		return nil, fmt.Errorf("arrays %s: %w", path, datasets.Unread(err, errors.New("not a file that numpy.savez writes: save the arrays again")))
	}
	f := &file{z, closer, path, map[string]*zip.File{}}
	for _, entry := range z.File {
		if f.arrays[entry.Name] != nil {
			f.Close()
			return nil, fmt.Errorf("arrays %s: one name stands for two arrays: save them again", path)
		}
		f.arrays[entry.Name] = entry
	}
	return f, nil
}

// set reads all that training needs.
func (f *file) set(d datasets.Declared) (*datasets.Set, error) {
	set, err := d.NewSet(f.path, classesOf(f.path))
	if err != nil {
		return nil, err
	}
	set.Reading = "arrays"
	shape := set.Train.Shape
	if set.Train, err = f.split("train", shape); err != nil {
		return nil, err
	}
	if f.arrays["x_test.npy"] == nil && f.arrays["y_test.npy"] == nil {
		return set, nil
	}
	return set, f.readTest(set)
}

func (f *file) readTest(set *datasets.Set) (err error) {
	if set.Test, err = f.split("test", set.Train.Shape); err == nil {
		set.TestFaults = faults(set.Test, set.Classes)
	}
	return err
}

// labeled reads x_test and y_test alone.
func labeled(path string, d datasets.Declared) (*datasets.Set, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, name := range []string{"x_test", "y_test"} {
		if f.arrays[name+".npy"] == nil {
			return nil, fmt.Errorf("arrays %s: %s is not there: save the records and their labels by numpy.savez(%[1]q, x_test=…, y_test=…)", path, name)
		}
	}
	set, err := d.NewSet(path, classesOf(path))
	if err != nil {
		return nil, err
	}
	return set, f.readTest(set)
}

// faults are what is wrong with the records of a test split, by their numbers.
func faults(s datasets.Split, classes int) map[int]string {
	all := map[int]string{}
	for i, label := range s.Labels {
		switch width := len(s.Values) / len(s.Labels); {
		case int(label) >= classes:
			all[i] = fmt.Sprintf("y_test[%d] is none of the %d classes, which are numbered from 0", i, classes)
		case slices.ContainsFunc(s.Values[i*width:][:width], notFinite):
			all[i] = fmt.Sprintf("x_test[%d] has a value that is not finite", i)
		}
	}
	return all
}

func notFinite(x float32) bool { return x-x != 0 }

func (f *file) split(name string, shape [3]int) (s datasets.Split, err error) {
	s = datasets.Split{Shape: shape, Unit: shape[0]*shape[1] == 1}
	if err = f.read("x_"+name, func(h header, r io.Reader) error { return values(&s, h, r) }); err != nil {
		return s, err
	}
	if err = f.read("y_"+name, func(h header, r io.Reader) error { return labels(&s, h, r) }); err != nil {
		return s, err
	}
	if len(s.Features)+len(s.Values) != len(s.Labels)*shape[0]*shape[1]*shape[2] {
		return s, fmt.Errorf("arrays %s: x_%s and y_%[2]s hold different numbers of records: save them together", f.path, name)
	}
	return s, nil
}

// read opens one array and hands its values on; all of them must be taken.
func (f *file) read(name string, take func(header, io.Reader) error) error {
	fail := func(err error) error { return fmt.Errorf("arrays %s: %s %w", f.path, name, err) }
	entry := f.arrays[name+".npy"]
	if entry == nil {
		return fail(fmt.Errorf("is not there: save it by numpy.savez(%q, x_train=…, y_train=…)", f.path))
	}
	r, err := entry.Open()
	if err != nil {
		return fail(datasets.Unread(err, errDamaged))
	}
	defer r.Close()
	h, err := readHeader(r)
	if err != nil {
		return fail(err)
	}
	if err := take(h, r); err != nil {
		return fail(err)
	}
	switch n, err := io.CopyN(io.Discard, r, 1); { // its end comes with a checksum
	case n > 0:
		return fail(errors.New("goes on behind its last value: save it again"))
	case err != io.EOF:
		return fail(datasets.Unread(err, errDamaged))
	}
	return nil
}

var errDamaged = errors.New("is damaged: save the file again")

// each calls take with so many values of a width in bytes, a block at a time.
func each(r io.Reader, count, width int, take func(block []byte)) error {
	const most = 1 << 15
	buf := make([]byte, most*width)
	for count > 0 {
		n := min(count, most)
		if _, err := io.ReadFull(r, buf[:n*width]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errCut
		} else if err != nil {
			return datasets.Unread(err, errDamaged)
		}
		take(buf[:n*width])
		count -= n
	}
	return nil
}

// values reads records of the split's shape.
func values(s *datasets.Split, h header, r io.Reader) error {
	last, ok := h.fits(s.Shape)
	if !ok {
		return fmt.Errorf("holds no records of the declared %s: declare theirs by --image-size (`privgrad data verify` shows its owner what is there)", datasets.SizeText(s.Shape))
	}
	count := h.shape[0] * s.Shape[0] * s.Shape[1] * s.Shape[2]
	var err error
	switch h.kind {
	case "|u1":
		s.Features = []uint8{}
		err = each(r, count, 1, func(b []byte) { s.Features = append(s.Features, b...) })
	case "<f4":
		s.Values = []float32{}
		err = each(r, count, 4, func(b []byte) {
			for ; len(b) > 0; b = b[4:] {
				s.Values = append(s.Values, math.Float32frombits(binary.LittleEndian.Uint32(b)))
			}
		})
	default:
		return errors.New("holds neither uint8 nor float32: convert it, by .astype('uint8') of pixels or .astype('float32')")
	}
	if last {
		channelsFirst(s.Features, s.Shape)
		channelsFirst(s.Values, s.Shape)
	}
	return err
}

// fits says whether the records have a shape, and whether with the channels last.
func (h header) fits(shape [3]int) (last, ok bool) {
	c, rows, cols := shape[0], shape[1], shape[2]
	switch record := h.shape[1:]; {
	case slices.Equal(record, shape[:]), slices.Equal(record, []int{c * rows * cols}), c == 1 && slices.Equal(record, []int{rows, cols}):
		return false, true
	case slices.Equal(record, []int{rows, cols, c}):
		return true, true
	}
	return false, false
}

// channelsFirst moves every record's channels from last to first.
func channelsFirst[T any](values []T, shape [3]int) {
	pixels, record := shape[1]*shape[2], make([]T, shape[0]*shape[1]*shape[2])
	for ; len(values) >= len(record); values = values[len(record):] {
		copy(record, values)
		for i := range pixels {
			for c := range shape[0] {
				values[c*pixels+i] = record[i*shape[0]+c]
			}
		}
	}
}

// labels reads whole numbers, of which those that fit no byte are no class.
func labels(s *datasets.Split, h header, r io.Reader) error {
	if len(h.shape) != 1 && !(len(h.shape) == 2 && h.shape[1] == 1) {
		return errors.New("must hold one number a record")
	}
	whole := map[string]func([]byte) uint64{ // negative ones become large
		"|b1": func(b []byte) uint64 { return uint64(b[0]) },
		"|u1": func(b []byte) uint64 { return uint64(b[0]) },
		"|i1": func(b []byte) uint64 { return uint64(int8(b[0])) },
		"<u2": func(b []byte) uint64 { return uint64(binary.LittleEndian.Uint16(b)) },
		"<i2": func(b []byte) uint64 { return uint64(int16(binary.LittleEndian.Uint16(b))) },
		"<u4": func(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) },
		"<i4": func(b []byte) uint64 { return uint64(int32(binary.LittleEndian.Uint32(b))) },
		"<u8": binary.LittleEndian.Uint64,
		"<i8": binary.LittleEndian.Uint64,
	}[h.kind]
	if whole == nil {
		return errors.New("must hold whole numbers, a class each: convert it by .astype('int64')")
	}
	width := int(h.kind[2] - '0')
	return each(r, h.shape[0], width, func(b []byte) {
		for ; len(b) > 0; b = b[width:] {
			s.Labels = append(s.Labels, uint8(min(whole(b), datasets.NoClass)))
		}
	})
}

// verify shows an owner which arrays there are, also where training refuses them.
func verify(path string, d datasets.Declared) (*datasets.OwnReport, error) {
	r := &datasets.OwnReport{}
	f, err := openFile(path)
	if err != nil {
		r.Structure = err
		return r, nil
	}
	defer f.Close()
	for _, entry := range f.File {
		note := entry.Name + ": no array"
		if data, err := entry.Open(); err == nil {
			if h, err := readHeader(data); err == nil {
				note = fmt.Sprintf("%s: elements %s, shape %v", entry.Name, h.kind, h.shape)
			}
			data.Close()
		}
		r.Private.Notes = append(r.Private.Notes, note)
	}
	if r.Set, r.Structure = f.set(d); r.Structure != nil {
		r.Set = nil
		return r, nil
	}
	r.CountClasses()
	finite := datasets.Count{What: "records with a value that is not finite, which count as zero"}
	finite.Train, finite.Test = countNotFinite(r.Set.Train), countNotFinite(r.Set.Test)
	r.Private.Counts = append(r.Private.Counts, finite)
	return r, nil
}

func countNotFinite(s datasets.Split) (n int) {
	width := s.Shape[0] * s.Shape[1] * s.Shape[2]
	for v := s.Values; len(v) > 0; v = v[width:] {
		if slices.ContainsFunc(v[:width], notFinite) {
			n++
		}
	}
	return n
}
