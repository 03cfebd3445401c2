package ptx

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// place is a segment that lanes access: where the last one found its own, the next need not search.
type place struct {
	s     *segment
	from  uint64 // address of its first byte
	span  uint64 // last offset where the access fits
	lanes uint32 // that see it there
	since uint32 // first block that can race there
	racy  bool   // whether to look for races
}

// holds says whether an aligned access of n bytes by a lane lies in the place.
func (p *place) holds(lane int, addr uint64, n int) bool {
	return addr-p.from <= p.span && addr&uint64(n-1) == 0 && p.lanes>>(lane&31)&1 != 0
}

// resolve finds the place of an access of n bytes and checks all but its content.
func (w *warp) resolve(l *launch, in *inst, lane int, sp space, addr uint64, n int) (place, *Fault) {
	if addr&uint64(n-1) != 0 {
		return place{}, l.fault(w, in, lane, Misaligned, addr, "%d bytes need an address that is a multiple of %d", n, n)
	}
	window := uint64(0)
	switch {
	case sp == inShared || sp == inLocal || sp == inParam:
	case sp == generic && addr-sharedWindow < windowSize:
		sp, window = inShared, sharedWindow
	case sp == generic && addr-localWindow < windowSize:
		sp, window = inLocal, localWindow
	default:
		s := l.last
		if s == nil || addr-s.base >= s.size {
			s = l.mem.find(addr)
			l.last = s
		}
		switch {
		case s == nil:
			return place{}, l.fault(w, in, lane, OutOfBounds, addr, "no allocation is there")
		case addr-s.base+uint64(n) > s.size:
			return place{}, l.fault(w, in, lane, OutOfBounds, addr, "%d bytes at offset %d of %s, which has %d", n, addr-s.base, s.name, s.size)
		case s.freed:
			return place{}, l.fault(w, in, lane, UseAfterFree, addr, "%d bytes at offset %d of %s, which was freed", n, addr-s.base, s.name)
		}
		return place{s, s.base, s.size - uint64(n), full, l.first, !s.constant && !l.o.NoRaces}, nil
	}
	addr -= window
	p := place{s: &l.shared[static], from: window, lanes: full, since: l.me.block, racy: !l.o.NoRaces}
	o := addr
	switch {
	case sp == inLocal:
		p.s, p.lanes, p.racy = &w.local[lane], 1<<lane, false
	case sp == inParam:
		p.s, p.racy = &l.params, false
	case addr >= dynamicBase:
		p.s = &l.shared[dynamic]
		o -= dynamicBase
		p.from += dynamicBase
	}
	if o >= p.s.size || o+uint64(n) > p.s.size {
		return place{}, l.fault(w, in, lane, OutOfBounds, addr, "%d bytes at offset %d of %s, which has %d", n, o, p.s.name, p.s.size)
	}
	p.span = p.s.size - uint64(n)
	return p, nil
}

// near names the last shared variable before an offset.
func (l *launch) near(o uint64) string {
	var best *variable
	for _, v := range l.k.shared {
		if !v.extern && uint64(v.offset) <= o && (best == nil || v.offset > best.offset) {
			best = v
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf(": byte %d of %s, which has %d", o-uint64(best.offset), best.name, best.size)
}

// allWritten looks at the states of bytes.
func allWritten(s []byte) bool {
	if len(s) == 4 {
		return binary.LittleEndian.Uint32(s) == 1<<32-1
	}
	for ; len(s) >= 8; s = s[8:] {
		if binary.LittleEndian.Uint64(s) != 1<<64-1 {
			return false
		}
	}
	for _, b := range s {
		if b != written {
			return false
		}
	}
	return true
}

func (w *warp) checkRead(l *launch, in *inst, lane int, s *segment, o, addr uint64, n int) *Fault {
	if s.state == nil {
		return nil
	}
	st := s.state[o : o+uint64(n)]
	if allWritten(st) {
		return nil
	}
	for i, b := range st {
		switch {
		case b == outside:
			return w.outside(l, in, lane, o, addr, n)
		case b == inFlight:
			return l.fault(w, in, lane, Pending, addr, "reads byte %d that cp.async has not been waited for", i)
		case b == unwritten && !l.o.AllowUninitialised:
			return l.fault(w, in, lane, Uninitialised, addr, "reads byte %d of %d that was never written, at offset %d of %s", i, n, o, s.name)
		}
	}
	return nil
}

func (w *warp) checkWrite(l *launch, in *inst, lane int, s *segment, o, addr uint64, n int) *Fault {
	if s.constant {
		return l.fault(w, in, lane, ReadOnly, addr, "%s", s.name)
	}
	if s.state == nil {
		return nil
	}
	st := s.state[o : o+uint64(n)]
	if allWritten(st) {
		return nil
	}
	for i, b := range st {
		switch b {
		case outside:
			return w.outside(l, in, lane, o, addr, n)
		case inFlight:
			return l.fault(w, in, lane, Pending, addr, "writes byte %d that cp.async has not been waited for", i)
		}
		st[i] = written
	}
	return nil
}

func (w *warp) outside(l *launch, in *inst, lane int, o, addr uint64, n int) *Fault {
	return l.fault(w, in, lane, OutOfBounds, addr, "%d bytes at shared offset %d, outside of all variables%s", n, o, l.near(o))
}

// access begins the accesses of a warp's instruction.
func (w *warp) access(l *launch, in *inst) access {
	me := l.me
	me.warps, me.line = w.epoch, int32(in.line)
	return me
}

func (w *warp) race(l *launch, in *inst, lane int, p *place, addr uint64, n int, kind accessKind, me *access) *Fault {
	if !p.racy {
		return nil
	}
	me.thread = uint16(w.id*32 + lane)
	other, how := p.s.record(addr-p.from, n, kind, me, p.since)
	if other == nil {
		return nil
	}
	verb := [...]string{"reads", "reads through the read-only cache", "writes", "accesses atomically"}[kind]
	where := "thread " + tuple(l.thread(int(other.thread)))
	if other.block != me.block {
		where += " of block " + tuple(l.coordinates(other.block))
	} else if kind != cached || conflict(other, me, p.since) {
		where += " with no barrier between"
	}
	return l.fault(w, in, lane, Race, addr, "%s what line %d has %s in %s", verb, other.line, how, where)
}

func get(b []byte, n int) uint64 {
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func put(b []byte, n int, x uint64) {
	switch n {
	case 1:
		b[0] = byte(x)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(x))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(x))
	default:
		binary.LittleEndian.PutUint64(b, x)
	}
}

// getLanes gets a value of so many bytes for every lane, step bytes apart.
func getLanes(v *vec, b []byte, width, step int) {
	if width == 4 {
		for i := range v {
			v[i] = uint64(binary.LittleEndian.Uint32(b[i*step:]))
		}
		return
	}
	for i := range v {
		v[i] = get(b[i*step:], width)
	}
}

// row finds the bytes where the lanes of a whole warp access n bytes each, one behind the other. It gives
// none where there is anything to look at lane by lane.
func (w *warp) row(l *launch, in *inst, m uint32, base *vec, n int, kind accessKind) []byte {
	if m != full || base[31]-base[0] != uint64(31*n) {
		return nil
	}
	for i := 1; i < len(base); i++ {
		if base[i]-base[i-1] != uint64(n) {
			return nil
		}
	}
	addr := base[0] + in.off
	p, f := w.resolve(l, in, 0, in.space, addr, n)
	o, all := addr-p.from, uint64(32*n)
	switch {
	case f != nil || p.lanes != full || p.s.constant && kind == writes || o+all > p.s.size || p.s.parts != nil:
		return nil
	case p.s.state != nil && !allWritten(p.s.state[o:o+all]):
		return nil
	case p.racy:
		me := w.access(l, in)
		for lane := range 32 {
			me.thread = uint16(w.id*32 + lane)
			if other, _ := p.s.record(o+uint64(lane*n), n, kind, &me, p.since); other != nil {
				return nil // to be found again: what is recorded may be recorded twice
			}
		}
	}
	return p.s.data[o : o+all]
}

func (w *warp) load(l *launch, in *inst, m uint32) *Fault {
	base := w.get(l, in.src[0])
	n := in.width * in.count
	var to [4]*vec
	out := to[:in.count]
	for j := range out {
		if to[j] = &w.loaded[j]; m == full && in.list[j] != in.src[0] { // at once where it belongs
			to[j] = &w.regs[in.list[j]]
		}
	}
	if b := w.row(l, in, m, base, n, in.reads); b != nil {
		for j, v := range out {
			getLanes(v, b[j*in.width:], in.width, n)
		}
	} else if f := w.loadEach(l, in, m, base, out); f != nil {
		return f
	}
	signed := in.ty.signed()
	for j, v := range out {
		if signed {
			for i, x := range v {
				v[i] = in.ty.extend(x, in.regSize)
			}
		}
		if v == &w.loaded[j] {
			w.set(in.list[j], m, v)
		} else {
			w.init[in.list[j]] = full
		}
	}
	return nil
}

// loadEach loads lane by lane.
func (w *warp) loadEach(l *launch, in *inst, m uint32, base *vec, out []*vec) *Fault {
	n := in.width * in.count
	me := w.access(l, in)
	var p place
	last, same := 0, 0 // the lane before, and how many in a row before this one had its address
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		addr := base[lane] + in.off
		if r != m && addr == base[last]+in.off && p.lanes == full {
			// Whatever holds for two threads of a warp that read an address holds for all of them.
			if same++; same > 1 {
				end := lane + 1
				for end < len(base) && base[end] == base[lane] {
					end++
				}
				for j := range out {
					x := out[j][last]
					for i := lane; i < end; i++ {
						out[j][i] = x
					}
				}
				r = r&(full<<(end-1)) | 1<<(end-1) // go on behind them
				continue
			}
		} else {
			same = 0
		}
		last = lane
		if !p.holds(lane, addr, n) {
			var f *Fault
			if p, f = w.resolve(l, in, lane, in.space, addr, n); f != nil {
				return f
			}
		}
		o := addr - p.from
		if p.s.state != nil && !allWritten(p.s.state[o:o+uint64(n)]) {
			if f := w.checkRead(l, in, lane, p.s, o, addr, n); f != nil {
				return f
			}
		}
		if f := w.race(l, in, lane, &p, addr, n, in.reads, &me); f != nil {
			return f
		}
		b := p.s.bytes(o, n)
		for j := range out {
			out[j][lane] = get(b[j*in.width:], in.width)
		}
	}
	return nil
}

func (w *warp) store(l *launch, in *inst, m uint32) *Fault {
	base := w.get(l, in.src[0])
	n := in.width * in.count
	var v [4]*vec
	for j, s := range in.list[:in.count] {
		if s >= 0 && m&^w.init[s] != 0 {
			return l.fault(w, in, bits.TrailingZeros32(m&^w.init[s]), Uninitialised, 0, "stores a register that was never written")
		}
		v[j] = w.get(l, s)
	}
	if b := w.row(l, in, m, base, n, writes); b != nil {
		for j := range in.count {
			for i, x := range v[j] {
				put(b[i*n+j*in.width:], in.width, x)
			}
		}
		return nil
	}
	me := w.access(l, in)
	var p place
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		addr := base[lane] + in.off
		if !p.holds(lane, addr, n) {
			var f *Fault
			if p, f = w.resolve(l, in, lane, in.space, addr, n); f != nil {
				return f
			}
		}
		o := addr - p.from
		if f := w.checkWrite(l, in, lane, p.s, o, addr, n); f != nil {
			return f
		}
		if f := w.race(l, in, lane, &p, addr, n, writes, &me); f != nil {
			return f
		}
		b := p.s.bytes(o, n)
		for j := range in.count {
			put(b[j*in.width:], in.width, v[j][lane])
		}
	}
	return nil
}

func (w *warp) atom(l *launch, in *inst, m uint32) *Fault {
	base, b := w.get(l, in.src[0]), w.get(l, in.src[1])
	n := in.width
	var out vec
	me := w.access(l, in)
	for _, i := range l.lanes {
		lane := int(i & 31)
		if m>>lane&1 == 0 {
			continue
		}
		addr := base[lane] + in.off
		p, f := w.resolve(l, in, lane, in.space, addr, n)
		if f != nil {
			return f
		}
		o := addr - p.from
		if f := w.checkRead(l, in, lane, p.s, o, addr, n); f != nil {
			return f
		}
		if f := w.checkWrite(l, in, lane, p.s, o, addr, n); f != nil {
			return f
		}
		if f := w.race(l, in, lane, &p, addr, n, atomics, &me); f != nil {
			return f
		}
		cell := p.s.bytes(o, n)
		old := get(cell, n)
		put(cell, n, in.atomic(old, b[lane]))
		out[lane] = old
	}
	w.set(in.dst, m, &out)
	return nil
}

// copyAsync takes the source at once and delivers at the wait.
func (w *warp) copyAsync(l *launch, in *inst, m uint32) *Fault {
	from, to, count := w.get(l, in.src[0]), w.get(l, in.src[1]), w.get(l, in.src[2])
	n := in.width
	me := w.access(l, in)
	var p, dst place
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		c := copied{addr: to[lane] + in.off2, n: n, commit: w.commits[lane]}
		k := int(min(count[lane], uint64(n)))
		addr := from[lane] + in.off
		if addr&uint64(n-1) != 0 {
			return l.fault(w, in, lane, Misaligned, addr, "a copy of %d bytes needs an address that is a multiple of %d", n, n)
		}
		if k > 0 {
			whole := p.holds(lane, addr, n)
			if !whole {
				var f *Fault
				if p, f = w.resolve(l, in, lane, inGlobal, addr, 1); f != nil {
					return f
				}
				if p.span -= uint64(n - 1); p.s.size < uint64(n) {
					p.lanes = 0 // holds none of so many bytes
				}
			}
			s, o := p.s, addr-p.from
			if !whole && o+uint64(k) > s.size { // only k bytes are read: these lie inside
				return l.fault(w, in, lane, OutOfBounds, addr, "%d bytes at offset %d of %s, which has %d", k, o, s.name, s.size)
			}
			if f := w.checkRead(l, in, lane, s, o, addr, k); f != nil {
				return f
			}
			if f := w.race(l, in, lane, &p, addr, k, reads, &me); f != nil {
				return f
			}
			copy(c.data[:k], s.bytes(o, k))
		}
		if !dst.holds(lane, c.addr, n) {
			var f *Fault
			if dst, f = w.resolve(l, in, lane, inShared, c.addr, n); f != nil {
				return f
			}
		}
		o := c.addr - dst.from
		if f := w.checkWrite(l, in, lane, dst.s, o, c.addr, n); f != nil {
			return f
		}
		if f := w.race(l, in, lane, &dst, c.addr, n, writes, &me); f != nil {
			return f
		}
		dst.s.mark(o, n, inFlight)
		w.copies[lane] = append(w.copies[lane], c)
	}
	return nil
}

// wait delivers all copies but those of the last groups, and with a count of -1 those of no group too.
func (w *warp) wait(l *launch, in *inst, m uint32) *Fault {
	me := w.access(l, in)
	var p place
	n := 0 // bytes of an access for which p was found
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		rest := w.copies[lane][:0]
		for _, c := range w.copies[lane] {
			if in.count >= 0 && c.commit >= w.commits[lane]-in.count {
				rest = append(rest, c)
				continue
			}
			if c.n != n || !p.holds(lane, c.addr, n) {
				var f *Fault
				if p, f = w.resolve(l, in, lane, inShared, c.addr, c.n); f != nil {
					return f
				}
				n = c.n
			}
			o := c.addr - p.from
			p.s.mark(o, c.n, written)
			copy(p.s.data[o:], c.data[:c.n])
			if f := w.race(l, in, lane, &p, c.addr, c.n, writes, &me); f != nil {
				return f
			}
		}
		w.copies[lane] = rest
	}
	return nil
}
