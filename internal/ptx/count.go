package ptx

import (
	"cmp"
	"math/bits"
	"slices"
)

// Counter counts what the blocks of a launch do. It takes PTX for what an assembler makes of it by a table
// (sequences, free): register allocation and the order within straight-line code are not known.
type Counter struct {
	Latencies Latencies // in
	Blocks    []Count   // of every block that ran, in order
	// Read and Written are how many bytes of memory the launch touches between the first and the last place
	// that any of these blocks touched by the same instruction; where such ranges overlap they are one.
	Read, Written int64

	costs   []cost
	at      []site
	clocks  []clock
	touched map[uint64]*[2]mask // by 8 KiB of global memory: what the block loaded and stored
	last    *[2]mask
	lastAt  uint64
	now     Count // of the block at hand
}

// Count is what a block does.
type Count struct {
	Number       int // of the block
	Instructions Tally
	Accesses     []Access
	// Of requests to global memory: sectors of 32 bytes and lines of 128 bytes that each of them touches, added up.
	LoadSectors, StoreSectors, Lines int64
	// Loaded and Stored are bytes of sectors that the block touches, each counted once.
	Loaded, Stored int64
	// Waves are passes through the banks of shared memory, and Conflicts those beyond the least that as
	// many bytes need.
	Waves, Conflicts int64
	// Chain is how many cycles the block takes where nothing but dependences and one issue a cycle for each warp holds it up.
	Chain int64
}

// Access is how often warps loaded, stored or copied by instructions of a space and of a width in bytes.
type Access struct {
	Class   Class
	Width   int
	Count   int64
	Sectors int64 // in global memory
}

// mask has a bit for each of 256 sectors.
type mask [4]uint64

// site is an instruction: how often it ran in the block, and what it touched in all of them.
type site struct {
	runs, sectors int64
	lo, hi        uint64 // addresses in global memory, hi excluded
}

// clock is when a warp's registers are ready, if instructions of straight-line code are in the best order.
type clock struct {
	ready, preds []int64
	base         int64 // when the straight-line code began
	latest       int64 // when the last of its instructions can be issued
	slots        int64 // how many there are
	copies       []int64
	open         int64 // when the copies of no group are there
}

func (c *clock) end() {
	c.base = max(c.base+c.slots, c.latest)
	c.latest, c.slots = c.base, 0
}

// begin makes the counter ready for a launch.
func (c *Counter) begin(l *launch) {
	c.costs, c.at = l.k.costs(), make([]site, len(l.k.code))
	c.clocks = make([]clock, len(l.warps))
	for i := range c.clocks {
		c.clocks[i] = clock{ready: make([]int64, l.k.regs), preds: make([]int64, l.k.preds)}
	}
	c.Blocks, c.Read, c.Written = nil, 0, 0
	c.beginBlock()
}

func (c *Counter) beginBlock() {
	for i := range c.at {
		c.at[i].runs, c.at[i].sectors = 0, 0
	}
	for i := range c.clocks {
		k := &c.clocks[i]
		clear(k.ready)
		clear(k.preds)
		*k = clock{ready: k.ready, preds: k.preds, copies: k.copies[:0]}
	}
	c.touched, c.last = map[uint64]*[2]mask{}, nil
	c.now = Count{}
}

// note counts an instruction that lanes m of a warp are about to execute, of which there may be none.
func (c *Counter) note(l *launch, w *warp, in *inst, pc int32, m uint32) {
	x, k := &c.costs[pc], &c.clocks[w.id]
	c.at[pc].runs++
	k.slots += x.n.Sum()
	if m == 0 {
		return
	}
	ready := k.base
	var slots [12]int32
	for _, s := range in.sources(slots[:0]) {
		if s >= 0 {
			ready = max(ready, k.ready[s])
		}
	}
	for _, p := range [3]int32{in.guard, in.psrc[0], in.psrc[1]} {
		if p >= 0 {
			ready = max(ready, k.preds[p])
		}
	}
	k.latest = max(k.latest, ready)
	done := ready + x.cycles + c.latency(x.kind)
	switch in.op {
	case opLoad, opStore, opAtom, opCopy, opMatrix:
		done = ready + c.memory(l, w, in, pc, m, x)
	}
	switch in.op {
	case opSetp, opLogic:
		k.preds[in.pdst] = done
	case opCopy:
		k.open = max(k.open, done)
	case opCommit:
		k.copies, k.open = append(k.copies, k.open), 0
	case opWait:
		k.wait(in.count)
	default:
		if in.op >= opBra && in.op <= opBarrier {
			k.end()
		}
		for _, d := range in.results(slots[:0]) {
			k.ready[d] = done
		}
	}
}

// wait ends straight-line code when all copies are there but those of the last groups; of -1, all.
func (k *clock) wait(but int) {
	k.end()
	first := max(0, len(k.copies)-max(but, 0))
	for _, at := range k.copies[:first] {
		k.base = max(k.base, at)
	}
	if but < 0 {
		k.base = max(k.base, k.open)
	}
	k.copies = append(k.copies[:0], k.copies[first:]...)
	k.latest = k.base
}

func (c *Counter) latency(d delay) int64 {
	t := &c.Latencies
	return int64([...]int{none: 0, byALU: t.ALU, byFP64: t.FP64, bySpecial: t.Special, byMMA: t.MMA, byExchange: t.Exchange,
		byShared: t.Shared, byGlobal: t.L2}[d])
}

// barrier is when the last warp arrives.
func (c *Counter) barrier(l *launch) {
	last := int64(0)
	for i := range l.warps {
		last = max(last, c.clocks[i].base)
	}
	for i := range l.warps {
		k := &c.clocks[i]
		k.base = last + int64(c.Latencies.Barrier)
		k.latest = k.base
	}
}

// memory counts an access and gives its latency.
func (c *Counter) memory(l *launch, w *warp, in *inst, pc int32, m uint32, x *cost) int64 {
	base := w.get(l, in.src[0])
	n := in.width * in.count
	first := base[bits.TrailingZeros32(m)] + in.off
	switch {
	case in.op == opMatrix:
		passes := c.shared(base, in.off, matrixRow, m&in.givers())
		return int64(c.Latencies.Shared) + laterPass*(passes-1)
	case in.space == inParam || in.space == inLocal || in.space == inConst:
		return c.latency(x.kind)
	case in.space == inShared, in.space == generic && first-sharedWindow < windowSize:
		c.shared(base, in.off, n, m)
		return int64(c.Latencies.Shared)
	}
	if in.op == opCopy {
		c.shared(w.get(l, in.src[1]), in.off2, n, m)
	}
	if !c.global(base, in, n, pc, m) {
		return int64(c.Latencies.L1)
	}
	if s := l.mem.find(first); s != nil && s.host {
		return int64(c.Latencies.Host)
	}
	return int64(c.Latencies.L2)
}

// laterPass is how many cycles ldmatrix takes for each of its passes but the first, conflicts or further matrices alike: table
// of ldmatrix in Sun, Li, Geng, Stuijk and Corporaal, Dissecting Tensor Cores via Microbenchmarks, arXiv 2206.02874, 2022.
const laterPass = 2

// shared counts passes through the 32 banks of 4 bytes: 16 bytes a lane take a pass for every 8 lanes, 8 for 16, and
// a pass more for every other word of a bank. It gives their number.
func (c *Counter) shared(base *vec, off uint64, n int, m uint32) (passes int64) {
	lanes := 32
	if n > 4 {
		lanes = 128 / n
	}
	b := &c.now
	for from := 0; from < 32; from += lanes {
		var words [32][32]uint64
		var count [32]int
		most := 0
		for r := m >> from & uint32(1<<lanes-1); r != 0; r &= r - 1 {
			a := base[from+bits.TrailingZeros32(r)] + off
			for word := a / 4; word <= (a+uint64(n)-1)/4; word++ {
				bank := word % 32
				if seen := words[bank][:count[bank]]; !slices.Contains(seen, word) {
					words[bank][count[bank]] = word
					count[bank]++
					most = max(most, count[bank])
				}
			}
		}
		if most > 0 {
			b.Conflicts += int64(most - 1)
			passes += int64(most)
		}
	}
	b.Waves += passes
	return passes
}

// global counts sectors and lines, and says whether the block has touched one of them for the first time.
func (c *Counter) global(base *vec, in *inst, n int, pc int32, m uint32) (far bool) {
	var sectors, lines [128]uint64
	ns, nl := 0, 0
	at := &c.at[pc]
	side := 0
	if in.op == opStore || in.op == opAtom {
		side = 1
	}
	for ; m != 0; m &= m - 1 {
		a := base[bits.TrailingZeros32(m)] + in.off
		if at.hi == 0 || a < at.lo {
			at.lo = a
		}
		at.hi = max(at.hi, a+uint64(n))
		s := a / 32
		if slices.Contains(sectors[:ns], s) {
			continue
		}
		sectors[ns] = s
		ns++
		if line := a / 128; !slices.Contains(lines[:nl], line) {
			lines[nl] = line
			nl++
		}
		if c.touch(s, side) {
			far = true
		}
	}
	b := &c.now
	b.Lines += int64(nl)
	at.sectors += int64(ns)
	if side == 1 {
		b.StoreSectors += int64(ns)
	} else {
		b.LoadSectors += int64(ns)
	}
	return far
}

// touch says whether a sector is touched for the first time.
func (c *Counter) touch(sector uint64, side int) bool {
	if c.last == nil || c.lastAt != sector/256 {
		c.lastAt = sector / 256
		if c.last = c.touched[c.lastAt]; c.last == nil {
			c.last = new([2]mask)
			c.touched[c.lastAt] = c.last
		}
	}
	word, bit := &c.last[side][sector%256/64], uint64(1)<<(sector%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// end adds up what a block did, and makes the counter ready for the next.
func (c *Counter) end(l *launch, number int) {
	b := &c.now
	b.Number = number
	for i := range c.at {
		at, x := &c.at[i], &c.costs[i]
		for j, n := range x.n {
			b.Instructions[j] += n * at.runs
		}
		c.access(&l.k.code[i], at, x)
	}
	slices.SortFunc(b.Accesses, func(x, y Access) int { return cmp.Or(cmp.Compare(x.Class, y.Class), cmp.Compare(x.Width, y.Width)) })
	for _, both := range c.touched {
		for j := range both[0] {
			b.Loaded += 32 * int64(bits.OnesCount64(both[0][j]))
			b.Stored += 32 * int64(bits.OnesCount64(both[1][j]))
		}
	}
	for i := range c.clocks {
		k := &c.clocks[i]
		k.end()
		b.Chain = max(b.Chain, k.base)
	}
	c.Blocks = append(c.Blocks, c.now)
	c.beginBlock()
}

func (c *Counter) access(in *inst, at *site, x *cost) {
	if at.runs == 0 {
		return
	}
	for class := GlobalLoad; class <= GenericStore; class++ {
		if x.n[class] == 0 {
			continue
		}
		b, width := &c.now, in.width*max(in.count, 1)
		i := slices.IndexFunc(b.Accesses, func(a Access) bool { return a.Class == class && a.Width == width })
		if i < 0 {
			i = len(b.Accesses)
			b.Accesses = append(b.Accesses, Access{Class: class, Width: width})
		}
		b.Accesses[i].Count += at.runs
		b.Accesses[i].Sectors += at.sectors
	}
}

// extent is the length of what instructions loaded or stored, each from its first address to its last.
func (c *Counter) extent(l *launch, stores bool) (n int64) {
	var all []site
	for i := range c.at {
		op := l.k.code[i].op
		if c.at[i].hi != 0 && stores == (op == opStore || op == opAtom) {
			all = append(all, c.at[i])
		}
	}
	slices.SortFunc(all, func(x, y site) int { return cmp.Compare(x.lo, y.lo) })
	end := uint64(0)
	for _, s := range all {
		if s.hi > end {
			n += int64(s.hi - max(s.lo, end))
			end = s.hi
		}
	}
	return n
}
