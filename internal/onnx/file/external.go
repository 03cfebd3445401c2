package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// external is a part of a file beside the model.
type external struct {
	dir, name      string
	offset, length int64
}

func (s *external) raw(*Tensor) ([]byte, error) {
	f, size, err := openBeside(s.dir, s.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s.offset > size-s.length {
		return nil, fmt.Errorf("file %s has become shorter", quote(s.name))
	}
	raw := make([]byte, s.length)
	if _, err := f.ReadAt(raw, s.offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return raw, nil
}

// openBeside opens a plain file inside a folder. A file may come from anybody, so that it must not name files elsewhere.
func openBeside(dir, name string) (f *os.File, size int64, err error) {
	if dir == "" {
		return nil, 0, fmt.Errorf("its numbers are in a file %s, of which none can be read here: save the model as one file, by onnx.save(onnx.load(FILE), OTHER)", quote(name))
	}
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return nil, 0, fmt.Errorf("its numbers are in %s, outside the folder of the model: put them beside it, by onnx.save(onnx.load(FILE), OTHER)", quote(name))
	}
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	info, err := root.Stat(local)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no plain file")
	}
	if err == nil {
		f, err = root.Open(local)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("its numbers are in the file %s beside the model, which cannot be read: %w", quote(name), err)
	}
	return f, info.Size(), nil
}

// Fields of an entry of a tensor's external data.
const (
	entryKey   = 1
	entryValue = 2
)

// beside finds where the numbers of a tensor are that has them in another file.
func (d *decoder) beside(message []byte, t *Tensor) (*external, error) {
	e, read := elements[t.Type]
	if !read {
		return nil, fmt.Errorf("its type %s is not read from a file of its own", t.Type)
	}
	s := &external{dir: d.dir, length: int64(t.Len()) * int64(e.size)}
	err := each(message, func(f field) error {
		if f.number != tensorBeside {
			return nil
		}
		var entry []byte
		if err := f.message(&entry); err != nil {
			return err
		}
		return s.set(entry)
	})
	if err != nil {
		return nil, err
	}
	size, seen := d.sizes[s.name]
	if !seen {
		f, n, err := openBeside(s.dir, s.name)
		if err != nil {
			return nil, err
		}
		f.Close()
		size = &room{size: n, left: n}
		d.sizes[s.name] = size
	}
	if s.offset > size.size-s.length {
		return nil, fmt.Errorf("its numbers are %d bytes from %d on of file %s, which has %d: copy that file again", s.length, s.offset, quote(s.name), size.size)
	}
	// Parts that overlap would take any memory for a short file.
	if size.left -= s.length; size.left < 0 {
		return nil, fmt.Errorf("the parts of file %s that constants name are longer together than the file: export the model again", quote(s.name))
	}
	return s, nil
}

// set takes an entry. Those that are not read, such as a checksum, say nothing of where the numbers are.
func (s *external) set(entry []byte) error {
	var key, value string
	err := each(entry, func(f field) error {
		switch f.number {
		case entryKey:
			return f.text(&key)
		case entryValue:
			return f.text(&value)
		}
		return nil
	})
	if err != nil || key == "location" {
		s.name = value
		return err
	}
	if key != "offset" && key != "length" {
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("the %s of its numbers in another file is %s: export the model again", key, quote(value))
	}
	if key == "offset" {
		s.offset = n
	} else if n != s.length {
		return fmt.Errorf("its shape takes %d bytes, and %d are said to lie in another file: export the model again", s.length, n)
	}
	return nil
}

// room is what is left of a file beside the model.
type room struct{ size, left int64 }
