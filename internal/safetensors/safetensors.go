// Package safetensors reads and writes tensors of float32 and of half precision in the
// safetensors layout, which PyTorch and others share. It reads bfloat16 and float64, too:
//
//	8 bytes   N, little-endian, unsigned
//	N bytes   a JSON object, padded with spaces so that the data are 8-byte aligned
//	          {"__metadata__":{string:string}, name:{"dtype":"F32","shape":[…],"data_offsets":[begin,end]}, …}
//	the rest  the tensors' values, row-major and little-endian, without gap or overlap;
//	          offsets count from here
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/privgrad/privgrad/internal/half"
)

// A Tensor has one value for each index of Shape, the last index varying fastest.
// An empty Shape is a scalar.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
	Half  bool // values of half precision, two bytes each; those that are none are rounded
}

func (t Tensor) form() form {
	if t.Half {
		return forms[1]
	}
	return forms[0]
}

// A form is how a value is written. Those without put are read only.
type form struct {
	name string
	size int64
	read func(b []byte) float32
	put  func(b []byte, v float32) []byte
}

var forms = []form{
	{"F32", 4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) },
		func(b []byte, v float32) []byte { return binary.LittleEndian.AppendUint32(b, math.Float32bits(v)) }},
	{"F16", 2, func(b []byte) float32 { return half.ToFloat32(binary.LittleEndian.Uint16(b)) },
		func(b []byte, v float32) []byte { return binary.LittleEndian.AppendUint16(b, half.FromFloat32(v)) }},
	{"BF16", 2, func(b []byte) float32 { return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16) }, nil},
	{"F64", 8, func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) }, nil},
}

// ErrFormat is wrapped by every error about the bytes of a file, as opposed to
// reading or writing them, and ErrOther by those of a file of another format, which
// say how to save it anew. ErrNotFinite is of values that no calculation goes on from.
var (
	ErrFormat    = errors.New("not a usable safetensors file")
	ErrOther     = fmt.Errorf("%w, but of another format", ErrFormat)
	ErrNotFinite = fmt.Errorf("%w: a value is not finite", ErrFormat)
)

const (
	maxHeader   = 100_000_000 // the published limit
	maxDims     = 64          // as in NumPy and PyTorch
	metadataKey = "__metadata__"
	alignment   = 8
	chunkSize   = 1 << 16 // bytes moved at a time
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// byteSize is the size of a tensor's values. It refuses shapes whose non-zero
// dimensions multiply beyond what an int64 counts in bytes.
func byteSize(shape []int, valueSize int64) (int64, error) {
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

// Write writes tensors in their order and metadata in the order of its keys: equal
// arguments give equal bytes. Names must be distinct.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	head, err := header(tensors, metadata)
	if err == nil {
		_, err = w.Write(head)
	}
	if err != nil {
		return fmt.Errorf("writing safetensors: %w", err)
	}
	buf := make([]byte, 0, chunkSize)
	for _, t := range tensors {
		f := t.form()
		for values := range slices.Chunk(t.Data, chunkSize/int(f.size)) {
			buf = buf[:0]
			for _, v := range values {
				buf = f.put(buf, v)
			}
			if _, err := w.Write(buf); err != nil {
				return fmt.Errorf("writing safetensors: tensor %.64q: %w", t.Name, err)
			}
		}
	}
	return nil
}

// header returns everything that comes before the data.
func header(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 8))
	b.WriteByte('{')
	if len(metadata) > 0 {
		for _, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, fmt.Errorf("metadata %.64q: neither key nor value may hold invalid UTF-8", key)
			}
		}
		fmt.Fprintf(b, "%q:%s", metadataKey, asJSON(metadata))
	}
	seen := make(map[string]bool, len(tensors))
	var offset int64
	for i, t := range tensors {
		if t.Name == metadataKey || seen[t.Name] || !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor %d: the name %.64q is reserved, used twice or invalid UTF-8", i, t.Name)
		}
		seen[t.Name] = true
		f := t.form()
		size, err := byteSize(t.Shape, f.size)
		if err != nil {
			return nil, fmt.Errorf("tensor %.64q: %w", t.Name, err)
		}
		if size != f.size*int64(len(t.Data)) {
			return nil, fmt.Errorf("tensor %.64q: shape %s does not hold %d values", t.Name, brief(t.Shape), len(t.Data))
		}
		if b.Len() > 9 {
			b.WriteByte(',')
		}
		shape := asJSON(append([]int{}, t.Shape...))
		fmt.Fprintf(b, `%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, asJSON(t.Name), f.name, shape, offset, offset+size)
		offset += size
	}
	b.WriteByte('}')
	for b.Len()%alignment != 0 {
		b.WriteByte(' ')
	}
	head := b.Bytes()
	if len(head)-8 > maxHeader {
		return nil, fmt.Errorf("the header takes %d bytes, the format allows %d: use fewer or shorter names", len(head)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	return head, nil
}

func asJSON(v any) []byte {
	b, _ := json.Marshal(v) // fails on no string, nor on what is made of them or of integers
	return b
}
