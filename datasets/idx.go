package datasets

import (
	"encoding/binary"
	"errors"
	"fmt"
)

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
