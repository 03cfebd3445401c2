package numpy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/datasets"
)

// Limits of one array.
const (
	mostHeader = 1 << 12 // bytes of the text that describes it
	mostDims   = 4
	mostBytes  = 1 << 36
)

// A header says what an array is.
type header struct {
	kind  string // such as "|u1"
	shape []int  // the first is the number of records, which is private
}

// described is the text as numpy writes it, a Python literal of which nothing is evaluated.
var described = regexp.MustCompile(`^\{'descr': *'([<>|=][A-Za-z][0-9]{1,3})', *'fortran_order': *(True|False), *'shape': *\(([0-9, ]*)\),? *\} *\n?$`)

// readHeader reads what stands before an array's values. Its errors quote no number.
func readHeader(r io.Reader) (h header, err error) {
	var start [12]byte
	if _, err := io.ReadFull(r, start[:10]); err != nil || string(start[:6]) != "\x93NUMPY" {
		return h, datasets.Unread(err, errors.New("is not an array in numpy's format: save it by numpy.savez"))
	}
	length := uint32(binary.LittleEndian.Uint16(start[8:]))
	switch start[6] {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, start[10:]); err != nil {
			return h, datasets.Unread(err, errCut)
		}
		length = binary.LittleEndian.Uint32(start[8:])
	default:
		return h, errors.New("is in a version of numpy's format that is not known: save it by numpy.savez")
	}
	if length > mostHeader {
		return h, errors.New("has a longer description than a plain array needs: save it by numpy.savez")
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, datasets.Unread(err, errCut)
	}
	parts := described.FindSubmatch(text)
	if parts == nil {
		return h, errors.New("is no plain array of numbers: convert it to uint8 or float32, and save it by numpy.savez")
	}
	if string(parts[2]) == "True" {
		return h, errors.New("is in Fortran order: save numpy.ascontiguousarray of it")
	}
	h.kind = string(parts[1])
	h.shape, err = dims(string(parts[3]))
	return h, err
}

// errCut says that a file is shorter than it says itself.
var errCut = errors.New("ends too early: save the file again")

// dims reads Python's tuple of numbers.
func dims(text string) (shape []int, err error) {
	text = strings.TrimSuffix(strings.TrimSpace(text), ",")
	fields := strings.Split(text, ",")
	if text == "" || len(fields) > mostDims {
		return nil, fmt.Errorf("must have from one to %d dimensions, records first", mostDims)
	}
	bytes := int64(8) // of the largest numbers
	for _, f := range fields {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || n < 0 || int64(n) > mostBytes || n > 0 && bytes > mostBytes/int64(n) {
			return nil, errors.New("is described as larger than any array that is read: save fewer or smaller records")
		}
		bytes *= int64(max(n, 1))
		shape = append(shape, n)
	}
	return shape, nil
}
