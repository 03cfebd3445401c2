package ptx

// ty is a type of PTX: what the bits of a register or of memory mean.
type ty uint8

const (
	tNone ty = iota
	pred
	b8
	b16
	b32
	b64
	u8
	u16
	u32
	u64
	s8
	s16
	s32
	s64
	f16
	bf16
	tf32
	f32
	f64
)

var typeNames = map[string]ty{
	"pred": pred, "b8": b8, "b16": b16, "b32": b32, "b64": b64, "u8": u8, "u16": u16, "u32": u32, "u64": u64,
	"s8": s8, "s16": s16, "s32": s32, "s64": s64, "f16": f16, "bf16": bf16, "tf32": tf32, "f32": f32, "f64": f64,
}

// size in bytes.
func (t ty) size() int {
	switch t {
	case b8, u8, s8:
		return 1
	case b16, u16, s16, f16, bf16:
		return 2
	case b32, u32, s32, f32, tf32:
		return 4
	case b64, u64, s64, f64:
		return 8
	}
	return 0
}

func (t ty) signed() bool { return t >= s8 && t <= s64 }
func (t ty) float() bool  { return t >= f16 }

// extend gives the low bytes of x, as type t, in a register of n bytes.
func (t ty) extend(x uint64, n int) uint64 {
	shift := 64 - 8*uint(t.size())
	if t.signed() {
		x = uint64(int64(x<<shift) >> shift)
		return x << (64 - 8*uint(n)) >> (64 - 8*uint(n))
	}
	return x << shift >> shift
}

// vec is a register of a warp. Values narrower than 64 bits are zero-extended.
type vec [32]uint64

// alu computes all lanes of a result from up to three sources, each of which may be d.
type alu func(d, a, b, c *vec)
