package numpy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/privgrad/privgrad/datasets"
)

// openArray opens a file, or has the whole of standard input.
func openArray(path string) (io.ReadCloser, error) {
	if path != datasets.Piped {
		return os.Open(path)
	}
	data, err := datasets.ReadPiped(mostBytes)
	return io.NopCloser(bytes.NewReader(data)), err
}

// Array reads records of a shape, without labels, from a file that numpy.save wrote, or that comes through standard
// input as datasets.Piped. It is for public records.
func Array(path string, shape [3]int) (s datasets.Split, err error) {
	in, err := openArray(path)
	if err != nil {
		return s, fmt.Errorf("array %s %w", path, datasets.Unread(err, nil))
	}
	defer in.Close()
	r := bufio.NewReader(in)
	s.Shape = shape
	h, err := readHeader(r)
	if err == nil && !fitsOne(h, shape) {
		err = fmt.Errorf("holds records of shape %v: the model reads %s", h.shape[1:], datasets.SizeText(shape))
	}
	if err == nil {
		err = values(&s, h, r)
	}
	if _, more := r.ReadByte(); err == nil && more != io.EOF {
		err = fmt.Errorf("goes on behind its last value: save it again")
	}
	if err != nil {
		return datasets.Split{}, fmt.Errorf("array %s %w", path, err)
	}
	return s, nil
}

func fitsOne(h header, shape [3]int) bool {
	_, ok := h.fits(shape)
	return ok
}
