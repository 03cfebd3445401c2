package ptx

import (
	"math"
	"math/bits"
	"strings"
)

const full = ^uint32(0)

// group is lanes of a warp that are at the same instruction.
type group struct {
	pc   int32
	mask uint32
	// of those that wait at a barrier:
	id uint64
}

// warp runs 32 lanes. Lanes part at branches and join wherever they come to the
// same instruction: of the groups that can go on, the one furthest behind in
// the text does, which lets the others catch up where paths meet.
type warp struct {
	id      int
	regs    []vec
	init    []uint32 // lanes that were written
	preds   []uint32
	pinit   []uint32
	local   [32]segment
	copies  [32][]copied
	commits [32]int
	exists  uint32
	exited  uint32
	ready   []group
	waiting []group
	epoch   uint32
	tmp     vec    // result of an instruction that not all lanes execute
	loaded  [4]vec // what a load brings
}

// copied is a cp.async in flight.
type copied struct {
	addr   uint64
	data   [16]byte
	n      int
	commit int // which commit_group takes it
}

// makeWarps takes those of the last launch; begin clears what matters of them.
func (l *launch) makeWarps() {
	n, k := (l.threads+31)/32, l.k
	for len(l.mem.warps) < n {
		l.mem.warps = append(l.mem.warps, &warp{id: len(l.mem.warps)})
	}
	if need := n * k.regs; len(l.mem.registers) < need {
		l.mem.registers = make([]vec, need)
	}
	l.warps = l.mem.warps[:n]
	for i, w := range l.warps {
		w.exists = full
		if rest := l.threads - 32*i; rest < 32 {
			w.exists = 1<<rest - 1
		}
		w.regs = l.mem.registers[i*k.regs : (i+1)*k.regs]
		w.init, w.preds, w.pinit = resized(w.init, k.regs), resized(w.preds, k.preds), resized(w.pinit, k.preds)
		for j := range w.local {
			w.local[j].resize("local memory", k.localSize)
		}
	}
}

func resized(s []uint32, n int) []uint32 {
	if n > cap(s) {
		return make([]uint32, n)
	}
	return s[:n]
}

// begin makes a warp ready for a block.
func (w *warp) begin(l *launch) {
	clear(w.init)
	clear(w.pinit)
	w.exited, w.epoch, w.waiting = 0, 0, w.waiting[:0]
	w.ready = append(w.ready[:0], group{pc: 0, mask: w.exists})
	for i := range w.local {
		w.copies[i], w.commits[i] = w.copies[i][:0], 0
		if l.k.localSize > 0 {
			w.local[i].begin(l)
		}
	}
	for _, s := range l.k.specials {
		w.init[s.slot] = full
		if l.me.block != l.first && !strings.HasPrefix(s.name, "%ctaid") {
			continue // the same in every block, and kernels do not write it
		}
		for lane := range 32 {
			w.regs[s.slot][lane] = l.special(s.name, w.id*32+lane)
		}
	}
}

func (l *launch) special(name string, thread int) uint64 {
	axis := int(name[len(name)-1] - 'x')
	switch name {
	case "%tid.x", "%tid.y", "%tid.z":
		return uint64(l.thread(thread)[axis])
	case "%ntid.x", "%ntid.y", "%ntid.z":
		return uint64(l.block[axis])
	case "%ctaid.x", "%ctaid.y", "%ctaid.z":
		return uint64(l.id[axis])
	}
	return uint64(l.grid[axis]) // of %nctaid
}

// get gives a source; lanes of m must have been written.
func (w *warp) get(l *launch, slot int32) *vec {
	if slot < 0 {
		return &l.consts[^slot]
	}
	return &w.regs[slot]
}

func (w *warp) set(slot int32, m uint32, v *vec) {
	w.init[slot] |= m
	d := &w.regs[slot]
	if m == full {
		*d = *v
		return
	}
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = v[i]
	}
}

func (w *warp) setPred(slot int32, m, v uint32) {
	w.pinit[slot] |= m
	w.preds[slot] = w.preds[slot]&^m | v&m
}

// pred reads a predicate source.
func (w *warp) pred(in *inst, i int) uint32 {
	v := uint32(0)
	if in.psrc[i] >= 0 {
		v = w.preds[in.psrc[i]]
	}
	if in.pneg[i] {
		v = ^v
	}
	return v
}

// checkSources finds lanes that read what was never written.
func (w *warp) checkSources(l *launch, in *inst, m uint32) *Fault {
	for _, s := range in.src[:in.nsrc] {
		if s >= 0 && m&^w.init[s] != 0 {
			return l.fault(w, in, bits.TrailingZeros32(m&^w.init[s]), Uninitialised, 0, "reads a register that was never written")
		}
	}
	if in.psrc[0] < 0 && in.psrc[1] < 0 {
		return nil
	}
	for _, p := range in.psrc {
		if p >= 0 && m&^w.pinit[p] != 0 {
			return l.fault(w, in, bits.TrailingZeros32(m&^w.pinit[p]), Uninitialised, 0, "reads a predicate that was never written")
		}
	}
	return nil
}

// pick takes a group that can go on and joins to it all that are at the same
// place. It may run until it comes to limit, where another one is.
func (w *warp) pick(l *launch) (g group, limit int32, steps int64) {
	at := 0
	if l.order != nil {
		at = l.order.IntN(len(w.ready))
	} else {
		for i := range w.ready {
			if w.ready[i].pc < w.ready[at].pc {
				at = i
			}
		}
	}
	g = group{pc: w.ready[at].pc}
	limit, steps = math.MaxInt32, math.MaxInt64
	rest := w.ready[:0]
	for _, o := range w.ready {
		if o.pc == g.pc {
			g.mask |= o.mask
			continue
		}
		if o.pc > g.pc {
			limit = min(limit, o.pc)
		}
		rest = append(rest, o)
	}
	w.ready = rest
	if l.order != nil {
		steps = 1 + l.order.Int64N(200)
	}
	return g, limit, steps
}

// run goes on until all lanes wait at barriers or have exited, or the shuffled order interrupts.
func (w *warp) run(l *launch) *Fault {
	for n := 0; len(w.ready) > 0; n++ {
		if l.order != nil && n > 3 {
			return nil
		}
		g, limit, steps := w.pick(l)
		if f := w.runGroup(l, g, limit, steps); f != nil {
			return f
		}
	}
	for _, g := range w.waiting {
		if in := &l.k.code[g.pc]; in.op != opBarrier {
			missing := w.members(l, in, bits.TrailingZeros32(g.mask)) &^ g.mask
			where := ""
			if missing&w.exited != 0 {
				where = ", of which some have exited"
			}
			return l.fault(w, in, bits.TrailingZeros32(g.mask), Divergence, 0, "lanes %s wait for lanes %s, which never come here%s",
				lanesOf(g.mask), lanesOf(missing), where)
		}
	}
	return nil
}

// aligned says whether an instruction takes all lanes of a warp, and names no members.
func (in *inst) aligned() bool { return in.op == opMMA || in.op == opMatrix }

// members is the member mask of an instruction for a whole warp.
func (w *warp) members(l *launch, in *inst, lane int) uint32 {
	if in.aligned() {
		return full
	}
	return uint32(w.get(l, in.src[0])[lane]) & w.exists
}

func (w *warp) runGroup(l *launch, g group, limit int32, steps int64) *Fault {
	code := l.k.code
	for ; g.pc < limit && steps != 0; steps-- {
		if l.left--; l.left < 0 {
			return l.fault(w, &code[g.pc], bits.TrailingZeros32(g.mask), Endless, 0, "the block has executed %d instructions", l.o.StepLimit)
		}
		in := &code[g.pc]
		m := g.mask
		if in.guard >= 0 {
			if un := m &^ w.pinit[in.guard]; un != 0 {
				return l.fault(w, in, bits.TrailingZeros32(un), Uninitialised, 0, "is guarded by a predicate that was never written")
			}
			if in.guardNeg {
				m &^= w.preds[in.guard]
			} else {
				m &= w.preds[in.guard]
			}
			if m == 0 {
				if l.o.Counter != nil {
					l.o.Counter.note(l, w, in, g.pc, 0)
				}
				g.pc++
				continue
			}
		}
		if in.op != opMov && in.op != opSel && (in.nsrc > 0 || in.psrc[0] >= 0) {
			if f := w.checkSources(l, in, m); f != nil {
				return f
			}
		}
		if l.o.Counter != nil {
			l.o.Counter.note(l, w, in, g.pc, m)
		}
		if in.op < opBra {
			if f := execute[in.op](w, l, in, m); f != nil {
				return f
			}
			g.pc++
		} else if on, f := w.goOn(l, in, &g, m); f != nil || !on {
			return f
		}
	}
	w.ready = append(w.ready, g)
	return nil
}

// execute has what lanes do each for themselves.
var execute = [opBra]func(w *warp, l *launch, in *inst, m uint32) *Fault{
	opALU: (*warp).compute, opMov: (*warp).move, opSel: (*warp).choose,
	opSetp: (*warp).compare, opLogic: (*warp).combine, opPack: (*warp).pack, opUnpack: (*warp).unpack,
	opLoad: (*warp).load, opStore: (*warp).store, opAtom: (*warp).atom,
	opCopy: (*warp).copyAsync, opCommit: (*warp).commit, opWait: (*warp).wait,
}

// goOn executes what decides where a group goes on, and says whether it does so
// now, from its new place. If not, its lanes are ready or waiting, or have exited.
func (w *warp) goOn(l *launch, in *inst, g *group, m uint32) (bool, *Fault) {
	switch in.op {
	case opBra:
		return w.branch(in, g, m), nil
	case opExit:
		w.exited |= m
		g.mask &^= m
		g.pc++
		return g.mask != 0, nil
	case opTrap:
		return false, l.fault(w, in, bits.TrailingZeros32(m), Trap, 0, "the kernel stops itself")
	case opBarrier:
		w.arrive(l, in, g, m)
		return false, nil
	}
	lanes, f := w.gather(l, in, g, m)
	if f != nil || lanes == 0 {
		return false, f
	}
	g.pc++
	return true, w.together(l, in, lanes)
}

// branch says whether the whole group goes on together.
func (w *warp) branch(in *inst, g *group, m uint32) bool {
	if m != g.mask {
		w.ready = append(w.ready, group{pc: in.target, mask: m}, group{pc: g.pc + 1, mask: g.mask &^ m})
		return false
	}
	g.pc = in.target
	if len(w.ready) > 0 {
		w.ready = append(w.ready, *g)
		return false
	}
	return true
}

// arrive lets lanes wait at a barrier.
func (w *warp) arrive(l *launch, in *inst, g *group, m uint32) {
	lane := bits.TrailingZeros32(m)
	at := group{pc: g.pc, mask: m, id: w.get(l, in.src[0])[lane]}
	if rest := g.mask &^ m; rest != 0 {
		w.ready = append(w.ready, group{pc: g.pc + 1, mask: rest})
	}
	for i := range w.waiting {
		if o := &w.waiting[i]; o.pc == at.pc && o.id == at.id {
			o.mask |= m
			return
		}
	}
	w.waiting = append(w.waiting, at)
}

func (w *warp) compute(l *launch, in *inst, m uint32) *Fault {
	a, b, c := w.get(l, in.src[0]), w.get(l, in.src[1]), w.get(l, in.src[2])
	if m == full {
		in.f(&w.regs[in.dst], a, b, c)
		w.init[in.dst] = full
		return nil
	}
	in.f(&w.tmp, a, b, c)
	w.set(in.dst, m, &w.tmp)
	return nil
}

// written are the lanes of a source that were ever written.
func (w *warp) written(slot int32) uint32 {
	if slot < 0 {
		return full
	}
	return w.init[slot]
}

// move copies, also what was never written, which then is so in the result.
func (w *warp) move(l *launch, in *inst, m uint32) *Fault {
	s := in.src[0]
	have := m & w.written(s)
	w.set(in.dst, m, w.get(l, s))
	w.init[in.dst] = w.init[in.dst]&^m | have
	return nil
}

func (w *warp) choose(l *launch, in *inst, m uint32) *Fault {
	if p := in.psrc[0]; p >= 0 && m&^w.pinit[p] != 0 {
		return l.fault(w, in, bits.TrailingZeros32(m&^w.pinit[p]), Uninitialised, 0, "reads a predicate that was never written")
	}
	p := w.pred(in, 0)
	yes, no := in.src[0], in.src[1]
	have := m & (p&w.written(yes) | w.written(no)&^p)
	a, b := w.get(l, yes), w.get(l, no)
	for i := range w.tmp {
		w.tmp[i] = b[i]
		if p>>i&1 != 0 {
			w.tmp[i] = a[i]
		}
	}
	w.set(in.dst, m, &w.tmp)
	w.init[in.dst] = w.init[in.dst]&^m | have
	return nil
}

func (w *warp) compare(l *launch, in *inst, m uint32) *Fault {
	w.setPred(in.pdst, m, in.compare(w.get(l, in.src[0]), w.get(l, in.src[1])))
	return nil
}

func (w *warp) combine(_ *launch, in *inst, m uint32) *Fault {
	w.setPred(in.pdst, m, in.logic(w.pred(in, 0), w.pred(in, 1)))
	return nil
}

// gather collects the lanes of a member mask at an instruction that all of them
// execute together. It gives these lanes once all are there, or 0.
func (w *warp) gather(l *launch, in *inst, g *group, m uint32) (uint32, *Fault) {
	lane := bits.TrailingZeros32(m)
	members := w.members(l, in, lane)
	if !in.aligned() {
		v := w.get(l, in.src[0])
		for r := m; r != 0; r &= r - 1 {
			i := bits.TrailingZeros32(r)
			if x := uint32(v[i]) & w.exists; x != members {
				return 0, l.fault(w, in, i, Divergence, 0, "has the member mask %#x, and lane %d of its warp %#x", x, lane, members)
			}
		}
	}
	if out := m &^ members; out != 0 {
		return 0, l.fault(w, in, bits.TrailingZeros32(out), Divergence, 0, "lane %d is not in its own member mask %#x",
			bits.TrailingZeros32(out), members)
	}
	if gone := members & w.exited; gone != 0 {
		return 0, l.fault(w, in, lane, Divergence, 0, "the member mask %#x names lanes %s, which have exited", members, lanesOf(gone))
	}
	if rest := g.mask &^ m; rest != 0 {
		w.ready = append(w.ready, group{pc: g.pc + 1, mask: rest})
		g.mask = m
		if m == members {
			// Give the others the chance to be joined again.
			return m, nil
		}
	}
	if m == members {
		return m, nil
	}
	for i := range w.waiting {
		if o := &w.waiting[i]; o.pc == g.pc && o.mask&members == o.mask {
			o.mask |= m
			if o.mask == members {
				w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
				g.mask = members
				return members, nil
			}
			return 0, nil
		}
	}
	w.waiting = append(w.waiting, group{pc: g.pc, mask: m})
	return 0, nil
}

// together executes an instruction of the warp as a whole.
func (w *warp) together(l *launch, in *inst, m uint32) *Fault {
	switch in.op {
	case opWarpSync:
		w.epoch++
	case opVote:
		p := uint64(w.pred(in, 0) & m)
		for i := range w.tmp {
			w.tmp[i] = p
		}
		w.set(in.dst, m, &w.tmp)
	case opShuffle:
		return w.shuffle(l, in, m)
	case opMMA:
		return w.mma(l, in, m)
	case opMatrix:
		return w.loadMatrices(l, in, m)
	}
	return nil
}

// shuffle is shfl: ISA 9.7.8.6.
func (w *warp) shuffle(l *launch, in *inst, m uint32) *Fault {
	a, b, c := w.get(l, in.src[1]), w.get(l, in.src[2]), w.get(l, in.src[3])
	var out vec
	for r := m; r != 0; r &= r - 1 {
		i := bits.TrailingZeros32(r)
		bval, cval, seg := int(b[i]&31), int(c[i]&31), int(c[i]>>8&31)
		most := i&seg | cval&^seg
		least := i & seg
		var j int
		ok := false
		switch in.mode[0] {
		case 'u': // up
			j = i - bval
			ok = j >= most
		case 'd': // down
			j = i + bval
			ok = j <= most
		case 'b': // bfly
			j = i ^ bval
			ok = j <= most
		case 'i': // idx
			j = least | bval&^seg
			ok = j <= most
		}
		if !ok {
			j = i
		}
		if m>>j&1 == 0 {
			return l.fault(w, in, i, Divergence, 0, "lane %d reads lane %d, which does not take part", i, j)
		}
		out[i] = a[j]
	}
	w.set(in.dst, m, &out)
	return nil
}

// pack joins registers to a wider one.
func (w *warp) pack(l *launch, in *inst, m uint32) *Fault {
	var out vec
	shift := 8 * in.width
	for j, s := range in.list[:in.count] {
		if un := m &^ w.written(s); un != 0 {
			return l.fault(w, in, bits.TrailingZeros32(un), Uninitialised, 0, "reads a register that was never written")
		}
		v := w.get(l, s)
		for i := range v {
			out[i] |= v[i] & (1<<shift - 1) << (j * shift)
		}
	}
	w.set(in.dst, m, &out)
	return nil
}

// unpack takes a register apart; what was never written is so in the parts.
func (w *warp) unpack(l *launch, in *inst, m uint32) *Fault {
	var out [4]vec
	shift := 8 * in.width
	s := in.src[0]
	have := m & w.written(s)
	v := w.get(l, s)
	for j := range in.count {
		for i := range v {
			out[j][i] = v[i] >> (j * shift) & (1<<shift - 1)
		}
	}
	for j := range in.count {
		d := in.list[j]
		w.set(d, m, &out[j])
		w.init[d] = w.init[d]&^m | have
	}
	return nil
}

// commit closes a group of cp.async.
func (w *warp) commit(_ *launch, _ *inst, m uint32) *Fault {
	for ; m != 0; m &= m - 1 {
		w.commits[bits.TrailingZeros32(m)]++
	}
	return nil
}
