package shards

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/privgrad/privgrad/datasets"
)

// Writer writes a data set as shards, records as they come. The index comes last: without it there
// is no data set.
type Writer struct {
	dir         string
	index       index
	size        int // records of each training shard; the last one takes what is left
	train, test *writer
	created     []string // files, until all is there
}

// Most is how many shards there may be.
const Most = 10_000

// Create begins to write a set of so many shards into a directory that is new or empty. Of the set it
// takes all but the records. The size of a shard follows from publicN.
func Create(dir string, set *datasets.Set, publicN, shards int) (*Writer, error) {
	if shards < 1 || shards > Most {
		return nil, fmt.Errorf("shards %d: there may be 1 to %d", shards, Most)
	}
	if publicN < 1 {
		return nil, fmt.Errorf("public-n %d: a shard holds a part of a public number of records; give one of at least 1", publicN)
	}
	if old, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("shards %s: %w", dir, cause(err))
	} else if len(old) > 0 {
		return nil, fmt.Errorf("shards %s: the folder is not empty; give a new one", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("shards %s: %w", dir, cause(err))
	}
	x := index{
		Format: 1, Name: set.Name, Source: datasets.PublicName(set.Source), Record: recordOf(set), Classes: set.ClassNames, Published: set.Published, PublicN: set.PublicN, PerClass: set.PerClass,
		Share: set.Share, Moves: set.Moves, Reading: set.Reading, Schema: set.Schema, Bounds: set.Bounds, Note: set.Note, TestIsPublic: set.TestIsPublic,
	}
	for i := range shards {
		x.Shards = append(x.Shards, fmt.Sprintf("train-%05d.shard", i))
	}
	if set.Test.Shape != [3]int{} {
		x.Test = "test.shard"
	}
	x.PerShard = (publicN-1)/shards + 1
	w := &Writer{dir: dir, index: x, size: x.PerShard}
	var err error
	if w.train, err = w.create(x.Shards[0], 0, 0); err == nil && x.Test != "" {
		w.test, err = w.create(x.Test, testNumber, 0)
	}
	if err != nil {
		w.Abort()
		return nil, w.failed(err)
	}
	return w, nil
}

func (w *Writer) failed(err error) error {
	return fmt.Errorf("shards %s cannot be written: %w", w.dir, cause(err))
}

// Train adds training records to the file that is being written, and to those behind it as each gets full.
func (w *Writer) Train(m datasets.Split) error {
	for from, n := 0, m.Len(); from < n; {
		end := n
		if w.train.at+1 < len(w.index.Shards) {
			if w.train.records == w.size {
				if err := w.next(); err != nil {
					return w.failed(err)
				}
				continue
			}
			end = min(n, from+w.size-w.train.records)
		}
		if err := w.train.rows(w.index.Record, m, from, end); err != nil {
			return w.failed(err)
		}
		from = end
	}
	return nil
}

// Test adds test records, where the set has some.
func (w *Writer) Test(m datasets.Split) error {
	if w.test == nil {
		return nil
	}
	if err := w.test.rows(w.index.Record, m, 0, m.Len()); err != nil {
		return w.failed(err)
	}
	return nil
}

// next ends a file and begins the one behind it.
func (w *Writer) next() error {
	f := w.train
	if err := f.end(); err != nil {
		return err
	}
	at := f.at + 1
	next, err := w.create(w.index.Shards[at], uint64(at), f.before+int64(f.records)*w.index.Record.width())
	if err == nil {
		next.at, w.train = at, next
	}
	return err
}

// Close ends all files, also those that get no record, and writes the index.
func (w *Writer) Close() (err error) {
	defer func() {
		if err != nil {
			w.Abort()
			err = w.failed(err)
		}
	}()
	for w.train.at+1 < len(w.index.Shards) {
		if err := w.next(); err != nil {
			return err
		}
	}
	for _, f := range []*writer{w.train, w.test} {
		if f != nil {
			if err := f.end(); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(&w.index, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, indexName)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.created = append(w.created, f.Name())
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	w.created = nil
	return nil
}

// Abort removes what was written of a set that was not closed.
func (w *Writer) Abort() {
	for _, f := range []*writer{w.train, w.test} {
		if f != nil {
			f.file.Close()
		}
	}
	for _, path := range w.created {
		os.Remove(path)
	}
	w.created = nil
}

// writer is one file. Labels wait until all rows are there.
type writer struct {
	file        *os.File
	buffer      *bufio.Writer
	at, records int
	before      int64 // bytes of rows in the files before
	labels      []byte
}

func (w *Writer) create(name string, number uint64, before int64) (*writer, error) {
	digest, err := w.index.Record.digest()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w.created = append(w.created, file.Name())
	head := append([]byte(magic), digest[:]...)
	head = binary.LittleEndian.AppendUint64(head, number)
	head = binary.LittleEndian.AppendUint64(head, uint64(place(before)))
	f := &writer{file: file, buffer: bufio.NewWriterSize(file, 1<<20), before: before}
	_, err = f.buffer.Write(append(head, make([]byte, place(before)-header)...))
	if err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// rows writes some records of a split.
func (f *writer) rows(r record, m datasets.Split, from, end int) error {
	if from == end {
		return nil
	}
	if (m.Values != nil) != (r.Values == ofFloats) {
		return errors.New("training and test records differ in their form, such as uint8 and float32; convert one of them")
	}
	width := r.Shape[0] * r.Shape[1] * r.Shape[2]
	f.records += end - from
	if m.Targets != nil {
		f.labels = appendFloats(f.labels, m.Targets[from:end])
	} else {
		f.labels = append(f.labels, m.Labels[from:end]...)
	}
	if m.Values == nil {
		_, err := f.buffer.Write(m.Features[from*width : end*width])
		return err
	}
	var block []byte
	for part := range slices.Chunk(m.Values[from*width:end*width], 1<<14) {
		block = appendFloats(block[:0], part)
		if _, err := f.buffer.Write(block); err != nil {
			return err
		}
	}
	return nil
}

func appendFloats(b []byte, x []float32) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// end writes the labels, and sees that all of the file is on disk.
func (f *writer) end() error {
	_, err := f.buffer.Write(f.labels)
	return errors.Join(err, f.buffer.Flush(), f.file.Sync(), f.file.Close())
}
