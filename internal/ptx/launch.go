package ptx

import (
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
)

// Shared memory.
const (
	static = iota
	dynamic
)

// launch is a running kernel.
type launch struct {
	k       *Kernel
	mem     *Memory
	o       Options
	grid    [3]int
	block   [3]int
	threads int
	params  segment
	consts  []vec
	order   *rand.Rand // nil for the natural order
	ran     []int      // the numbers of the blocks that have begun
	lanes   [32]uint8  // order of lanes in atomics

	first    uint32 // number of the first block
	shared   *[2]segment
	template []byte // states of static shared memory at the beginning

	// of the block at hand
	id    [3]int
	me    access
	left  int64
	warps []*warp
	last  *segment
}

// Launch runs a kernel to its end. Arguments take 8 bytes each, low bytes
// first; a structure takes as many as it needs. shared is dynamic shared memory
// in bytes. A returned *Fault is the kernel's, other errors are the launch's.
func (k *Kernel) Launch(mem *Memory, grid, block [3]int, shared int, args []uint64, o Options) error {
	l := &launch{k: k, mem: mem, o: o, grid: grid, block: block}
	if err := l.check(shared, args); err != nil {
		return fmt.Errorf("ptx: launch of %s: %w", k.Name, err)
	}
	l.consts = append([]vec(nil), k.consts...)
	at := mem.place(k.module)
	for _, a := range k.addresses {
		for i := range l.consts[a.constant] {
			l.consts[a.constant][i] = at[a.variable]
		}
	}
	if l.o.StepLimit == 0 {
		l.o.StepLimit = 1 << 28
	}
	for i := range l.lanes {
		l.lanes[i] = uint8(i)
	}
	blocks := grid[0] * grid[1] * grid[2]
	if uint64(mem.blocks)+uint64(blocks) >= 1<<32 {
		return fmt.Errorf("ptx: launch of %s: a memory takes 2³² blocks, and had %d: make a new one", k.Name, mem.blocks)
	}
	l.first = mem.blocks + 1 // 0 is that of accesses that never were
	mem.blocks += uint32(blocks)
	if o.Seed != 0 {
		l.order = rand.New(rand.NewPCG(o.Seed, 1))
		l.order.Shuffle(32, func(i, j int) { l.lanes[i], l.lanes[j] = l.lanes[j], l.lanes[i] })
	}
	l.makeShared(shared)
	l.makeWarps()
	if o.Counter != nil {
		o.Counter.begin(l)
	}
	all := o.Blocks
	if all == nil {
		all = l.everyBlock(blocks)
	}
	for n := range all {
		l.me = access{block: l.first + uint32(len(l.ran))}
		l.ran = append(l.ran, n)
		l.id = l.coordinates(l.me.block)
		if f := l.runBlock(); f != nil {
			return f
		}
		if o.Counter != nil {
			o.Counter.end(l, n)
		}
	}
	if o.Counter != nil {
		c := o.Counter
		c.Read, c.Written = c.extent(l, false), c.extent(l, true)
	}
	return nil
}

// everyBlock gives the numbers of all blocks, shuffled if orders are.
func (l *launch) everyBlock(blocks int) iter.Seq[int] {
	if l.order != nil {
		return slices.Values(l.order.Perm(blocks))
	}
	return func(yield func(int) bool) {
		for i := 0; i < blocks && yield(i); i++ {
		}
	}
}

// coordinates are those of a block of the launch that has begun.
func (l *launch) coordinates(block uint32) [3]int {
	i := l.ran[block-l.first]
	return [3]int{i % l.grid[0], i / l.grid[0] % l.grid[1], i / l.grid[0] / l.grid[1]}
}

func (l *launch) check(shared int, args []uint64) error {
	if err := l.checkShape(); err != nil {
		return err
	}
	limit := l.o.SharedLimit
	if limit == 0 {
		limit = 49152
	}
	if shared < 0 || l.k.Shared+shared > limit {
		return fmt.Errorf("%d bytes of static and %d of dynamic shared memory exceed the limit of %d", l.k.Shared, shared, limit)
	}
	want := 0
	for _, p := range l.k.Params {
		want += (p.Size + 7) / 8
	}
	if len(args) != want {
		return fmt.Errorf("%d arguments of 8 bytes where the kernel takes %d", len(args), want)
	}
	params := make([]byte, l.k.paramSize)
	for _, p := range l.k.Params {
		for i := range p.Size {
			params[p.Offset+i] = byte(args[i/8] >> (8 * (i % 8)))
		}
		args = args[(p.Size+7)/8:]
	}
	l.params = segment{name: "parameter memory", size: uint64(len(params)), data: params}
	return nil
}

// checkShape looks at the grid and the block.
func (l *launch) checkShape() error {
	for i, most := range []int{1<<31 - 1, 65535, 65535} {
		if l.grid[i] < 1 || l.grid[i] > most {
			return fmt.Errorf("grid %s: dimension %d is not in 1…%d", tuple(l.grid), i, most)
		}
	}
	l.threads = l.block[0] * l.block[1] * l.block[2]
	if min(l.block[0], l.block[1], l.block[2]) < 1 || l.block[2] > 64 || l.threads > 1024 {
		return fmt.Errorf("block %s: more than 1024 threads, or fewer than 1, or more than 64 deep", tuple(l.block))
	}
	if l.grid[0]*l.grid[1] > 1<<31 || l.grid[0]*l.grid[1]*l.grid[2] > 1<<31 {
		return fmt.Errorf("grid %s: more than 2³¹ blocks are not supported here", tuple(l.grid))
	}
	if n := l.k.MaxThreads; n > 0 && l.threads > n {
		return fmt.Errorf("block %s: %d threads where the kernel's .maxntid allows %d", tuple(l.block), l.threads, n)
	}
	return nil
}

// makeShared lays shared memory out; what lies between variables is outside.
func (l *launch) makeShared(dynamicBytes int) {
	end := 0
	for _, v := range l.k.shared {
		if !v.extern {
			end = max(end, v.offset+v.size)
		}
	}
	l.template = make([]byte, end)
	for i := range l.template {
		l.template[i] = outside
	}
	for _, v := range l.k.shared {
		if !v.extern {
			clear(l.template[v.offset : v.offset+v.size])
		}
	}
	l.shared = &l.mem.shared
	l.shared[static].resize("static shared memory", end)
	l.shared[dynamic].resize("dynamic shared memory", dynamicBytes)
}

// fault describes a violation by a lane.
func (l *launch) fault(w *warp, in *inst, lane int, kind Kind, addr uint64, format string, a ...any) *Fault {
	return &Fault{Kind: kind, Kernel: l.k.Name, Line: in.line, Source: in.source, Instruction: in.text, Block: l.id,
		Thread: l.thread(w.id*32 + lane), Address: addr, What: fmt.Sprintf(format, a...)}
}

func (l *launch) thread(t int) [3]int {
	return [3]int{t % l.block[0], t / l.block[0] % l.block[1], t / l.block[0] / l.block[1]}
}

func (l *launch) runBlock() *Fault {
	for i := range l.shared {
		l.shared[i].begin(l)
	}
	copy(l.shared[static].state, l.template)
	l.left = l.o.StepLimit
	for _, w := range l.warps {
		w.begin(l)
	}
	for {
		order := l.warps
		if l.order != nil {
			order = append([]*warp(nil), l.warps...)
			l.order.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		for _, w := range order {
			if f := w.run(l); f != nil {
				return f
			}
		}
		ready, exited := false, true
		for _, w := range l.warps {
			ready = ready || len(w.ready) > 0
			exited = exited && w.exited == w.exists
		}
		switch {
		case ready: // a warp was interrupted
		case exited:
			return nil
		default:
			if f := l.barrier(); f != nil {
				return f
			}
		}
	}
}

// barrier lets all threads go on, if they all wait at the same one.
func (l *launch) barrier() *Fault {
	var at *inst
	var first *warp
	var pc int32
	for _, w := range l.warps {
		if len(w.waiting) > 0 {
			first, pc = w, w.waiting[0].pc
			at = &l.k.code[pc]
			break
		}
	}
	id := first.waiting[0].id
	for _, w := range l.warps {
		if w.exited != 0 {
			return l.fault(first, at, bits.TrailingZeros32(first.waiting[0].mask), Divergence, 0,
				"waits at a barrier, and thread %s has exited", tuple(l.thread(w.id*32+bits.TrailingZeros32(w.exited))))
		}
		for _, g := range w.waiting {
			if g.pc != pc || g.id != id {
				return l.fault(first, at, bits.TrailingZeros32(first.waiting[0].mask), Divergence, 0,
					"waits at a barrier, and thread %s waits at line %d for another", tuple(l.thread(w.id*32+bits.TrailingZeros32(g.mask))),
					l.k.code[g.pc].line)
			}
		}
	}
	l.me.epoch++
	if l.o.Counter != nil {
		l.o.Counter.barrier(l)
	}
	for _, w := range l.warps {
		w.waiting = w.waiting[:0]
		w.ready = append(w.ready[:0], group{pc: pc + 1, mask: w.exists})
	}
	return nil
}

// lanesOf lists lanes for messages.
func lanesOf(m uint32) string {
	var s []string
	for ; m != 0; m &= m - 1 {
		s = append(s, fmt.Sprint(bits.TrailingZeros32(m)))
		if len(s) == 6 && m&(m-1) != 0 {
			return strings.Join(s, " ") + " …"
		}
	}
	return strings.Join(s, " ")
}
