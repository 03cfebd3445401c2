package datasets

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/internal/pages"
)

// maxFile bounds a decompressed file, five times the largest of the known sets,
// so that a damaged or hostile file is refused before it fills the memory.
const maxFile = 1 << 30

// ReadFile returns the whole content of a file, decompressed where its name ends
// in .gz, or of name.gz where only that exists. The error is fs.ErrNotExist if neither does. Of Piped it is all of
// standard input, as it comes.
func ReadFile(name string) ([]byte, error) {
	if name == Piped {
		return ReadPiped(maxFile)
	}
	fsys, base := os.DirFS(filepath.Dir(name)), filepath.Base(name)
	data, found, err := readFile(fsys, base, maxFile)
	if err == nil && found == base && filepath.Ext(base) == ".gz" {
		return gunzip(data, maxFile)
	}
	return data, err
}

// OpenFile is ReadFile for files beyond memory, of any size. It does not read standard input.
func OpenFile(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		name += ".gz"
		f, err = os.Open(name)
	}
	if err != nil || filepath.Ext(name) != ".gz" {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, Unread(err, errNotGzip)
	}
	return unzipped{z, f}, nil
}

type unzipped struct {
	*gzip.Reader
	file io.Closer
}

func (u unzipped) Close() error { return errors.Join(u.Reader.Close(), u.file.Close()) }

// readFile returns the whole content of name, or of name.gz decompressed, and
// the name found. The error is fs.ErrNotExist if neither exists.
func readFile(fsys fs.FS, name string, limit int64) (data []byte, found string, err error) {
	for _, found = range []string{name, name + ".gz"} {
		data, err = readBounded(fsys, found, limit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && found != name {
			data, err = gunzip(data, limit)
		}
		return data, found, err
	}
	return nil, name, fs.ErrNotExist
}

func readBounded(fsys fs.FS, name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > limit {
		return nil, errTooLarge(limit)
	}
	return fs.ReadFile(fsys, name)
}

// Unread says why a file or a folder was not read: what the file system says, or else damage, which is what is wrong with
// its content.
func Unread(err, damage error) error {
	failed := (*fs.PathError)(nil)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("may not be read: %w; give yourself the right to read it", fs.ErrPermission)
	case errors.As(err, &failed):
		return fmt.Errorf("cannot be read: %w", failed.Err)
	case damage == nil:
		return fmt.Errorf("cannot be read: %w", err)
	}
	return damage
}

var errNotGzip = errors.New("not gzip data despite its name: rename it or fetch it again")

func errTooLarge(limit int64) error {
	return fmt.Errorf("larger than the limit of %d MiB: not a file of this set", limit>>20)
}

// gunzip decompresses a whole file, whose parts may have been concatenated.
func gunzip(packed []byte, limit int64) ([]byte, error) {
	in := bytes.NewReader(packed)
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, errNotGzip
	}
	// The trailer holds the size, which deflate's best ratio bounds too. Only
	// storage is taken from it: a wrong value costs time or memory, no data.
	guess := min(int64(binary.LittleEndian.Uint32(packed[len(packed)-4:])), 1032*int64(len(packed)), limit)
	out := bytes.NewBuffer(pages.Make[byte](int(guess) + bytes.MinRead)[:0])
	for {
		z.Multistream(false)
		if _, err := io.Copy(out, io.LimitReader(z, limit+1-int64(out.Len()))); err != nil {
			return nil, errors.New("the gzip data are damaged or cut off: fetch the file again")
		}
		if int64(out.Len()) > limit {
			return nil, errTooLarge(limit)
		}
		if in.Len() == 0 {
			return out.Bytes(), nil
		}
		if err := z.Reset(in); err != nil {
			return nil, errors.New("bytes follow the end of the gzip data: fetch the file again")
		}
	}
}

// IDXImages decodes an IDX file of unsigned bytes with dimensions (records,
// height, width). It has no labels.
func IDXImages(data []byte, shape [3]int) (pixels, labels []byte, err error) {
	pixels, err = decodeIDX(data, shape[1], shape[2])
	return pixels, nil, err
}

// IDXLabels decodes an IDX file of unsigned bytes with the one dimension
// (records). It has no pixels.
func IDXLabels(data []byte, _ [3]int) (pixels, labels []byte, err error) {
	labels, err = decodeIDX(data)
	return nil, labels, err
}

// decodeIDX checks a whole IDX file, whose records have the given dimensions,
// and returns its payload. The format: two zero bytes, the element type, the
// number of dimensions, each dimension as a big-endian 32-bit number, the
// elements. No error quotes the record count, which is private.
func decodeIDX(data []byte, record ...int) ([]byte, error) {
	rank := 1 + len(record)
	header := 4 + 4*rank
	if len(data) < header {
		return nil, errors.New("the header is cut off: fetch the file again")
	}
	if data[0] != 0 || data[1] != 0 {
		return nil, errors.New("the magic number is not that of an IDX file: check that the file is what its name says")
	}
	if data[2] != 0x08 {
		return nil, fmt.Errorf("the element type is %#02x, want 0x08 (unsigned byte): convert the file", data[2])
	}
	if int(data[3]) != rank {
		return nil, fmt.Errorf("the number of dimensions is %d, want %d: check that images and labels are not swapped", data[3], rank)
	}
	want := uint64(binary.BigEndian.Uint32(data[4:]))
	for i, n := range record {
		if got := binary.BigEndian.Uint32(data[8+4*i:]); uint64(got) != uint64(n) {
			return nil, fmt.Errorf("dimension %d of a record is %d, want %d: the file belongs to another set", i+1, got, n)
		}
		want *= uint64(n)
	}
	switch got := uint64(len(data) - header); {
	case got < want:
		return nil, errors.New("the file ends before the last record that its header announces: fetch the file again")
	case got > want:
		return nil, errors.New("bytes follow the last record that its header announces: fetch the file again")
	}
	return data[header:], nil
}
