package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// variable is a declared piece of memory.
type variable struct {
	name        string
	space       string // .global, .const, .shared, .local, .param
	size, align int
	offset      int // in shared, local or parameter memory
	init        []byte
	extern      bool
}

type operandKind uint8

const (
	oNone  operandKind = iota
	oReg               // reg, or a predicate with neg
	oImm               // bits
	oFloat             // bits of a float64, or of a float32 where single
	oSym               // variable
	oSpec              // special register
	oAddr              // list[0] (register, symbol or immediate) + off
	oVec               // list
	oSink              // _
	oName              // a name that is nothing of the above, a label
)

type operand struct {
	kind   operandKind
	reg    int
	ty     ty
	neg    bool
	single bool
	bits   uint64
	off    int64
	sym    *variable
	name   string
	list   []operand
}

type register struct {
	index int
	ty    ty
}

type parser struct {
	tok  []token
	pos  int
	m    *Module
	vars map[string]*variable // of the module

	// of the kernel at hand
	k      *Kernel
	scopes []map[string]register
	local  map[string]*variable
	labels map[string]int
	jumps  []jump
	loc    string
	files  map[string]string
	seen   map[uint64]int // constants
}

type jump struct {
	inst int
	name string
	line int
}

// Parse reads a module. Errors name the line.
func Parse(src []byte) (*Module, error) {
	tok, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{tok: tok, m: &Module{kernels: map[string]*Kernel{}}, vars: map[string]*variable{},
		files: map[string]string{}}
	for p.pos < len(p.tok) {
		if err := p.top(); err != nil {
			return nil, err
		}
	}
	if len(p.m.names) == 0 {
		return nil, fmt.Errorf("ptx: no kernel in the module")
	}
	return p.m, nil
}

var assembled sync.Map // modules by their text

// Assemble is Parse that reads a text once. A module with variables that kernels write is a new one each time: it has its
// own.
func Assemble(src []byte) (*Module, error) {
	text := string(src)
	if m, ok := assembled.Load(text); ok {
		return m.(*Module), nil
	}
	m, err := Parse(src)
	if err == nil && !slices.ContainsFunc(m.variables, func(v *variable) bool { return v.space != ".const" }) {
		assembled.Store(text, m)
	}
	return m, err
}

func (p *parser) peek() string {
	if p.pos < len(p.tok) {
		return p.tok[p.pos].text
	}
	return ""
}

func (p *parser) line() int {
	if p.pos < len(p.tok) {
		return p.tok[p.pos].line
	}
	if len(p.tok) > 0 {
		return p.tok[len(p.tok)-1].line
	}
	return 1
}

func (p *parser) next() string {
	t := p.peek()
	p.pos++
	return t
}

func (p *parser) accept(t string) bool {
	if p.peek() == t {
		p.pos++
		return true
	}
	return false
}

func (p *parser) errorf(format string, a ...any) error {
	return fmt.Errorf("ptx: line %d: %s", p.line(), fmt.Sprintf(format, a...))
}

func (p *parser) expect(t string) error {
	if !p.accept(t) {
		return p.errorf("%q where %q belongs", p.peek(), t)
	}
	return nil
}

func (p *parser) restOfLine() []string {
	var out []string
	for l := p.line(); p.pos < len(p.tok) && p.tok[p.pos].line == l; p.pos++ {
		out = append(out, p.tok[p.pos].text)
	}
	return out
}

func (p *parser) number() (int, error) {
	t := p.peek()
	v, err := strconv.ParseInt(strings.TrimSuffix(t, "U"), 0, 64)
	if err != nil {
		return 0, p.errorf("%q is no whole number", t)
	}
	p.pos++
	return int(v), nil
}

// skipBraces goes past a balanced { … }.
func (p *parser) skipBraces() error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for depth := 1; depth > 0; {
		switch p.next() {
		case "{":
			depth++
		case "}":
			depth--
		case "":
			return p.errorf("{ without }")
		}
	}
	return nil
}

func (p *parser) top() error {
	switch t := p.peek(); t {
	case ".version":
		line := p.line()
		a := p.restOfLine()
		v, err := strconv.ParseFloat(a[len(a)-1], 64)
		if err != nil || v < 6 {
			return fmt.Errorf("ptx: line %d: version %q is none that this package reads, 6.0 or later", line, a[len(a)-1])
		}
		p.m.Version = int(math.Round(10 * v))
	case ".target":
		p.restOfLine()
	case ".file":
		a := p.restOfLine()
		if len(a) > 2 {
			p.files[a[1]] = strings.Trim(a[2], `"`)
		}
	case ".address_size":
		if a := p.restOfLine(); len(a) != 2 || a[1] != "64" {
			return p.errorf("addresses that are not of 64 bits")
		}
	case ".section": // of what clang -g adds
		p.next()
		p.next()
		return p.skipBraces()
	case ".visible", ".extern":
		p.next()
		return p.declaration(t == ".extern")
	default:
		return p.declaration(false)
	}
	return nil
}

func (p *parser) declaration(extern bool) error {
	switch t := p.peek(); t {
	case ".entry":
		p.next()
		return p.entry()
	case ".func":
		// Left aside: a call of it is an error where it stands.
		for p.peek() != "{" && p.peek() != ";" && p.peek() != "" {
			p.next()
		}
		if p.accept(";") {
			return nil
		}
		return p.skipBraces()
	case ".global", ".const", ".shared":
		v, err := p.variable()
		if err != nil {
			return err
		}
		v.extern = extern
		if extern && v.space != ".shared" {
			return p.errorf("%s is extern: there is no linker", v.name)
		}
		p.vars[v.name] = v
		if v.space != ".shared" {
			p.m.variables = append(p.m.variables, v)
		}
		return nil
	default:
		return p.errorf("unknown directive %q", t)
	}
}

// variable reads .space [.align n] .type name[n] [= {…}] ;
func (p *parser) variable() (*variable, error) {
	v := &variable{space: p.next(), align: 1}
	t, err := p.variableType(v)
	if err != nil {
		return nil, err
	}
	v.align = max(v.align, t.size())
	v.name = p.next()
	v.size = t.size()
	for p.accept("[") {
		if err := p.dimension(v); err != nil {
			return nil, err
		}
	}
	if p.accept("=") {
		if err := p.values(v, t); err != nil {
			return nil, err
		}
	}
	if v.space != ".param" {
		if err := p.expect(";"); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// variableType reads [.align n] .type.
func (p *parser) variableType(v *variable) (t ty, err error) {
	for w := p.peek(); strings.HasPrefix(w, "."); w = p.peek() {
		if w == ".align" {
			p.next()
			n, err := p.number()
			if err != nil {
				return tNone, err
			}
			if n < 1 || n > 1024 || n&(n-1) != 0 {
				return tNone, p.errorf("alignment %d", n)
			}
			v.align = n
			continue
		}
		var ok bool
		if t, ok = typeNames[w[1:]]; !ok || t == pred {
			return tNone, p.errorf("type %q of a variable", w)
		}
		p.next()
	}
	if t == tNone {
		return tNone, p.errorf("a variable without type")
	}
	return t, nil
}

// dimension reads n], or ] of an extern array.
func (p *parser) dimension(v *variable) error {
	if p.accept("]") {
		v.size = 0
		return nil
	}
	n, err := p.number()
	if err != nil {
		return err
	}
	if n < 0 || n > maxSize {
		return p.errorf("%s with %d elements; at most %d are supported", v.name, n, maxSize)
	}
	if v.size *= n; v.size > maxSize {
		return p.errorf("%s of %d bytes; at most %d are supported", v.name, v.size, maxSize)
	}
	return p.expect("]")
}

// values reads what a variable of a type begins with: a literal, or { … } of them.
func (p *parser) values(v *variable, t ty) error {
	v.init = make([]byte, 0, v.size)
	for depth, first := 0, true; first || depth > 0; first = false {
		switch p.peek() {
		case "{":
			depth++
			p.next()
		case "}":
			depth--
			p.next()
		case ",":
			p.next()
		default:
			o, err := p.operand()
			if err != nil {
				return err
			}
			x, err := p.immediate(o, t)
			if err != nil {
				return err
			}
			v.init = append(v.init, binary.LittleEndian.AppendUint64(nil, x)[:t.size()]...)
		}
	}
	if len(v.init) > v.size {
		return p.errorf("%s has %d bytes, its values %d", v.name, v.size, len(v.init))
	}
	return nil
}

// immediate gives the bits of a literal as type t.
func (p *parser) immediate(o operand, t ty) (uint64, error) {
	switch {
	case o.kind == oImm && !t.float():
		return t.extend(o.bits, 8), nil
	case o.kind == oImm && (t == f32 || t == f64):
		return fromFloat(float64(int64(o.bits)), t), nil
	case o.kind == oFloat:
		x := math.Float64frombits(o.bits)
		if o.single {
			if t.size() == 4 {
				return o.bits, nil
			}
			x = float64(math.Float32frombits(uint32(o.bits)))
		} else if t == b64 {
			return o.bits, nil
		}
		if t == f32 || t == f64 {
			return fromFloat(x, t), nil
		}
	}
	return 0, p.errorf("a literal that a type of %d bytes does not take", t.size())
}

func fromFloat(x float64, t ty) uint64 {
	if t == f32 {
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(x)
}

const (
	maxRegisters = 1 << 20
	maxSize      = 1 << 26 // of a variable, bytes
)

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (p *parser) entry() error {
	k := &Kernel{Name: p.next(), module: p.m}
	p.k, p.scopes, p.local, p.labels, p.jumps, p.loc = k, []map[string]register{{}}, map[string]*variable{}, map[string]int{}, nil, ""
	p.seen = map[uint64]int{}
	if p.accept("(") {
		for !p.accept(")") {
			if p.peek() != ".param" {
				return p.errorf("%q where a parameter belongs", p.peek())
			}
			v, err := p.variable()
			if err != nil {
				return err
			}
			v.offset = roundUp(k.paramSize, v.align)
			k.paramSize = v.offset + v.size
			k.Params = append(k.Params, Param{v.name, v.size, v.align, v.offset})
			p.local[v.name] = v
			p.accept(",")
		}
	}
	for p.peek() != "{" {
		switch t := p.next(); t {
		case ".maxntid":
			k.MaxThreads = 1
			for more := true; more; more = p.accept(",") {
				x, err := p.number()
				if err != nil {
					return err
				}
				k.MaxThreads *= x
			}
		case ".minnctapersm":
			if _, err := p.number(); err != nil {
				return err
			}
		default:
			p.pos--
			return p.errorf("unknown directive %q", t)
		}
	}
	if err := p.block(); err != nil {
		return err
	}
	for _, j := range p.jumps {
		at, ok := p.labels[j.name]
		if !ok {
			return fmt.Errorf("ptx: line %d: no label %q", j.line, j.name)
		}
		k.code[j.inst].target = int32(at)
	}
	k.code = append(k.code, inst{op: opExit, guard: -1, text: "ret", line: p.tok[p.pos-1].line})
	p.layout()
	if _, ok := p.m.kernels[k.Name]; ok {
		return p.errorf("a second kernel %q", k.Name)
	}
	p.m.kernels[k.Name] = k
	p.m.names = append(p.m.names, k.Name)
	return nil
}

// sharedGap parts variables in shared memory, so that what lies outside of one is not inside of another.
const sharedGap = 512

// layout places the shared variables; the code has their addresses already.
func (p *parser) layout() {
	k := p.k
	for _, v := range k.shared {
		if !v.extern {
			k.Shared = roundUp(k.Shared, v.align) + v.size
		}
	}
}

// use gives a variable that code names, and its address if that is known now.
func (p *parser) use(name string) *variable {
	if v, ok := p.local[name]; ok {
		return v
	}
	v, ok := p.vars[name]
	if !ok {
		return nil
	}
	if v.space == ".shared" {
		c := *v // kernels place it each for themselves
		p.place(&c)
		p.local[name] = &c
		return &c
	}
	return v
}

// place gives a shared variable its offset. Extern arrays go behind all others, at launch.
func (p *parser) place(v *variable) {
	if v.extern {
		v.offset = dynamicBase
	} else {
		end := 0
		for _, o := range p.k.shared {
			if !o.extern {
				end = max(end, o.offset+o.size+sharedGap)
			}
		}
		v.offset = roundUp(end, max(v.align, 16))
	}
	p.k.shared = append(p.k.shared, v)
}

// block reads { … }.
func (p *parser) block() error {
	if err := p.expect("{"); err != nil {
		return err
	}
	p.scopes = append(p.scopes, map[string]register{})
	for !p.accept("}") {
		if err := p.statement(); err != nil {
			return err
		}
	}
	p.scopes = p.scopes[:len(p.scopes)-1]
	return nil
}

func (p *parser) statement() error {
	switch t := p.peek(); {
	case t == "":
		return p.errorf("{ without }")
	case t == "{":
		return p.block()
	case t == ".reg":
		return p.registers()
	case t == ".shared" || t == ".local":
		v, err := p.variable()
		if err != nil {
			return err
		}
		if v.space == ".shared" {
			p.place(v)
		} else {
			v.offset = roundUp(p.k.localSize, v.align)
			p.k.localSize = v.offset + v.size
		}
		p.local[v.name] = v
	case t == ".loc":
		a := p.restOfLine()
		if len(a) > 2 {
			p.loc = p.files[a[1]] + ":" + a[2]
		}
	case t == ".pragma":
		for p.peek() != ";" && p.peek() != "" {
			p.next()
		}
		return p.expect(";")
	case t == ".param":
		return p.errorf("calls of functions are not supported: have them inlined")
	case strings.HasPrefix(t, "."):
		return p.errorf("unknown directive %q", t)
	case p.pos+1 < len(p.tok) && p.tok[p.pos+1].text == ":":
		if _, ok := p.labels[t]; ok {
			return p.errorf("a second label %q", t)
		}
		p.labels[t] = len(p.k.code)
		p.pos += 2
	default:
		return p.instruction()
	}
	return nil
}

func (p *parser) registers() error {
	p.next()
	t, ok := typeNames[strings.TrimPrefix(p.peek(), ".")]
	if !ok {
		return p.errorf("type %q of registers", p.peek())
	}
	p.next()
	for {
		name := p.next()
		if p.accept("<") {
			n, err := p.number()
			if err != nil {
				return err
			}
			if n < 0 || n > maxRegisters {
				return p.errorf("%d registers; at most %d are supported", n, maxRegisters)
			}
			if err := p.expect(">"); err != nil {
				return err
			}
			for i := range n {
				p.register(name+strconv.Itoa(i), t)
			}
		} else {
			p.register(name, t)
		}
		if !p.accept(",") {
			return p.expect(";")
		}
	}
}

// register declares one. Its slot is given at the first use, since the counts of compilers are generous.
func (p *parser) register(name string, t ty) {
	p.scopes[len(p.scopes)-1][name] = register{-1, t}
}

func (p *parser) lookup(name string) (register, bool) {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		r, ok := p.scopes[i][name]
		if !ok {
			continue
		}
		if r.index < 0 {
			if r.ty == pred {
				r.index = p.k.preds
				p.k.preds++
			} else {
				r.index = p.k.regs
				p.k.regs++
			}
			p.scopes[i][name] = r
		}
		return r, true
	}
	return register{}, false
}

func (p *parser) operand() (operand, error) {
	switch t := p.next(); t {
	case "[":
		return p.addressOperand()
	case "{":
		o := operand{kind: oVec}
		for !p.accept("}") {
			e, err := p.operand()
			if err != nil {
				return o, err
			}
			o.list = append(o.list, e)
			p.accept(",")
		}
		return o, nil
	case "!":
		o, err := p.operand()
		o.neg = true
		return o, err
	case "-":
		return p.negative()
	case "_":
		return operand{kind: oSink}, nil
	case "", ";", ",", "]", "}":
		p.pos--
		return operand{}, p.errorf("%q where an operand belongs", t)
	default:
		if c := t[0]; c >= '0' && c <= '9' {
			return p.literal(t)
		}
		return p.named(t)
	}
}

// addressOperand reads base+off+…].
func (p *parser) addressOperand() (operand, error) {
	base, err := p.operand()
	if err != nil {
		return base, err
	}
	o := operand{kind: oAddr, list: []operand{base}}
	for !p.accept("]") {
		sign := int64(1)
		if p.accept("-") {
			sign = -1
		} else if err := p.expect("+"); err != nil {
			return o, err
		}
		if p.accept("-") {
			sign = -sign
		}
		n, err := p.number()
		if err != nil {
			return o, err
		}
		o.off += sign * int64(n)
	}
	return o, nil
}

// negative reads the number after a minus.
func (p *parser) negative() (operand, error) {
	o, err := p.operand()
	switch {
	case o.kind == oImm:
		o.bits = -o.bits
	case o.kind == oFloat && !o.single:
		o.bits ^= 1 << 63
	case err == nil:
		err = p.errorf("a minus before what is no number")
	}
	return o, err
}

// named finds what a name stands for.
func (p *parser) named(name string) (operand, error) {
	if r, ok := p.lookup(name); ok {
		return operand{kind: oReg, reg: r.index, ty: r.ty}, nil
	}
	if slices.Contains(specialNames, name) {
		return operand{kind: oSpec, name: name}, nil
	}
	if p.k != nil {
		if v := p.use(name); v != nil {
			return operand{kind: oSym, sym: v}, nil
		}
	}
	return operand{kind: oName, name: name}, nil
}

func (p *parser) literal(t string) (operand, error) {
	o, err := operand{kind: oFloat}, error(nil)
	switch {
	case len(t) == 10 && (t[:2] == "0f" || t[:2] == "0F"):
		o.single = true
		o.bits, err = strconv.ParseUint(t[2:], 16, 32)
	case len(t) == 18 && (t[:2] == "0d" || t[:2] == "0D"):
		o.bits, err = strconv.ParseUint(t[2:], 16, 64)
	case strings.Contains(t, "."):
		var x float64
		x, err = strconv.ParseFloat(t, 64)
		o.bits = math.Float64bits(x)
	default:
		o.kind = oImm
		o.bits, err = strconv.ParseUint(strings.TrimSuffix(t, "U"), 0, 64)
	}
	if err != nil {
		p.pos--
		return operand{}, p.errorf("%q is no number", t)
	}
	return o, nil
}

func (p *parser) instruction() error {
	line := p.line()
	in := inst{guard: -1, line: line, source: p.loc}
	if p.accept("@") {
		neg := p.accept("!")
		r, ok := p.lookup(p.next())
		if !ok || r.ty != pred {
			p.pos--
			return p.errorf("%q is no predicate", p.peek())
		}
		in.guard, in.guardNeg = int32(r.index), neg
	}
	name := p.next()
	in.text = name
	var ops []operand
	for p.peek() != ";" {
		if p.peek() == "" {
			return p.errorf("%s without a semicolon", name)
		}
		o, err := p.operand()
		if err != nil {
			return err
		}
		ops = append(ops, o)
		if !p.accept(",") {
			break
		}
	}
	if err := p.expect(";"); err != nil {
		return err
	}
	p.k.code = append(p.k.code, in)
	if err := p.decode(&p.k.code[len(p.k.code)-1], name, ops); err != nil {
		return fmt.Errorf("ptx: line %d: %s: %w", line, name, err)
	}
	return nil
}
