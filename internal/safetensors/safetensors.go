// Package safetensors reads and writes float32 tensors in the safetensors layout,
// which PyTorch and others share:
//
//	8 bytes   N, little-endian, unsigned
//	N bytes   a JSON object, padded with spaces so that the data are 8-byte aligned
//	          {"__metadata__":{string:string}, name:{"dtype":"F32","shape":[…],"data_offsets":[begin,end]}, …}
//	the rest  the tensors' values, row-major and little-endian, without gap or overlap;
//	          offsets count from here
package safetensors

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// A Tensor has one value for each index of Shape, the last index varying fastest.
// An empty Shape is a scalar.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// ErrFormat is wrapped by every error about the bytes of a file, as opposed to
// reading or writing them.
var ErrFormat = errors.New("not a usable safetensors file")

const (
	maxHeader   = 100_000_000 // the published limit
	metadataKey = "__metadata__"
	dtypeF32    = "F32"
	valueSize   = 4
	alignment   = 8
	chunkSize   = 1 << 16 // bytes moved at a time
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// byteSize is the size of a tensor's values. It refuses shapes whose non-zero
// dimensions multiply beyond what an int64 counts in bytes.
func byteSize(shape []int) (int64, error) {
	size, empty := uint64(valueSize), false
	for _, n := range shape {
		if n < 0 {
			return 0, malformed("dimension %d is negative", n)
		}
		if n == 0 {
			empty = true
			continue
		}
		high, low := bits.Mul64(size, uint64(n))
		if high != 0 || low > math.MaxInt64 {
			return 0, malformed("shape %s is too large", brief(shape))
		}
		size = low
	}
	if empty {
		return 0, nil
	}
	return int64(size), nil
}

// brief keeps a hostile file from filling an error message.
func brief(v any) string { return fmt.Sprintf("%.64s", fmt.Sprint(v)) }
