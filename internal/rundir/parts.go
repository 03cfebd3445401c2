package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/usage"
)

// PartSize is how many bytes a file of a slice's folder may have: places that lend machines carry no larger ones.
const PartSize = 16 << 20

// StateFile is the checkpoint's tensors, in the run directory.
const StateFile = Checkpoints + "/" + state

// large are files that are kept in parts where a run is carried from machine to machine.
var large = []string{StateFile, Features, Frozen}

// parted says whether a file of this directory is kept in parts.
func (d Dir) parted(name string) bool { return d.IsSlice() && slices.Contains(large, name) }

// An index says which parts are a file. It takes the place of the last one when all of them are on the disk, so that a crash
// leaves the old file or the new one.
type index struct {
	Generation int      `json:"generation"` // in the names of the parts
	Bytes      int64    `json:"bytes"`      // of the file: all parts but the last have PartSize
	Parts      []string `json:"sha256"`     // of each part, in hex
}

func (d Dir) indexOf(name string) string { return d.Path(name + ".json") }

// partName is that of a part, beside the file.
func partName(name string, generation, i int) string {
	return fmt.Sprintf("%s.%d-%03d", name, generation, i)
}

// readIndex gives nil where the file is not in parts.
func (d Dir) readIndex(name string) (*index, error) {
	b, err := os.ReadFile(d.indexOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var x index
	err = json.Unmarshal(b, &x)
	if err != nil || x.Bytes < 0 || (x.Bytes+PartSize-1)/PartSize != int64(len(x.Parts)) {
		return nil, usage.Errorf("%s is not what a slice writes: fetch the folder again", d.indexOf(name))
	}
	return &x, nil
}

// open reads a file, from its parts where it is in some.
func (d Dir) open(name string) (io.ReadCloser, error) {
	x, err := d.readIndex(name)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return os.Open(d.Path(name))
	}
	return io.NopCloser(&partReader{dir: d, name: name, index: x}), nil
}

// partReader reads one part after the other, each checked as a whole.
type partReader struct {
	dir   Dir
	name  string
	index *index
	at    int
	buf   bytes.Reader
}

func (r *partReader) Read(b []byte) (int, error) {
	for r.buf.Len() == 0 {
		if r.at == len(r.index.Parts) {
			return 0, io.EOF
		}
		path := r.dir.Path(partName(r.name, r.index.Generation, r.at))
		part, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		want := min(PartSize, r.index.Bytes-PartSize*int64(r.at))
		if sum := sha256.Sum256(part); int64(len(part)) != want || hex.EncodeToString(sum[:]) != r.index.Parts[r.at] {
			return 0, usage.Errorf("%s is damaged or of another moment than %s: fetch the folder again", path, r.dir.indexOf(r.name))
		}
		r.at++
		r.buf.Reset(part)
	}
	return r.buf.Read(b)
}

// writeParts replaces a file in parts as a whole.
func (d Dir) writeParts(name string, write func(io.Writer) error) error {
	old, err := d.readIndex(name)
	if err != nil {
		return err
	}
	w := &partWriter{dir: d, name: name, index: index{Generation: 1}}
	if old != nil {
		w.index.Generation = old.Generation + 1
	}
	if err := write(w); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	b, err := json.Marshal(&w.index)
	if err != nil {
		return err
	}
	if err := d.Write(name+".json", append(b, '\n')); err != nil {
		return err
	}
	return d.dropParts(name, w.index.Generation)
}

// dropParts removes the parts of other generations than one.
func (d Dir) dropParts(name string, generation int) error {
	entries, err := os.ReadDir(filepath.Dir(d.Path(name)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(name)+".")
		g, _, ok2 := strings.Cut(rest, "-")
		if n, bad := strconv.Atoi(g); ok && ok2 && bad == nil && n != generation {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(d.Path(name)), e.Name())))
		}
	}
	return err
}

// partWriter writes parts as they get full.
type partWriter struct {
	dir   Dir
	name  string
	index index
	buf   []byte
}

func (w *partWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		take := min(len(b), PartSize-len(w.buf))
		w.buf, b = append(w.buf, b[:take]...), b[take:]
		if len(w.buf) == PartSize {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *partWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	x := &w.index
	if err := w.dir.Write(partName(w.name, x.Generation, len(x.Parts)), w.buf); err != nil {
		return err
	}
	sum := sha256.Sum256(w.buf)
	x.Parts, x.Bytes = append(x.Parts, hex.EncodeToString(sum[:])), x.Bytes+int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}
