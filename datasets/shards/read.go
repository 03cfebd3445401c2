package shards

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/privgrad/privgrad/datasets"
)

// A span is where the rows of a file lie.
type span struct {
	file         *os.File
	start, bytes int64
}

// empty is a split without its records.
func (x *index) empty() datasets.Split {
	return datasets.Split{Shape: x.Record.Shape, Unit: x.Record.Unit, Mapped: mapped}
}

// split reads files that follow each other, of which the first has a number. Their rows stay on disk
// where the system maps files. What is wrong with a file is said without a size.
func (x *index) split(dir string, names []string, number uint64) (m datasets.Split, err error) {
	r := x.Record
	m = x.empty()
	var spans []span
	defer func() {
		for _, s := range spans {
			s.file.Close()
		}
	}()
	total := int64(0)
	for i, name := range names {
		path := filepath.Join(dir, name)
		s, err := x.span(path, number+uint64(i))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return m, fmt.Errorf("shard %s is not there: put it beside %s, or write the shards again", path, indexName)
			}
			return m, fmt.Errorf("shard %s %w", path, datasets.Unread(err, err))
		}
		spans = append(spans, s)
		total += s.bytes / r.width() * r.label()
	}
	labels := make([]byte, total)
	at := int64(0)
	for i, s := range spans {
		end := at + s.bytes/r.width()*r.label()
		if _, err := s.file.ReadAt(labels[at:end], s.start+s.bytes); err != nil {
			return m, fmt.Errorf("shard %s %w", filepath.Join(dir, names[i]), datasets.Unread(err, nil))
		}
		at = end
	}
	rows, inFiles, err := load(spans)
	if err != nil {
		return m, fmt.Errorf("shards %s %w", dir, datasets.Unread(err, nil))
	}
	m.Mapped = inFiles && (little || r.Values != ofFloats) // else floats are copies
	if r.Values == ofFloats {
		m.Values = floats(rows)
	} else {
		m.Features = rows
	}
	if r.Labels == ofNumbers {
		m.Targets = make([]float32, len(labels)/4)
		for i := range m.Targets {
			m.Targets[i] = math.Float32frombits(binary.LittleEndian.Uint32(labels[4*i:]))
		}
	} else {
		m.Labels = labels
	}
	return m, nil
}

// cause is an error without the path and the place in a file.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// span opens a file and checks its header. The caller closes the file where there is no error.
func (x *index) span(path string, number uint64) (s span, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	var head [header]byte
	want, err := x.Record.digest()
	if err != nil {
		return s, err
	}
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:len(magic)]) != magic {
		return s, datasets.Unread(err, errors.New("is no shard, or another version's: write the shards again"))
	}
	start := int64(binary.LittleEndian.Uint64(head[56:]))
	records := info.Size() - start
	switch stride := x.Record.width() + x.Record.label(); {
	case !bytes.Equal(head[16:48], want[:]):
		return s, errors.New("has records of another form than the index says: it belongs to another data set")
	case binary.LittleEndian.Uint64(head[48:]) != number:
		return s, errors.New("has another number than its place in the index: restore the name that it was written under")
	case start < grain || start >= 2*grain || start%4 != 0 && x.Record.Values == ofFloats || records < 0 || records%stride != 0:
		return s, errors.New("is cut off or damaged: copy it again, or write the shards again")
	default:
		return span{f, start, records / stride * x.Record.width()}, nil
	}
}

// copied reads rows into memory.
func copied(spans []span) ([]byte, error) {
	total := int64(0)
	for _, s := range spans {
		total += s.bytes
	}
	all := make([]byte, total)
	at := int64(0)
	for _, s := range spans {
		if _, err := s.file.ReadAt(all[at:at+s.bytes], s.start); err != nil {
			return nil, err
		}
		at += s.bytes
	}
	return all, nil
}

// little says whether the machine's numbers lie in memory as they do in files.
var little = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// floats are the numbers in b, which begin at a multiple of four.
func floats(b []byte) []float32 {
	if len(b) == 0 {
		return []float32{}
	}
	if little {
		return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
	}
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}
