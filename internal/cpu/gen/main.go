// Command gen writes the AVX2, FMA, AVX-512 and NEON kernels of the CPU device and of the streams. It is a module of its own so that the assembler
// library stays out of the product's dependencies. Run it in this directory: go run .
package main

import (
	"errors"
	"fmt"
	"log"
	"math"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// A unit is one generated assembly file, with its Go declarations, in the package that the directory holds.
type unit struct {
	dir, file string
	write     func(*asm)
}

var units = []unit{
	{"../gemm", "kernels", gemm}, {"../gemm", "kernels512", gemm512},
	{"../squares", "kernels", squares}, {"../peak", "kernels", peak}, {"../vec", "kernels", vec}, {"../../stream", "kernels", stream}, {"../../exact", "kernels", exactNoise},
}

func main() {
	log.SetFlags(0)
	for path, text := range rendered() {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			log.Fatalf("gen: %v", err)
		}
	}
}

// rendered are the files of all units, by path.
func rendered() map[string][]byte {
	all := map[string][]byte{}
	add := func(dir string, files map[string][]byte, err error) {
		if err != nil {
			log.Fatalf("gen: %s: %v", dir, err)
		}
		for name, text := range files {
			all[filepath.Join(filepath.FromSlash(dir), name)] = text
		}
	}
	for _, u := range units {
		files, err := u.render()
		add(u.dir, files, err)
	}
	for _, u := range neonUnits {
		files, err := u.render()
		add(u.dir, files, err)
	}
	return all
}

// render returns the unit's files by name.
func (u unit) render() (map[string][]byte, error) {
	file, err := u.compile()
	if err != nil {
		return nil, err
	}
	cfg := printer.Config{Name: "internal/cpu/gen", Pkg: path.Base(u.dir)}
	text, err1 := printer.NewGoAsm(cfg).Print(file)
	stubs, err2 := printer.NewStubs(cfg).Print(file)
	return map[string][]byte{u.file + "_amd64.s": text, u.file + "_amd64.go": stubs}, errors.Join(err1, err2)
}

// compile returns the unit's functions with every register and offset decided.
func (u unit) compile() (*ir.File, error) {
	g := &asm{Context: build.NewContext(), constants: map[string]operand.Mem{}, form: avx2}
	g.ConstraintExpr("!noasm")
	u.write(g)
	file, err := g.Result()
	if err != nil {
		return nil, err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return nil, err
	}
	for _, f := range file.Functions() {
		if strings.HasSuffix(f.Name, "AVX2") && slices.ContainsFunc(f.Instructions(), beyondAVX2) {
			return nil, fmt.Errorf("%s needs more than the sixteen registers of AVX2", f.Name)
		}
	}
	return file, nil
}

// beyondAVX2 finds registers that only AVX-512 has: avo hands them out where the others do not suffice.
func beyondAVX2(in *ir.Instruction) bool {
	return slices.ContainsFunc(in.Operands, func(op operand.Op) bool {
		r, ok := op.(reg.Physical)
		return ok && r.Kind() == reg.KindVector && r.PhysicalIndex() >= 16
	})
}

// asm adds to an avo context what the units share.
type asm struct {
	*build.Context
	constants map[string]operand.Mem
	said      string // of the function before, without its number
	form      form   // of the kernel at hand
}

var number = regexp.MustCompile(`\d+`)

// function opens a function; no kernel keeps a pointer. Functions in a row that differ only in the number of their name say once
// what they do.
func (g *asm) function(name, signature string, doc ...string) {
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr("func(" + signature + ")")
	g.Pragma("noescape")
	say := withoutNumber(name, strings.Join(doc, " "))
	if say != g.said {
		g.Doc(doc...)
		g.said = say
	}
}

// withoutNumber is what is said of a function, without its name and, as a word, the number in it; the instruction set stays.
func withoutNumber(name, doc string) string {
	short, isa, _ := strings.Cut(name, "AVX")
	own := regexp.MustCompile(`\b` + number.FindString(short) + `\b`)
	return number.ReplaceAllString(short, "") + isa + own.ReplaceAllString(strings.TrimPrefix(doc, name), "")
}

func (g *asm) gp(param string) reg.GPVirtual {
	return g.Load(g.Param(param), g.GP64()).(reg.GPVirtual)
}

// base is where the elements of a slice parameter lie.
func (g *asm) base(slice string) reg.GPVirtual {
	return g.Load(g.Param(slice).Base(), g.GP64()).(reg.GPVirtual)
}

func (g *asm) length(slice string) reg.GPVirtual {
	return g.Load(g.Param(slice).Len(), g.GP64()).(reg.GPVirtual)
}

func (g *asm) flag(param string) reg.GPVirtual {
	return g.Load(g.Param(param), g.GP8()).(reg.GPVirtual)
}

// unless jumps where a flag is not set.
func (g *asm) unless(flag reg.GPVirtual, label string) {
	g.TESTB(flag, flag)
	g.JZ(operand.LabelRef(label))
}

// floatStride is a parameter that counts floats, in bytes.
func (g *asm) floatStride(param string) reg.GPVirtual {
	v := g.gp(param)
	g.SHLQ(operand.Imm(2), v)
	return v
}

// sizeOf is the size of n floats.
func sizeOf(n int) operand.Constant {
	if n < 64 {
		return operand.Imm(uint64(4 * n))
	}
	return operand.U32(uint32(4 * n))
}

func several(n int, register func() reg.VecVirtual) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = register()
	}
	return v
}

// repeat does body as often as the counter n says, at least once.
func (g *asm) repeat(label string, n reg.GPVirtual, body func()) {
	g.Label(label)
	body()
	g.DECQ(n)
	g.JNZ(operand.LabelRef(label))
}

// whole does body once for every size in n, and leaves the rest in n.
func (g *asm) whole(loop, rest string, size int, n reg.GPVirtual, body func()) {
	step := operand.Imm(uint64(size))
	g.SUBQ(step, n)
	g.JL(operand.LabelRef(rest))
	g.Label(loop)
	body()
	g.SUBQ(step, n)
	g.JGE(operand.LabelRef(loop))
	g.Label(rest)
	g.ADDQ(step, n)
}

// unrolled does the steps that n counts, in blocks of so many, a power of two, and those that are left, which left gives, one
// by one. It overwrites both.
func (g *asm) unrolled(name, done string, n reg.GPVirtual, block int, left func() reg.GPVirtual, body func(steps int)) {
	g.SHRQ(operand.Imm(uint64(bits.TrailingZeros(uint(block)))), n)
	g.JZ(operand.LabelRef(name + "rest"))
	g.repeat(name+"blocks", n, func() { body(block) })
	g.Label(name + "rest")
	rest := left()
	g.ANDQ(operand.Imm(uint64(block-1)), rest)
	g.JZ(operand.LabelRef(name + done))
	g.repeat(name+"single", rest, func() { body(1) })
	g.Label(name + done)
}

// end returns from a kernel.
func (g *asm) end() {
	g.VZEROUPPER()
	g.RET()
}

// splat broadcasts a float32 parameter. Load would move it by an instruction that knows no upper
// halves of registers, and where others have written some, that takes a hundred times as long.
func (g *asm) splat(param string) reg.VecVirtual {
	v := g.fresh()
	g.VBROADCASTSS(g.address(g.Param(param)), v)
	return v
}

// address is where a parameter or a result lies.
func (g *asm) address(c gotypes.Component) operand.Mem {
	b, err := c.Resolve()
	if err != nil {
		log.Fatalf("gen: %v", err)
	}
	return b.Addr
}

// words returns a read-only table of 32-bit words, laid down once a file.
func (g *asm) words(name string, w ...uint32) operand.Mem {
	if m, ok := g.constants[name]; ok {
		return m
	}
	m := g.StaticGlobal(name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, x := range w {
		g.AppendDatum(operand.U32(x))
	}
	g.constants[name] = m
	return m
}

// floats returns sixteen copies of x as a memory operand.
func (g *asm) floats(name string, x float32) operand.Mem {
	return g.copies(name, math.Float32bits(x))
}

// copies returns sixteen copies of w as a memory operand.
func (g *asm) copies(name string, w uint32) operand.Mem {
	return g.words(name, slices.Repeat([]uint32{w}, 16)...)
}

// mask sets the first n of eight lanes, n in 0..8; it overwrites n.
func (g *asm) mask(n reg.GPVirtual, v reg.VecVirtual) {
	table := g.GP64()
	g.LEAQ(g.lanes(8).Offset(32), table)
	g.NEGQ(n)
	g.VMOVUPS(operand.Mem{Base: table, Index: n, Scale: 4}, v)
}

// lanes returns a table of w words with all bits set and w zero words: reading from w−n on masks the first n of w lanes.
func (g *asm) lanes(w int) operand.Mem {
	t := make([]uint32, 2*w)
	for i := range w {
		t[i] = math.MaxUint32
	}
	return g.words(fmt.Sprintf("lanes%d", w), t...)
}
