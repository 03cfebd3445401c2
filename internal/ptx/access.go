package ptx

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// resolve finds the segment of an access of n bytes and checks all but its content.
func (w *warp) resolve(l *launch, in *inst, lane int, sp space, addr uint64, n int) (*segment, uint64, *Fault) {
	if addr&uint64(n-1) != 0 {
		return nil, 0, l.fault(w, in, lane, Misaligned, addr, "%d bytes need an address that is a multiple of %d", n, n)
	}
	if sp == generic || sp == inGlobal || sp == inConst {
		if s := l.last; s != nil && addr-s.base < s.size && addr-s.base+uint64(n) <= s.size && !s.freed {
			return s, addr - s.base, nil
		}
		switch {
		case sp == generic && addr-sharedWindow < windowSize:
			sp, addr = inShared, addr-sharedWindow
		case sp == generic && addr-localWindow < windowSize:
			sp, addr = inLocal, addr-localWindow
		default:
			s := l.mem.find(addr)
			switch {
			case s == nil:
				return nil, 0, l.fault(w, in, lane, OutOfBounds, addr, "no allocation is there")
			case addr-s.base+uint64(n) > s.size:
				return nil, 0, l.fault(w, in, lane, OutOfBounds, addr, "%d bytes at offset %d of %s, which has %d", n, addr-s.base, s.name, s.size)
			case s.freed:
				return nil, 0, l.fault(w, in, lane, UseAfterFree, addr, "%d bytes at offset %d of %s, which was freed", n, addr-s.base, s.name)
			}
			l.last = s
			return s, addr - s.base, nil
		}
	}
	s, o := &l.static, addr
	what := "static shared memory"
	if sp == inLocal {
		s, what = &w.local[lane], "local memory"
	} else if addr >= dynamicBase {
		s, o, what = &l.dynamic, addr-dynamicBase, "dynamic shared memory"
	}
	if o >= s.size || o+uint64(n) > s.size {
		return nil, 0, l.fault(w, in, lane, OutOfBounds, addr, "%d bytes at offset %d of %s, which has %d", n, o, what, s.size)
	}
	return s, o, nil
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

// allWritten looks at the states of 1 … 16 bytes.
func allWritten(s []byte) bool {
	switch len(s) {
	case 4:
		return binary.LittleEndian.Uint32(s) == 1<<32-1
	case 8:
		return binary.LittleEndian.Uint64(s) == 1<<64-1
	case 16:
		return binary.LittleEndian.Uint64(s)&binary.LittleEndian.Uint64(s[8:]) == 1<<64-1
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
			return l.fault(w, in, lane, Uninitialised, addr, "reads byte %d of %d that was never written, at offset %d of %s", i, n, o, l.label(s))
		}
	}
	return nil
}

func (l *launch) label(s *segment) string {
	switch s {
	case &l.static:
		return "static shared memory"
	case &l.dynamic:
		return "dynamic shared memory"
	}
	return s.name
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

func (w *warp) race(l *launch, in *inst, lane int, s *segment, o, addr uint64, n int, kind accessKind) *Fault {
	if l.o.AllowRaces || s.constant || s == &w.local[lane] {
		return nil
	}
	me := l.me
	me.warps, me.thread, me.line = w.epoch, uint16(w.id*32+lane), int32(in.line)
	launch := l.mem.launch
	if s == &l.static || s == &l.dynamic {
		launch = me.block // each has its own
	}
	other, how := s.record(o, n, kind, &me, launch)
	if other == nil {
		return nil
	}
	verb := [...]string{"reads", "reads through the read-only cache", "writes", "accesses atomically"}[kind]
	where := "thread " + tuple(l.thread(int(other.thread)))
	if other.block != me.block {
		b := int(other.block) - 1
		where += " of block " + tuple([3]int{b % l.grid[0], b / l.grid[0] % l.grid[1], b / l.grid[0] / l.grid[1]})
	} else if kind != cached || conflict(other, &me) {
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

func (w *warp) load(l *launch, in *inst, m uint32) *Fault {
	base := w.get(l, in.src[0])
	out := &w.loaded
	n := in.width * in.count
	kind := in.reads
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		addr := base[lane] + in.off
		var b []byte
		if in.space == inParam {
			if addr > uint64(len(l.params)) || addr+uint64(n) > uint64(len(l.params)) {
				return l.fault(w, in, lane, OutOfBounds, 0, "%d bytes at offset %d of the parameters, which have %d", n, addr, len(l.params))
			}
			if addr%uint64(n) != 0 {
				return l.fault(w, in, lane, Misaligned, 0, "%d bytes at offset %d of the parameters", n, addr)
			}
			b = l.params[addr:]
		} else {
			s, o, f := w.resolve(l, in, lane, in.space, addr, n)
			if f != nil {
				return f
			}
			if f := w.checkRead(l, in, lane, s, o, addr, n); f != nil {
				return f
			}
			if f := w.race(l, in, lane, s, o, addr, n, kind); f != nil {
				return f
			}
			b = s.data[o:]
		}
		for j := range in.count {
			x := get(b[j*in.width:], in.width)
			if in.ty.signed() {
				x = in.ty.extend(x, in.regSize)
			}
			out[j][lane] = x
		}
	}
	for j := range in.count {
		w.set(in.list[j], m, &out[j])
	}
	return nil
}

func (w *warp) store(l *launch, in *inst, m uint32) *Fault {
	base := w.get(l, in.src[0])
	n := in.width * in.count
	kind := writes
	if in.strong {
		kind = atomics
	}
	var v [4]*vec
	for j, s := range in.list[:in.count] {
		if s >= 0 && m&^w.init[s] != 0 {
			return l.fault(w, in, bits.TrailingZeros32(m&^w.init[s]), Uninitialised, 0, "stores a register that was never written")
		}
		v[j] = w.get(l, s)
	}
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		addr := base[lane] + in.off
		s, o, f := w.resolve(l, in, lane, in.space, addr, n)
		if f != nil {
			return f
		}
		if f := w.checkWrite(l, in, lane, s, o, addr, n); f != nil {
			return f
		}
		if f := w.race(l, in, lane, s, o, addr, n, kind); f != nil {
			return f
		}
		for j := range in.count {
			put(s.data[o+uint64(j*in.width):], in.width, v[j][lane])
		}
	}
	return nil
}

func (w *warp) atom(l *launch, in *inst, m uint32) *Fault {
	base, b, c := w.get(l, in.src[0]), w.get(l, in.src[1]), w.get(l, in.src[2])
	n := in.width
	var out vec
	for _, i := range l.lanes {
		lane := int(i & 31)
		if m>>lane&1 == 0 {
			continue
		}
		addr := base[lane] + in.off
		s, o, f := w.resolve(l, in, lane, in.space, addr, n)
		if f != nil {
			return f
		}
		if f := w.checkRead(l, in, lane, s, o, addr, n); f != nil {
			return f
		}
		if f := w.checkWrite(l, in, lane, s, o, addr, n); f != nil {
			return f
		}
		if f := w.race(l, in, lane, s, o, addr, n, atomics); f != nil {
			return f
		}
		old := get(s.data[o:], n)
		put(s.data[o:], n, in.atomic(old, b[lane], c[lane]))
		out[lane] = old
	}
	if in.dst >= 0 {
		w.set(in.dst, m, &out)
	}
	return nil
}

// copyAsync takes the source at once and delivers at the wait.
func (w *warp) copyAsync(l *launch, in *inst, m uint32) *Fault {
	from, to, count := w.get(l, in.src[0]), w.get(l, in.src[1]), w.get(l, in.src[2])
	n := in.width
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		c := copied{addr: to[lane] + in.off2, n: n, commit: w.commits[lane]}
		k := int(min(count[lane], uint64(n)))
		addr := from[lane] + in.off
		if addr&uint64(n-1) != 0 {
			return l.fault(w, in, lane, Misaligned, addr, "a copy of %d bytes needs an address that is a multiple of %d", n, n)
		}
		if k > 0 {
			// Only k bytes are read: see that these lie inside.
			s, o, f := w.resolve(l, in, lane, inGlobal, addr, 1)
			if f != nil {
				return f
			}
			if o+uint64(k) > s.size {
				return l.fault(w, in, lane, OutOfBounds, addr, "%d bytes at offset %d of %s, which has %d", k, o, s.name, s.size)
			}
			if f := w.checkRead(l, in, lane, s, o, addr, k); f != nil {
				return f
			}
			if f := w.race(l, in, lane, s, o, addr, k, reads); f != nil {
				return f
			}
			copy(c.data[:k], s.data[o:])
		}
		s, o, f := w.resolve(l, in, lane, inShared, c.addr, n)
		if f != nil {
			return f
		}
		if f := w.checkWrite(l, in, lane, s, o, c.addr, n); f != nil {
			return f
		}
		if f := w.race(l, in, lane, s, o, c.addr, n, writes); f != nil {
			return f
		}
		s.mark(o, n, inFlight)
		w.copies[lane] = append(w.copies[lane], c)
	}
	return nil
}

// wait delivers all copies but those of the last groups, and with a count of -1 those of no group too.
func (w *warp) wait(l *launch, in *inst, m uint32) *Fault {
	for r := m; r != 0; r &= r - 1 {
		lane := bits.TrailingZeros32(r) & 31
		rest := w.copies[lane][:0]
		for _, c := range w.copies[lane] {
			if in.count >= 0 && c.commit >= w.commits[lane]-in.count {
				rest = append(rest, c)
				continue
			}
			s, o, f := w.resolve(l, in, lane, inShared, c.addr, c.n)
			if f != nil {
				return f
			}
			s.mark(o, c.n, written)
			copy(s.data[o:], c.data[:c.n])
			if f := w.race(l, in, lane, s, o, c.addr, c.n, writes); f != nil {
				return f
			}
		}
		w.copies[lane] = rest
	}
	return nil
}
