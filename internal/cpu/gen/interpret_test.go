package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A machine interprets the instructions of the AVX-512 kernels, where the processor cannot run them. It knows no other
// instructions and no other memory than what it was lent: what a mask does not keep from being touched elsewhere fails.
type machine struct {
	general     [16]uint64
	vectors     [32][16]uint32
	masks       [8]uint64
	left, right int64 // what the flags compare
	frame       []byte
	stack       uint64   // address of a kernel's local memory
	lent        [][]byte // region i begins at address (i+1)<<32
	symbols     map[string][]byte
}

// lend gives kernels some memory and returns its address.
func (m *machine) lend(b []byte) uint64 {
	m.lent = append(m.lent, b)
	return uint64(len(m.lent)) << 32
}

// at is n bytes of memory.
func (m *machine) at(address uint64, n int) []byte {
	region, offset := int(address>>32)-1, int(uint32(address))
	if region < 0 || region >= len(m.lent) || offset+n > len(m.lent[region]) {
		panic(fmt.Sprintf("%d bytes at %#x are out of bounds", n, address))
	}
	return m.lent[region][offset:][:n]
}

// call runs a function on arguments laid out as Go does: integers and addresses of eight bytes, floats of four, and truth values.
func (m *machine) call(f *ir.Function, args ...any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v", f.Name, p)
		}
	}()
	m.frame = nil
	aligned := func(n int) []byte { return append(m.frame, make([]byte, -len(m.frame)&(n-1))...) }
	for _, a := range args {
		switch a := a.(type) {
		case bool:
			m.frame = append(m.frame, map[bool]byte{true: 1}[a])
		case float32:
			m.frame = binary.LittleEndian.AppendUint32(aligned(4), math.Float32bits(a))
		case int:
			m.frame = binary.LittleEndian.AppendUint64(aligned(8), uint64(a))
		case uint64:
			m.frame = binary.LittleEndian.AppendUint64(aligned(8), a)
		default:
			panic(fmt.Sprintf("no such argument: %T", a))
		}
	}
	m.stack = m.lend(make([]byte, 256))
	// What a kernel does not set holds anything.
	for i := range m.vectors {
		for j := range m.vectors[i] {
			m.vectors[i][j] = math.Float32bits(float32(math.NaN()))
		}
	}
	for i := range m.general {
		m.general[i] = 0xdead << 40
	}
	var instructions []*ir.Instruction
	labels := map[ir.Label]int{}
	for _, n := range f.Nodes {
		switch n := n.(type) {
		case ir.Label:
			labels[n] = len(instructions)
		case *ir.Instruction:
			instructions = append(instructions, n)
		}
	}
	const most = 1 << 16 // instructions of a call
	for i, steps := 0, 0; ; steps++ {
		if steps == most {
			return fmt.Errorf("%s does not end", f.Name)
		}
		in := instructions[i]
		i++
		if in.IsTerminal {
			return nil
		}
		if in.IsBranch {
			if m.taken(in.Opcode) {
				i = labels[ir.Label(in.Operands[0].(operand.LabelRef))]
			}
			continue
		}
		m.step(in)
	}
}

func (m *machine) taken(jump string) bool {
	switch jump {
	case "JMP":
		return true
	case "JZ":
		return m.left == m.right
	case "JNZ":
		return m.left != m.right
	case "JL":
		return m.left < m.right
	case "JG":
		return m.left > m.right
	case "JLE":
		return m.left <= m.right
	case "JGE":
		return m.left >= m.right
	}
	panic("no such jump: " + jump)
}

func index(op operand.Op) int { return int(op.(reg.Physical).PhysicalIndex()) }

func address(m *machine, op operand.Mem) uint64 {
	a := m.stack
	if op.Base != reg.StackPointer {
		a = m.general[index(op.Base)]
	}
	a += uint64(int64(op.Disp))
	if op.Index != nil {
		a += m.general[index(op.Index)] * uint64(op.Scale)
	}
	return a
}

// bytes is the memory of an operand.
func (m *machine) bytes(op operand.Mem, n int) []byte {
	switch {
	case op.Base == reg.FramePointer:
		return slices.Clip(m.frame)[op.Disp:][:n]
	case op.Base == reg.StaticBase:
		return slices.Clip(m.symbols[op.Symbol.Name])[op.Disp:][:n]
	}
	return m.at(address(m, op), n)
}

// integer is the value of a general operand of n bytes.
func (m *machine) integer(op operand.Op, n int) uint64 {
	switch op := op.(type) {
	case operand.U8:
		return uint64(op)
	case operand.U32:
		return uint64(op)
	case operand.I8:
		return uint64(int64(op))
	case operand.I32:
		return uint64(int64(op))
	case operand.Mem:
		var b [8]byte
		copy(b[:], m.bytes(op, n))
		return binary.LittleEndian.Uint64(b[:])
	}
	return m.general[index(op)]
}

func (m *machine) set(op operand.Op, v uint64) {
	if at, ok := op.(operand.Mem); ok {
		binary.LittleEndian.PutUint64(m.bytes(at, 8), v)
	} else {
		m.general[index(op)] = v
	}
	m.left, m.right = int64(v), 0
}

// lanes is how many floats a vector register has.
func lanes(op operand.Op) int { return int(op.(reg.Register).Size()) / 4 }

// read is the value of a vector operand of n lanes, of which only those in mask touch memory.
func (m *machine) read(op operand.Op, n int, mask uint64) (v [16]uint32) {
	at, isMemory := op.(operand.Mem)
	if !isMemory {
		copy(v[:n], m.vectors[index(op)][:n])
		return v
	}
	for i := range n {
		if mask>>i&1 == 1 {
			v[i] = binary.LittleEndian.Uint32(m.bytes(at.Offset(4*i), 4))
		}
	}
	return v
}

// write writes the lanes in mask. In a register the others become zero, or stay with merge, and those beyond n become zero.
func (m *machine) write(op operand.Op, v [16]uint32, n int, mask uint64, merge bool) {
	at, isMemory := op.(operand.Mem)
	for i := range 16 {
		in := i < n && mask>>i&1 == 1
		switch {
		case isMemory && in:
			binary.LittleEndian.PutUint32(m.bytes(at.Offset(4*i), 4), v[i])
		case isMemory:
		case in:
			m.vectors[index(op)][i] = v[i]
		case i >= n || !merge:
			m.vectors[index(op)][i] = 0
		}
	}
}

// same is a register full of x.
func same(x uint32) (v [16]uint32) {
	for i := range v {
		v[i] = x
	}
	return v
}

// quads and halves turn lanes of 32 bits into lanes of 64 and back.
func quads(v [16]uint32) (q [8]uint64) {
	for i := range q {
		q[i] = uint64(v[2*i]) | uint64(v[2*i+1])<<32
	}
	return q
}

func halves(q [8]uint64) (v [16]uint32) {
	for i, x := range q {
		v[2*i], v[2*i+1] = uint32(x), uint32(x>>32)
	}
	return v
}

// fma stands for a multiply-add that rounds once: what it is compared with uses it too, so only the order matters.
func fma(x, y, z float32) float32 { return float32(math.FMA(float64(x), float64(y), float64(z))) }

// fromHalf is the bits of a half's value.
func fromHalf(h uint16) uint32 {
	x := math.Ldexp(float64(h&0x3ff), -24)
	switch e := int(h >> 10 & 31); e {
	case 0:
	case 31:
		x = math.Inf(1)
		if h&0x3ff != 0 {
			x = math.NaN()
		}
	default:
		x = math.Ldexp(float64(h&0x3ff|0x400), e-25)
	}
	return math.Float32bits(float32(x)) | uint32(h&0x8000)<<16
}

func (m *machine) step(in *ir.Instruction) {
	if in.Opcode == "VZEROUPPER" {
		return // no kernel reads a vector after it
	}
	ops := slices.Clone(in.Operands)
	last := ops[len(ops)-1]
	mask, zeroing := uint64(math.MaxUint64), slices.Contains(in.Suffixes, "Z")
	for i, op := range ops {
		if r, ok := op.(reg.Register); ok && r.Kind() == reg.KindOpmask && in.Opcode[0] != 'K' && i < len(ops)-1 {
			if mask = m.masks[index(op)]; index(op) == 0 {
				panic("k0 masks nothing")
			}
			ops = slices.Delete(ops, i, i+1)
			break
		}
	}
	// each computes a vector from the first operands, of as many lanes as the last one has.
	each := func(f func(x [3]float32) float32) {
		n := lanes(last)
		var from [3][16]uint32
		for i, op := range ops {
			if _, isMemory := op.(operand.Mem); isMemory && slices.Contains(in.Suffixes, "BCST") {
				from[i] = same(m.read(op, 1, 1)[0])
				continue
			}
			from[i] = m.read(op, n, mask)
		}
		var v [16]uint32
		var x [3]float32
		for i := range n {
			for q := range ops {
				x[q] = math.Float32frombits(from[q][i])
			}
			v[i] = math.Float32bits(f(x))
		}
		m.write(last, v, n, mask, !zeroing)
	}
	// each64 is each for lanes of 64 bits.
	each64 := func(f func(x [3]uint64) uint64) {
		n := lanes(last)
		var from [3][8]uint64
		for i, op := range ops {
			from[i] = quads(m.read(op, n, mask))
		}
		var v [8]uint64
		for i := range v {
			v[i] = f([3]uint64{from[0][i], from[1][i], from[2][i]})
		}
		m.write(last, halves(v), n, mask, !zeroing)
	}
	words := func(f func(x, y uint32) uint32) {
		n := lanes(last)
		v, with := m.read(ops[1], n, mask), m.read(ops[0], n, mask)
		for i := range v {
			v[i] = f(v[i], with[i])
		}
		m.write(last, v, n, mask, !zeroing)
	}
	shift := func(f func(x uint32, by int) uint32) {
		by, v := int(m.integer(ops[0], 1)), m.read(ops[1], 16, mask)
		for i, x := range v {
			v[i] = f(x, by)
		}
		m.write(last, v, 16, mask, !zeroing)
	}
	// toMask sets a mask to those of n lanes for which f holds.
	toMask := func(n int, f func(i int) bool) {
		k := uint64(0)
		for i := range n {
			if f(i) {
				k |= 1 << i
			}
		}
		m.masks[index(last)] = k & mask
	}
	float64s := func(f func(x [3]float64) float64) {
		each64(func(x [3]uint64) uint64 {
			return math.Float64bits(f([3]float64{math.Float64frombits(x[0]), math.Float64frombits(x[1]), math.Float64frombits(x[2])}))
		})
	}
	arithmetic := func(f func(x, y uint64) uint64) { m.set(last, f(m.integer(last, 8), m.integer(ops[0], 8))) }
	switch in.Opcode {
	case "PREFETCHT0", "PREFETCHT1": // touches nothing that a program can see
	case "MOVQ":
		if at, ok := last.(operand.Mem); ok {
			binary.LittleEndian.PutUint64(m.bytes(at, 8), m.integer(ops[0], 8))
		} else {
			m.general[index(last)] = m.integer(ops[0], 8)
		}
	case "LEAQ":
		m.general[index(last)] = address(m, ops[0].(operand.Mem))
	case "MOVB":
		if at, ok := last.(operand.Mem); ok {
			m.bytes(at, 1)[0] = byte(m.integer(ops[0], 1))
		} else {
			m.general[index(last)] = m.integer(ops[0], 1)
		}
	case "MOVLQSX":
		m.general[index(last)] = uint64(int64(int32(m.integer(ops[0], 4))))
	case "ADDQ":
		arithmetic(func(x, y uint64) uint64 { return x + y })
	case "ADDL":
		at := m.bytes(last.(operand.Mem), 4)
		binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)+uint32(m.integer(ops[0], 4)))
	case "ANDQ":
		arithmetic(func(x, y uint64) uint64 { return x & y })
	case "XORQ":
		arithmetic(func(x, y uint64) uint64 { return x ^ y })
	case "SHLQ":
		arithmetic(func(x, y uint64) uint64 { return x << y })
	case "SHRQ":
		arithmetic(func(x, y uint64) uint64 { return x >> y })
	case "SUBQ":
		arithmetic(func(x, y uint64) uint64 { return x - y })
	case "NEGQ":
		m.set(last, -m.integer(last, 8))
	case "IMUL3Q":
		m.general[index(last)] = m.integer(ops[0], 8) * m.integer(ops[1], 8)
	case "CMOVQGT":
		if m.left > m.right {
			m.general[index(last)] = m.integer(ops[0], 8)
		}
	case "DECQ":
		m.set(last, m.integer(last, 8)-1)
	case "CMPQ":
		m.left, m.right = int64(m.integer(ops[0], 8)), int64(m.integer(ops[1], 8))
	case "TESTQ":
		m.left, m.right = int64(m.integer(ops[0], 8)&m.integer(ops[1], 8)), 0
	case "TESTB":
		m.left, m.right = int64(int8(m.integer(ops[0], 1)&m.integer(ops[1], 1))), 0
	case "BZHIQ":
		m.set(last, m.integer(ops[1], 8)&(1<<(m.integer(ops[0], 8)&0xff)-1))
	case "KMOVW":
		m.masks[index(last)] = m.integer(ops[0], 4) & 0xffff
	case "KORTESTB":
		m.left, m.right = int64((m.masks[index(in.Operands[0])]|m.masks[index(in.Operands[1])])&0xff), 0
	case "VMOVUPS", "VMOVUPD", "VMOVAPS", "VMOVAPD", "VMOVDQU32", "VMOVDQA32":
		n := 0
		for _, op := range ops {
			if _, isMemory := op.(operand.Mem); !isMemory {
				n = lanes(op)
			}
		}
		m.write(last, m.read(ops[0], n, mask), n, mask, !zeroing)
	case "VBROADCASTSS", "VPBROADCASTD":
		m.write(last, same(m.read(ops[0], 1, 1)[0]), lanes(last), mask, !zeroing)
	case "VBROADCASTSD":
		x := quads(m.read(ops[0], 2, 3))[0]
		m.write(last, halves([8]uint64{x, x, x, x, x, x, x, x}), lanes(last), mask, !zeroing)
	case "VBROADCASTF64X4":
		x := m.read(ops[0], 8, mask)
		copy(x[8:], x[:8])
		m.write(last, x, 16, mask, !zeroing)
	case "VPTERNLOGQ": // bit number abc of the first operand, of the bits a of the result, b and c
		table, b, c, a := m.integer(ops[0], 1), quads(m.read(ops[2], 16, mask)), quads(m.read(ops[1], 16, mask)), quads(m.read(last, 16, mask))
		var v [8]uint64
		for i := range v {
			for bit := range 64 {
				at := a[i]>>bit&1<<2 | b[i]>>bit&1<<1 | c[i]>>bit&1
				v[i] |= table >> at & 1 << bit
			}
		}
		m.write(last, halves(v), 16, mask, !zeroing)
	case "VCVTQQ2PD":
		each64(func(x [3]uint64) uint64 { return math.Float64bits(float64(int64(x[0]))) })
	case "VPSRLQ", "VPSLLQ":
		by, v := m.integer(ops[0], 1), quads(m.read(ops[1], 16, mask))
		for i := range v {
			if in.Opcode == "VPSRLQ" {
				v[i] >>= by
			} else {
				v[i] <<= by
			}
		}
		m.write(last, halves(v), 16, mask, !zeroing)
	case "VPSRLVQ":
		each64(func(x [3]uint64) uint64 { return x[1] >> x[0] })
	case "VPADDQ":
		each64(func(x [3]uint64) uint64 { return x[1] + x[0] })
	case "VPSUBQ":
		each64(func(x [3]uint64) uint64 { return x[1] - x[0] })
	case "VUNPCKLPD", "VUNPCKHPD", "VPUNPCKLQDQ", "VPUNPCKHQDQ":
		b, a, odd := quads(m.read(ops[0], 16, mask)), quads(m.read(ops[1], 16, mask)), 0
		if strings.Contains(in.Opcode, "CKH") {
			odd = 1
		}
		var v [8]uint64
		for i := 0; i < 8; i += 2 {
			v[i], v[i+1] = a[i+odd], b[i+odd]
		}
		m.write(last, halves(v), 16, mask, !zeroing)
	case "VPUNPCKLDQ", "VPUNPCKHDQ":
		b, a, from := m.read(ops[0], 16, mask), m.read(ops[1], 16, mask), 0
		if in.Opcode == "VPUNPCKHDQ" {
			from = 2
		}
		var v [16]uint32
		for i := 0; i < 16; i += 4 {
			v[i], v[i+1], v[i+2], v[i+3] = a[i+from], b[i+from], a[i+from+1], b[i+from+1]
		}
		m.write(last, v, 16, mask, !zeroing)
	case "VSHUFI64X2":
		which, b, a := m.integer(ops[0], 1), m.read(ops[1], 16, mask), m.read(ops[2], 16, mask)
		var v [16]uint32
		for lane := range 4 {
			from := a[:]
			if lane >= 2 {
				from = b[:]
			}
			copy(v[4*lane:], from[4*(which>>(2*lane)&3):][:4])
		}
		m.write(last, v, 16, mask, !zeroing)
	case "VPROLD":
		shift(bits.RotateLeft32)
	case "VPSLLD":
		shift(func(x uint32, by int) uint32 { return x << by })
	case "VPSRAD":
		shift(func(x uint32, by int) uint32 { return uint32(int32(x) >> by) })
	case "VPADDD":
		words(func(x, y uint32) uint32 { return x + y })
	case "VPSUBD":
		words(func(x, y uint32) uint32 { return x - y })
	case "VPXORD", "VXORPS":
		words(func(x, y uint32) uint32 { return x ^ y })
	case "VANDPS":
		words(func(x, y uint32) uint32 { return x & y })
	case "VORPS":
		words(func(x, y uint32) uint32 { return x | y })
	case "VPERMI2PD":
		first, second := quads(m.read(ops[1], 16, mask)), quads(m.read(ops[0], 16, mask))
		both := append(first[:], second[:]...)
		v := quads(m.read(last, 16, mask))
		for i := range v {
			v[i] = both[v[i]&15]
		}
		m.write(last, halves(v), 16, mask, !zeroing)
	case "VPERMI2PS":
		first, second, which := m.read(ops[1], 16, mask), m.read(ops[0], 16, mask), m.read(last, 16, mask)
		both := append(first[:], second[:]...)
		var v [16]uint32
		for i, at := range which {
			v[i] = both[at&31]
		}
		m.write(last, v, 16, mask, !zeroing)
	case "VPERMPS":
		if lanes(last) != 16 {
			panic("VPERMPS of eight lanes")
		}
		from, which := m.read(ops[0], 16, mask), m.read(ops[1], 16, mask)
		var v [16]uint32
		for i, at := range which {
			v[i] = from[at&15]
		}
		m.write(last, v, 16, mask, !zeroing)
	case "VALIGND":
		low, high, by := m.read(ops[1], 16, mask), m.read(ops[2], 16, mask), m.integer(ops[0], 1)&15
		m.write(last, [16]uint32(append(low[:], high[:]...)[by:]), 16, mask, !zeroing)
	case "VMOVD":
		m.write(last, [16]uint32{uint32(m.integer(ops[0], 4))}, 16, math.MaxUint64, false)
	case "KSHIFTLW":
		m.masks[index(last)] = m.masks[index(ops[1])] << m.integer(ops[0], 1) & 0xffff
	case "VPERMT2PS":
		first, which, second := m.read(last, 16, mask), m.read(ops[1], 16, mask), m.read(ops[0], 16, mask)
		both, v := append(first[:], second[:]...), [16]uint32{}
		for i := range v {
			v[i] = both[which[i]&31]
		}
		m.write(last, v, 16, mask, !zeroing)
	case "VPTESTNMQ":
		a, b := quads(m.read(ops[0], 16, mask)), quads(m.read(ops[1], 16, mask))
		toMask(8, func(i int) bool { return a[i]&b[i] == 0 })
	case "VPCMPEQD":
		a, b := m.read(ops[0], 16, mask), m.read(ops[1], 16, mask)
		toMask(16, func(i int) bool { return a[i] == b[i] })
	case "VPMOVD2M":
		v := m.read(ops[0], 16, mask)
		toMask(16, func(i int) bool { return v[i]>>31 == 1 })
	case "VCMPPS":
		y, x := m.read(ops[1], 16, mask), m.read(ops[2], 16, mask)
		switch how := m.integer(ops[0], 1); how {
		case 0x11: // less, and ordered
		case 0x1e: // greater, and ordered
			x, y = y, x
		default:
			panic(fmt.Sprintf("no such comparison: %#x", how))
		}
		toMask(16, func(i int) bool { return math.Float32frombits(x[i]) < math.Float32frombits(y[i]) })
	case "VBLENDMPS":
		n := lanes(last)
		yes, no := m.read(ops[0], n, mask), m.read(ops[1], n, mask)
		m.write(last, no, n, math.MaxUint64, false)
		m.write(last, yes, n, mask, !zeroing)
	case "VSUBPD":
		float64s(func(x [3]float64) float64 { return x[1] - x[0] })
	case "VMULPD":
		float64s(func(x [3]float64) float64 { return x[1] * x[0] })
	case "VADDPD":
		float64s(func(x [3]float64) float64 { return x[1] + x[0] })
	case "VRNDSCALEPD":
		if how := m.integer(ops[0], 1); how != towardsZero {
			panic(fmt.Sprintf("no such rounding: %#x", how))
		}
		var v [8]uint64
		for i, x := range quads(m.read(ops[1], 16, mask)) {
			v[i] = math.Float64bits(math.Trunc(math.Float64frombits(x)))
		}
		m.write(last, halves(v), 16, mask, !zeroing)
	case "VFMADD231PD":
		float64s(func(x [3]float64) float64 { return math.FMA(x[1], x[0], x[2]) })
	case "VFMADD213PD":
		float64s(func(x [3]float64) float64 { return math.FMA(x[1], x[2], x[0]) })
	case "VMAXPD":
		float64s(func(x [3]float64) float64 {
			if x[1] > x[0] {
				return x[1]
			}
			return x[0]
		})
	case "VMINPD":
		float64s(func(x [3]float64) float64 {
			if x[1] < x[0] {
				return x[1]
			}
			return x[0]
		})
	case "VCVTPS2PD":
		from := m.read(ops[0], 8, mask)
		var v [8]uint64
		for i := range v {
			v[i] = math.Float64bits(float64(math.Float32frombits(from[i])))
		}
		m.write(last, halves(v), 16, mask, !zeroing)
	case "VCVTPD2PS":
		var v [16]uint32
		for i, x := range quads(m.read(ops[0], 16, mask)) {
			v[i] = math.Float32bits(float32(math.Float64frombits(x)))
		}
		m.write(last, v, 8, mask, !zeroing)
	case "VMOVDQU16": // two of a register's lanes here are one of its lanes
		from, v := ops[0].(operand.Mem), [16]uint32{}
		for i := range 2 * lanes(last) {
			if mask>>i&1 == 1 {
				v[i/2] |= uint32(binary.LittleEndian.Uint16(m.bytes(from.Offset(2*i), 2))) << (i % 2 * 16)
			}
		}
		m.write(last, v, lanes(last), math.MaxUint64, false)
	case "VPMOVZXBD":
		from, v := ops[0].(operand.Mem), [16]uint32{}
		for i := range lanes(last) {
			if mask>>i&1 == 1 {
				v[i] = uint32(m.bytes(from.Offset(i), 1)[0])
			}
		}
		m.write(last, v, lanes(last), mask, !zeroing)
	case "VCVTPH2PS":
		n := lanes(last)
		var v [16]uint32
		for i, x := range m.read(ops[0], n/2, mask) {
			if i < n/2 {
				v[2*i], v[2*i+1] = fromHalf(uint16(x)), fromHalf(uint16(x>>16))
			}
		}
		m.write(last, v, n, mask, !zeroing)
	case "VINSERTF32X8", "VINSERTF64X4":
		v, half := m.read(ops[2], 16, mask), m.read(ops[1], 8, mask)
		copy(v[8*m.integer(ops[0], 1):], half[:8])
		m.write(last, v, 16, mask, !zeroing)
	case "VEXTRACTF32X8", "VEXTRACTF64X4":
		var half [16]uint32
		v := m.read(ops[1], 16, mask)
		copy(half[:8], v[8*m.integer(ops[0], 1):])
		m.write(last, half, 8, mask, !zeroing)
	case "VRNDSCALEPS":
		if how := m.integer(ops[0], 1); how != 8 { // to nearest, and no flag raised
			panic(fmt.Sprintf("no such rounding: %#x", how))
		}
		ops = ops[1:]
		each(func(x [3]float32) float32 { return float32(math.RoundToEven(float64(x[0]))) })
	case "VCVTPS2DQ": // what no integer is near becomes the lowest one
		each(func(x [3]float32) float32 {
			y, i := math.RoundToEven(float64(x[0])), int32(math.MinInt32)
			if y >= math.MinInt32 && y <= math.MaxInt32 {
				i = int32(y)
			}
			return math.Float32frombits(uint32(i))
		})
	case "VCVTDQ2PS":
		each(func(x [3]float32) float32 { return float32(int32(math.Float32bits(x[0]))) })
	case "VSQRTPS":
		each(func(x [3]float32) float32 { return float32(math.Sqrt(float64(x[0]))) })
	case "VDIVPS":
		each(func(x [3]float32) float32 { return x[1] / x[0] })
	case "VMULPS":
		each(func(x [3]float32) float32 { return x[1] * x[0] })
	case "VADDPS":
		each(func(x [3]float32) float32 { return x[1] + x[0] })
	case "VSUBPS":
		each(func(x [3]float32) float32 { return x[1] - x[0] })
	case "VMAXPS": // of unordered values, and of zeros, the first
		each(func(x [3]float32) float32 {
			if x[1] > x[0] {
				return x[1]
			}
			return x[0]
		})
	case "VFMADD231PS":
		each(func(x [3]float32) float32 { return fma(x[1], x[0], x[2]) })
	case "VFMADD213PS":
		each(func(x [3]float32) float32 { return fma(x[1], x[2], x[0]) })
	case "VFNMADD231PS":
		each(func(x [3]float32) float32 { return fma(-x[1], x[0], x[2]) })
	case "VFNMADD213PS":
		each(func(x [3]float32) float32 { return fma(-x[1], x[2], x[0]) })
	case "VFMSUB132PS":
		each(func(x [3]float32) float32 { return fma(x[2], x[0], -x[1]) })
	default:
		panic("no such instruction: " + in.Opcode)
	}
}
