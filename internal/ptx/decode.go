package ptx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

type opcode uint8

const (
	opALU opcode = iota
	opMov        // as ALU, but an uninitialised source makes the result uninitialised
	opSel
	opSetp
	opLogic // on predicates
	opPack
	opUnpack
	opLoad
	opStore
	opAtom
	opCopy // cp.async
	opCommit
	opWait
	// From here on, what comes next may not be what follows in the text.
	opBra
	opExit
	opTrap
	opBarrier
	// From here on, all lanes of a member mask come together.
	opWarpSync
	opShuffle
	opVote
	opMMA
	opMatrix // ldmatrix
)

// inst is a decoded instruction. Registers are slots of a warp, negative ones constants: ^i.
type inst struct {
	op       opcode
	guard    int32 // predicate, -1 for none
	guardNeg bool
	f        alu
	compare  func(a, b *vec) uint32
	logic    func(a, b uint32) uint32
	atomic   func(old, b uint64) uint64
	dst      int32
	src      [4]int32 // used ones first
	nsrc     int
	pdst     int32    // predicate
	psrc     [2]int32 // predicates, -1 for none
	pneg     [2]bool

	target  int32
	space   space
	width   int // bytes of an element
	ty      ty
	regSize int
	count   int
	list    [12]int32 // elements of vectors
	off     uint64
	off2    uint64 // of the destination of cp.async
	reads   accessKind
	mode    string

	line   int
	text   string
	source string
}

type special struct {
	slot int
	name string
}

var specialNames = []string{"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
	"%nctaid.x", "%nctaid.y", "%nctaid.z"}

var errForm = errors.New("this form is unknown")

func (p *parser) constant(x uint64) int32 {
	i, ok := p.seen[x]
	if !ok {
		i = len(p.k.consts)
		var v vec
		for l := range v {
			v[l] = x
		}
		p.k.consts = append(p.k.consts, v)
		p.seen[x] = i
	}
	return int32(^i)
}

// source gives the slot of an operand read as type t; wide allows registers that are wider.
func (p *parser) source(o operand, t ty, wide bool) (int32, error) {
	switch o.kind {
	case oReg:
		if n := o.ty.size(); n == 0 || n != t.size() && (!wide || n < t.size()) {
			return 0, fmt.Errorf("a register of %d bytes where %d belong", n, t.size())
		}
		return int32(o.reg), nil
	case oImm, oFloat:
		x, err := p.immediate(o, t)
		if err != nil {
			return 0, errors.New("a literal that does not fit the type")
		}
		if n := t.size(); n < 8 {
			x &= 1<<(8*n) - 1
		}
		return p.constant(x), nil
	case oSpec:
		for _, s := range p.k.specials {
			if s.name == o.name {
				return int32(s.slot), nil
			}
		}
		p.k.specials = append(p.k.specials, special{p.k.regs, o.name})
		p.k.regs++
		return int32(p.k.regs - 1), nil
	case oSym:
		if o.sym.space == ".global" || o.sym.space == ".const" {
			p.k.consts = append(p.k.consts, vec{})
			i := len(p.k.consts) - 1
			p.k.addresses = append(p.k.addresses, address{i, o.sym})
			return int32(^i), nil
		}
		return p.constant(uint64(o.sym.offset)), nil
	}
	return 0, errors.New("an operand of the wrong kind")
}

// address is a constant that is known at launch.
type address struct {
	constant int
	variable *variable
}

func (p *parser) dest(o operand, t ty, wide bool) (int32, error) {
	if o.kind == oSink {
		p.k.regs++
		return int32(p.k.regs - 1), nil
	}
	if o.kind != oReg || o.ty == pred {
		return 0, errors.New("the result is no register")
	}
	return p.source(o, t, wide)
}

func (p *parser) predicate(o operand) (int32, error) {
	if o.kind == oSink {
		p.k.preds++
		return int32(p.k.preds - 1), nil
	}
	if o.kind != oReg || o.ty != pred {
		return 0, errors.New("an operand is no predicate")
	}
	return int32(o.reg), nil
}

// predicateSource also takes the literals 0 and 1.
func (p *parser) predicateSource(in *inst, i int, o operand) (err error) {
	if o.kind == oImm {
		in.psrc[i], in.pneg[i] = -1, (o.bits&1 != 0) != o.neg // -1 reads as false
		return nil
	}
	in.psrc[i], err = p.predicate(o)
	in.pneg[i] = o.neg
	return err
}

func arity(ops []operand, n ...int) error {
	if !slices.Contains(n, len(ops)) {
		return fmt.Errorf("%d operands where %d belong", len(ops), n[0])
	}
	return nil
}

// sources decodes operands of given types.
func (p *parser) sources(in *inst, ops []operand, types ...ty) error {
	if err := arity(ops, len(types)); err != nil {
		return err
	}
	for i, o := range ops {
		s, err := p.source(o, types[i], false)
		if err != nil {
			return fmt.Errorf("operand %d: %w", i+1, err)
		}
		in.src[i] = s
	}
	in.nsrc = len(ops)
	return nil
}

// computes decodes a result and its sources.
func (p *parser) computes(in *inst, ops []operand, dst ty, src ...ty) (err error) {
	if err := arity(ops, 1+len(src)); err != nil {
		return err
	}
	if in.dst, err = p.dest(ops[0], dst, false); err != nil {
		return err
	}
	return p.sources(in, ops[1:], src...)
}

// decoder reads an instruction of one name; part are its words, that name first.
type decoder func(p *parser, in *inst, part []string, ops []operand) error

var decoders = map[string]decoder{
	"mov": (*parser).decodeMov, "cvt": (*parser).decodeCvt, "cvta": (*parser).decodeCvta, "selp": (*parser).decodeSelp, "setp": (*parser).decodeSetp,
	"and": (*parser).decodeLogic, "or": (*parser).decodeLogic, "xor": (*parser).decodeLogic, "not": (*parser).decodeLogic,
	"ld": (*parser).decodeAccess, "st": (*parser).decodeAccess, "atom": (*parser).decodeAtom, "cp": (*parser).decodeCp,
	"bra": (*parser).decodeBra, "ret": plain(opExit), "exit": plain(opExit), "trap": plain(opTrap), "bar": (*parser).decodeBar,
	"shfl": (*parser).decodeShuffle, "vote": (*parser).decodeVote, "mma": (*parser).decodeMMA, "ldmatrix": (*parser).decodeMatrix,
	"call": func(*parser, *inst, []string, []operand) error {
		return errors.New("calls of functions are not supported: have them inlined")
	},
}

// plain decodes instructions without operands, whose modifiers do not matter here.
func plain(op opcode) decoder {
	return func(_ *parser, in *inst, _ []string, ops []operand) error {
		in.op = op
		return arity(ops, 0)
	}
}

func (p *parser) decode(in *inst, name string, ops []operand) error {
	in.psrc = [2]int32{-1, -1}
	if f, ok := forms()[name]; ok {
		in.op, in.f = opALU, f.f
		return p.computes(in, ops, f.dst, f.src...)
	}
	part := strings.Split(name, ".")
	if d, ok := decoders[part[0]]; ok {
		return d(p, in, part, ops)
	}
	return errForm
}

// lastType is the type that ends a name, tNone if none does.
func lastType(part []string) ty { return typeNames[part[len(part)-1]] }

func (p *parser) decodeSelp(in *inst, part []string, ops []operand) (err error) {
	t := lastType(part)
	if err := arity(ops, 4); err != nil || len(part) != 2 || t.size() < 2 {
		return errors.Join(errForm, err)
	}
	in.op = opSel
	if in.dst, err = p.dest(ops[0], t, false); err != nil {
		return err
	}
	if err := p.predicateSource(in, 0, ops[3]); err != nil {
		return err
	}
	return p.sources(in, ops[1:3], t, t)
}

// decodeLogic reads operations on predicates; those on bits are forms.
func (p *parser) decodeLogic(in *inst, part []string, ops []operand) (err error) {
	if len(part) != 2 || lastType(part) != pred {
		return errForm
	}
	in.op = opLogic
	in.logic = logics[part[0]]
	n := 3
	if part[0] == "not" {
		n = 2
	}
	if err := arity(ops, n); err != nil {
		return err
	}
	if in.pdst, err = p.predicate(ops[0]); err != nil {
		return err
	}
	for i, o := range ops[1:] {
		if err := p.predicateSource(in, i, o); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) decodeBra(in *inst, part []string, ops []operand) error {
	if err := arity(ops, 1); err != nil || len(part) > 2 || len(part) == 2 && part[1] != "uni" || ops[0].kind != oName {
		return errors.Join(errForm, err)
	}
	in.op = opBra
	p.jumps = append(p.jumps, jump{len(p.k.code) - 1, ops[0].name, in.line})
	return nil
}

var logics = map[string]func(a, b uint32) uint32{
	"and": func(a, b uint32) uint32 { return a & b },
	"or":  func(a, b uint32) uint32 { return a | b },
	"xor": func(a, b uint32) uint32 { return a ^ b },
	"not": func(a, _ uint32) uint32 { return ^a },
}

func (p *parser) decodeMov(in *inst, part []string, ops []operand) (err error) {
	t := lastType(part)
	if err := arity(ops, 2); err != nil || len(part) != 2 || t == tNone {
		return errors.Join(errForm, err)
	}
	switch d, s := ops[0], ops[1]; {
	case t == pred:
		in.op, in.logic = opLogic, func(a, _ uint32) uint32 { return a }
		if in.pdst, err = p.predicate(d); err != nil {
			return err
		}
		return p.predicateSource(in, 0, s)
	case d.kind == oVec || s.kind == oVec:
		v, whole := d, s
		in.op = opUnpack
		if s.kind == oVec {
			v, whole = s, d
			in.op = opPack
		}
		in.count = len(v.list)
		if in.count < 2 || in.count > 4 || t.size()%in.count != 0 {
			return errForm
		}
		in.width = t.size() / in.count
		part := map[int]ty{1: b8, 2: b16, 4: b32}[in.width]
		for i, o := range v.list {
			if o.kind == oSink && in.op == opUnpack {
				o = operand{kind: oReg, reg: p.k.regs, ty: part}
				p.k.regs++
			}
			if in.list[i], err = p.source(o, part, false); err != nil {
				return err
			}
		}
		slot, err := p.source(whole, t, false)
		in.src[0], in.dst = slot, slot
		return err
	default:
		in.op = opMov
		in.f = func(d, a, _, _ *vec) { *d = *a }
		return p.computes(in, ops, t, t)
	}
}

func (p *parser) decodeCvta(in *inst, part []string, ops []operand) error {
	to := len(part) > 1 && part[1] == "to"
	if to {
		part = part[1:]
	}
	if err := arity(ops, 2); err != nil || len(part) != 3 || part[2] != "u64" {
		return errors.Join(errForm, err)
	}
	var delta uint64
	switch part[1] {
	case "global", "const", "param":
	case "shared":
		delta = sharedWindow
	case "local":
		delta = localWindow
	default:
		return errForm
	}
	if to {
		delta = -delta
	}
	in.op = opALU
	in.f = func(d, a, _, _ *vec) {
		for i := range d {
			d[i] = a[i] + delta
		}
	}
	return p.computes(in, ops, u64, u64)
}

func (p *parser) decodeSetp(in *inst, part []string, ops []operand) (err error) {
	if err := arity(ops, 3); err != nil || len(part) != 3 {
		return errors.Join(errForm, err)
	}
	t := lastType(part)
	in.op = opSetp
	if in.compare = comparison(part[1], t); in.compare == nil {
		return errForm
	}
	if in.pdst, err = p.predicate(ops[0]); err != nil {
		return err
	}
	return p.sources(in, ops[1:], t, t)
}

type space uint8

const (
	generic space = iota
	inGlobal
	inShared
	inLocal
	inConst
	inParam
)

var spaces = map[string]space{"global": inGlobal, "shared": inShared, "local": inLocal, "const": inConst, "param": inParam}

// address decodes [base+off].
func (p *parser) address(in *inst, o operand) (err error) {
	if o.kind != oAddr {
		return errors.New("an operand is no address")
	}
	b, t := o.list[0], b64
	if b.kind == oReg && b.ty.size() == 4 && (in.space == inShared || in.space == inLocal || in.space == inParam) {
		t = b32
	}
	in.off = uint64(o.off)
	in.src[0], err = p.source(b, t, false)
	in.nsrc = 1
	return err
}

func (p *parser) decodeAccess(in *inst, part []string, ops []operand) error {
	if err := arity(ops, 2); err != nil || len(part) < 2 {
		return errors.Join(errForm, err)
	}
	in.op, in.count = opLoad, 1
	v, a := ops[0], ops[1]
	if part[0] == "st" {
		in.op, v, a = opStore, a, v
	}
	in.ty = lastType(part)
	if in.width = in.ty.size(); in.width == 0 {
		return errForm
	}
	for _, m := range part[1 : len(part)-1] {
		if !in.accessModifier(m) {
			return errForm
		}
	}
	if in.op == opStore && (in.space == inConst || in.space == inParam) {
		return errForm
	}
	if in.count*in.width > 16 {
		return errors.New("an access of more than 16 bytes")
	}
	if err := p.address(in, a); err != nil {
		return err
	}
	return p.accessValues(in, v)
}

// accessModifier notes a modifier of ld and st, and says whether it is one.
func (in *inst) accessModifier(m string) bool {
	if s, ok := spaces[m]; ok {
		in.space = s
		return true
	}
	switch m {
	case "nc":
		in.reads = cached
	case "v2":
		in.count = 2
	case "v4":
		in.count = 4
	default:
		return false
	}
	return true
}

// accessValues decodes what is loaded or stored.
func (p *parser) accessValues(in *inst, v operand) (err error) {
	list := []operand{v}
	if v.kind == oVec {
		list = v.list
	}
	if len(list) != in.count {
		return fmt.Errorf("%d registers where %d belong", len(list), in.count)
	}
	for i, o := range list {
		if in.op == opStore {
			if in.list[i], err = p.source(o, in.ty, true); err != nil {
				return err
			}
			continue
		}
		if in.list[i], err = p.dest(o, in.ty, true); err != nil {
			return err
		}
		in.regSize = 8
		if o.kind == oReg {
			in.regSize = o.ty.size()
		}
	}
	return nil
}

func (p *parser) decodeAtom(in *inst, part []string, ops []operand) (err error) {
	if err := arity(ops, 3); err != nil || len(part) != 4 {
		return errors.Join(errForm, err)
	}
	in.op, in.ty, in.space = opAtom, lastType(part), spaces[part[1]]
	in.width = in.ty.size()
	in.atomic = atomicOp(part[2], in.ty)
	if in.atomic == nil || in.space != inGlobal && in.space != inShared {
		return errForm
	}
	if in.dst, err = p.dest(ops[0], in.ty, false); err != nil {
		return err
	}
	if err := p.address(in, ops[1]); err != nil {
		return err
	}
	in.src[1], err = p.source(ops[2], in.ty, false)
	in.nsrc = 2
	return err
}

// decodeCp reads the cp.async instructions.
func (p *parser) decodeCp(in *inst, part []string, ops []operand) error {
	if len(part) < 3 || part[1] != "async" {
		return errForm
	}
	switch part[2] {
	case "commit_group":
		in.op = opCommit
		return arity(ops, 0)
	case "wait_all":
		in.op, in.count = opWait, -1
		return arity(ops, 0)
	case "wait_group":
		if err := arity(ops, 1); err != nil || ops[0].kind != oImm {
			return errors.Join(errForm, err)
		}
		in.op, in.count = opWait, int(ops[0].bits)
		return nil
	case "ca", "cg":
		return p.decodeCopy(in, part, ops)
	}
	return errForm
}

func (p *parser) decodeCopy(in *inst, part []string, ops []operand) (err error) {
	if len(part) != 5 || part[3] != "shared" || part[4] != "global" {
		return errForm
	}
	if err := arity(ops, 3, 4); err != nil || ops[2].kind != oImm {
		return errors.Join(errForm, err)
	}
	in.op, in.count = opCopy, 1
	in.width = int(ops[2].bits)
	if w := in.width; w != 16 && (part[2] == "cg" || w != 4 && w != 8) {
		return fmt.Errorf("a copy of %d bytes", w)
	}
	var d inst
	d.space = inShared
	if err := p.address(&d, ops[0]); err != nil {
		return err
	}
	in.space = inGlobal
	if err := p.address(in, ops[1]); err != nil {
		return err
	}
	in.off2 = d.off
	in.src[1], in.nsrc = d.src[0], 2
	if len(ops) == 4 {
		in.nsrc = 3
		in.src[2], err = p.source(ops[3], u32, false)
	} else {
		in.src[2] = p.constant(uint64(in.width))
	}
	return err
}

func (p *parser) decodeBar(in *inst, part []string, ops []operand) error {
	switch strings.Join(part, ".") {
	case "bar.warp.sync":
		in.op = opWarpSync
	case "bar.sync":
		in.op = opBarrier
		if err := arity(ops, 1); err != nil {
			return fmt.Errorf("%w: barriers for some of the threads are not supported", err)
		}
	default:
		return errForm
	}
	return p.sources(in, ops, u32)
}

// The member mask comes first in the src of the following ones: see warp.members.

func (p *parser) decodeShuffle(in *inst, part []string, ops []operand) (err error) {
	if len(part) != 4 || part[1] != "sync" || part[3] != "b32" || !slices.Contains([]string{"up", "down", "bfly", "idx"}, part[2]) {
		return errForm
	}
	in.op, in.mode = opShuffle, part[2]
	if err := arity(ops, 5); err != nil {
		return err
	}
	if in.dst, err = p.dest(ops[0], b32, false); err != nil {
		return err
	}
	return p.sources(in, []operand{ops[4], ops[1], ops[2], ops[3]}, b32, b32, b32, b32)
}

func (p *parser) decodeVote(in *inst, part []string, ops []operand) (err error) {
	if strings.Join(part, ".") != "vote.sync.ballot.b32" {
		return errForm
	}
	in.op = opVote
	if err := arity(ops, 3); err != nil {
		return err
	}
	if in.dst, err = p.dest(ops[0], b32, false); err != nil {
		return err
	}
	if err := p.predicateSource(in, 0, ops[1]); err != nil {
		return err
	}
	return p.sources(in, ops[2:], b32)
}

// products are the multiplications of fragments, with the type of their factors.
var products = map[string]ty{
	"sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32":  tf32,
	"sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": bf16,
}

// decodeMMA puts the registers of A, B and C into list and those of the result into src.
func (p *parser) decodeMMA(in *inst, part []string, ops []operand) (err error) {
	t, ok := products[strings.Join(part[1:], ".")]
	if !ok {
		return errForm
	}
	in.op, in.ty = opMMA, t
	if err := arity(ops, 4); err != nil {
		return err
	}
	for j, n := range []int{4, 4, 2, 4} {
		if ops[j].kind != oVec || len(ops[j].list) != n {
			return errForm
		}
	}
	for i, e := range slices.Concat(ops[1].list, ops[2].list, ops[3].list) {
		if in.list[i], err = p.source(e, b32, false); err != nil {
			return err
		}
	}
	for i, e := range ops[0].list {
		if in.src[i], err = p.dest(e, f32, false); err != nil {
			return err
		}
	}
	in.dst = in.src[0]
	return nil
}
