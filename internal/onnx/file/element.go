package file

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/privgrad/privgrad/internal/half"
)

// An element says how the numbers of a type are stored.
type element struct {
	size int // bytes of a number in raw form, the lowest first
	// The other form is a list, in a field of its own.
	list     protowire.Number
	kind     protowire.Type
	from, to int64 // what the list may hold, where its numbers are longer than the type's
	float    func(raw []byte) float64
	int      func(raw []byte) int64
}

var elements = map[ElementType]element{
	Float32:  {size: 4, list: 4, kind: protowire.Fixed32Type, float: float32Of},
	Float64:  {size: 8, list: 10, kind: protowire.Fixed64Type, float: float64Of},
	Float16:  {size: 2, list: 5, kind: protowire.VarintType, to: math.MaxUint16, float: float16Of},
	BFloat16: {size: 2, list: 5, kind: protowire.VarintType, to: math.MaxUint16, float: bfloat16Of},
	Bool:     {size: 1, list: 5, kind: protowire.VarintType, to: 1, int: boolOf},
	Uint8:    {size: 1, list: 5, kind: protowire.VarintType, to: math.MaxUint8, int: uint8Of},
	Int8:     {size: 1, list: 5, kind: protowire.VarintType, from: math.MinInt8, to: math.MaxInt8, int: int8Of},
	Int32:    {size: 4, list: 5, kind: protowire.VarintType, from: math.MinInt32, to: math.MaxInt32, int: int32Of},
	Int64:    {size: 8, list: 7, kind: protowire.VarintType, from: math.MinInt64, to: math.MaxInt64, int: int64Of},
}

func float32Of(raw []byte) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
}

func float64Of(raw []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(raw)) }

func float16Of(raw []byte) float64 {
	return float64(half.ToFloat32(binary.LittleEndian.Uint16(raw)))
}

func bfloat16Of(raw []byte) float64 {
	return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw)) << 16))
}

func boolOf(raw []byte) int64 {
	if raw[0] != 0 {
		return 1
	}
	return 0
}

func uint8Of(raw []byte) int64 { return int64(raw[0]) }
func int8Of(raw []byte) int64  { return int64(int8(raw[0])) }
func int32Of(raw []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(raw))) }
func int64Of(raw []byte) int64 { return int64(binary.LittleEndian.Uint64(raw)) }

// names are those of all types in the format, by number.
var names = []string{
	"undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32", "uint64",
	"complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4", "float4e2m1",
	"float8e8m0",
}

// String is the type's name in the format.
func (t ElementType) String() string {
	if t >= 0 && int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("type %d", int(t))
}

// IsFloating says whether Floats reads tensors of the type.
func (t ElementType) IsFloating() bool { return elements[t].float != nil }

// IsWhole says whether Ints reads tensors of the type.
func (t ElementType) IsWhole() bool { return elements[t].int != nil }
