package model

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ptx"
	"github.com/privgrad/privgrad/internal/sass"
)

// Model is a driver's clock: it runs some blocks of every launch, and says what all of them would take.
type Model struct {
	machine *Machine
	known   map[string]*Kernel
	kernels []Kernel // since Take
	graphs  int
}

// ones is what memory holds that no block has written, since only some run: 1 as a float32, also a class, and
// above zero as a float64.
const ones = 0x3f800000

// New makes a driver whose one device is the machine. Its memory takes that of the host only where blocks that
// run have been.
func New(m *Machine) (*Model, *fake.Driver) {
	x := &Model{machine: m, known: map[string]*Kernel{}}
	return x, fake.New(fake.Options{
		Device: driver.Info{Name: "model of " + m.Title, Capability: m.Capability, Memory: m.Memory, Processors: m.Processors,
			SharedOptIn: m.SharedPerBlock, L2: m.L2},
		Timer: x, Sparse: ptx.Words(ones),
	})
}

// Take gives the launches since it was called last, in order, and how many graphs they were.
func (x *Model) Take() (all []Kernel, graphs int) {
	all, graphs = x.kernels, x.graphs
	x.kernels, x.graphs = nil, 0
	return all, graphs
}

// Graph implements fake.Timer.
func (x *Model) Graph() time.Duration {
	x.graphs++
	return GraphFloor
}

// GraphFloor is what the start of a graph takes.
const GraphFloor = time.Duration(graphSeconds * 1e9)

// Fill implements fake.Timer: a kernel that only writes.
func (x *Model) Fill(bytes int) time.Duration {
	k := Kernel{Module: "driver", Name: "fill", Grid: [3]int{1, 1, 1}, Blocks: 1, Threads: 32, Sampled: 1}
	k.Counts.L2, k.Counts.DRAM = int64(bytes), int64(bytes)
	k.time(x.machine)
	x.kernels = append(x.kernels, k)
	return k.Duration()
}

// Kernel implements fake.Timer. A launch that was sampled is not run again: another chunk of a batch, or the next step, differs in
// its rows and in where its run's inputs are.
func (x *Model) Kernel(of fake.Kernel) (time.Duration, error) {
	l := &of.Launch
	args := slices.Clone(l.Args)
	if len(args) > 1 {
		args[1] = 0 // the first row of a kernels.Batch
	}
	if len(args) > 0 && args[0] > math.MaxUint32 {
		args[0] = 0 // an address, such as that of a run
	}
	key := fmt.Sprint(of.Module, of.Name, l.Grid, l.Block, l.Shared, args)
	k := x.known[key]
	if k == nil {
		var err error
		if k, err = x.run(of); err != nil {
			return 0, err
		}
		if k.Sampled < k.Blocks { // else what it writes may be what others go by
			x.known[key] = k
		}
	}
	x.kernels = append(x.kernels, *k)
	return k.Duration(), nil
}

// How many blocks are run.
const (
	allBlocks   = 4      // of a launch that has no more
	leastStrata = 2      // one of each, beside the first and the last
	mostStrata  = 8      // while blocks are small
	enough      = 400000 // instructions of the blocks that run, about
)

// run runs the first block, the last, and one in each of some equal parts of those between.
func (x *Model) run(of fake.Kernel) (*Kernel, error) {
	l := &of.Launch
	k := &Kernel{Module: of.Module, Name: of.Name, Grid: l.Grid, Blocks: l.Grid[0] * l.Grid[1] * l.Grid[2], Threads: l.Block[0] * l.Block[1] * l.Block[2],
		Shared: of.Shared + l.Shared, Registers: assembledRegisters(of.Module, of.Name, x.machine.Capability)}
	c := &ptx.Counter{Latencies: x.machine.Cycles}
	o := ptx.Options{SharedLimit: of.SharedLimit, AllowUninitialised: true, NoRaces: true, Counter: c, Blocks: func(yield func(int) bool) {
		if k.Blocks <= allBlocks || of.Module == "probe" { // all of whose results a device looks at
			for i := 0; i < k.Blocks && yield(i); i++ {
			}
			return
		}
		if !yield(0) || !yield(k.Blocks-1) {
			return
		}
		h := fnv.New64a()
		fmt.Fprint(h, of.Name, l.Grid)
		random := rand.New(rand.NewPCG(h.Sum64(), 0))
		strata := max(leastStrata, min(mostStrata, k.Blocks-2, int(enough/max(1, c.Blocks[0].Instructions.Sum()))))
		for i := range strata {
			from, to := 1+i*(k.Blocks-2)/strata, 1+(i+1)*(k.Blocks-2)/strata
			if !yield(from + random.IntN(to-from)) {
				return
			}
		}
	}}
	if err := of.Kernel.Launch(of.Memory, l.Grid, l.Block, l.Shared, l.Args, o); err != nil {
		return nil, err
	}
	k.count(c)
	k.time(x.machine)
	return k, nil
}

// assembledRegisters is how many a thread of a kernel has on a generation, 80 or 90 for instance, by the committed tables of
// what was assembled; 0 where they do not say.
func assembledRegisters(module, kernel string, capability int) int {
	table, err := kernels.Assembled(module)
	if err != nil {
		return 0
	}
	all, err := sass.Read(bytes.NewReader(table))
	if err != nil {
		return 0
	}
	architecture := fmt.Sprintf("sm_%d", capability)
	i := slices.IndexFunc(all, func(k sass.Kernel) bool { return k.Name == kernel && k.Architecture == architecture })
	if i < 0 {
		return 0
	}
	return all[i].Registers
}

// count makes counts of all blocks of those of some.
func (k *Kernel) count(c *ptx.Counter) {
	k.Sampled = len(c.Blocks)
	between := func(f func(*ptx.Count) int64) int64 {
		first, last := f(&c.Blocks[0]), int64(0)
		if k.Sampled == k.Blocks {
			for i := range c.Blocks {
				last += f(&c.Blocks[i])
			}
			return last
		}
		last = f(&c.Blocks[1])
		sum, some := int64(0), int64(k.Sampled-2)
		for i := range c.Blocks[2:] {
			sum += f(&c.Blocks[2+i])
		}
		return first + last + (sum*int64(k.Blocks-2)+some/2)/some
	}
	n := &k.Counts
	n.Instructions = map[string]int64{}
	for class := range ptx.Classes {
		if x := between(func(b *ptx.Count) int64 { return b.Instructions[class] }); x > 0 {
			n.tally[class] = x
			n.Instructions[class.String()] = x
		}
	}
	n.Sectors = between(func(b *ptx.Count) int64 { return b.LoadSectors + b.StoreSectors })
	n.lines = between(func(b *ptx.Count) int64 { return b.Lines })
	n.Waves = between(func(b *ptx.Count) int64 { return b.Waves })
	n.Conflicts = between(func(b *ptx.Count) int64 { return b.Conflicts })
	n.Chain = between(func(b *ptx.Count) int64 { return b.Chain }) / int64(k.Blocks)
	loaded := between(func(b *ptx.Count) int64 { return b.Loaded })
	stored := between(func(b *ptx.Count) int64 { return b.Stored })
	n.L2 = loaded + 32*between(func(b *ptx.Count) int64 { return b.StoreSectors })
	n.DRAM = min(loaded, c.Read) + min(stored, c.Written)
	k.accesses(c, between)
}

// accesses adds up loads and stores by class and width.
func (k *Kernel) accesses(c *ptx.Counter, between func(func(*ptx.Count) int64) int64) {
	var kinds []ptx.Access
	for i := range c.Blocks {
		for _, a := range c.Blocks[i].Accesses {
			if kind := (ptx.Access{Class: a.Class, Width: a.Width}); !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	slices.SortFunc(kinds, func(x, y ptx.Access) int { return cmp.Or(cmp.Compare(x.Class, y.Class), cmp.Compare(x.Width, y.Width)) })
	for _, kind := range kinds {
		sum := func(of func(ptx.Access) int64) int64 {
			return between(func(b *ptx.Count) (n int64) {
				for _, a := range b.Accesses {
					if a.Class == kind.Class && a.Width == kind.Width {
						n += of(a)
					}
				}
				return n
			})
		}
		count, sectors := sum(func(a ptx.Access) int64 { return a.Count }), sum(func(a ptx.Access) int64 { return a.Sectors })
		k.Counts.Accesses = append(k.Counts.Accesses, Access{kind.Class.String(), kind.Width, count, float64(100*sectors/max(count, 1)) / 100})
		if sectors > 0 {
			k.Counts.Requests += count
		}
	}
}
