package model

import (
	"math"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/ptx"
)

// Kernel is a launch and its modelled time.
type Kernel struct {
	Module    string `json:"module"`
	Name      string `json:"kernel"`
	Grid      [3]int `json:"grid"`
	Blocks    int    `json:"blocks"`
	Threads   int    `json:"threads"`
	Shared    int    `json:"shared_bytes"` // static and dynamic
	Registers int    `json:"registers"`    // of a thread, 0 where unknown
	Sampled   int    `json:"blocks_sampled"`
	Resident  int    `json:"blocks_per_processor"`
	Waves     int    `json:"waves"`
	Counts    Counts `json:"counts"`
	Bound     string `json:"bound"` // by what
	launchPeriods
}

// launchPeriods are what the time of a launch is made of: the floor, and the longest of the others.
type launchPeriods struct {
	Seconds    float64 `json:"seconds"`
	Floor      float64 `json:"floor_seconds"`
	Throughput float64 `json:"throughput_seconds"`
	Latency    float64 `json:"latency_seconds"`
	L2         float64 `json:"l2_seconds"`
	DRAM       float64 `json:"dram_seconds"`
}

// Counts are what all blocks of a launch do, by those that were sampled.
type Counts struct {
	Instructions map[string]int64 `json:"warp_instructions"` // by class
	Accesses     []Access         `json:"accesses"`
	Sectors      int64            `json:"sectors"`  // of 32 bytes, in requests to global memory
	Requests     int64            `json:"requests"` // to global memory
	Waves        int64            `json:"shared_passes"`
	Conflicts    int64            `json:"bank_conflicts"`
	L2           int64            `json:"l2_bytes"`
	DRAM         int64            `json:"dram_bytes"`
	Chain        int64            `json:"chain_cycles"` // of a block, on average

	tally ptx.Tally
	lines int64
}

// Access is how many instructions of warps loaded or stored so many bytes a lane.
type Access struct {
	Class   string  `json:"class"`
	Width   int     `json:"bytes"`
	Count   int64   `json:"count"`
	Sectors float64 `json:"sectors_a_request"` // 0 in shared memory
}

// seconds rounds to nanoseconds, so that figures do not depend on how a processor rounds.
func seconds(s float64) float64 { return float64(math.Round(s*1e9)) / 1e9 }

// Duration is the launch's time.
func (k *Kernel) Duration() time.Duration { return time.Duration(math.Round(k.Seconds * 1e9)) }

// FloorDuration is the part of it that any launch takes.
func (k *Kernel) FloorDuration() time.Duration { return time.Duration(math.Round(k.Floor * 1e9)) }

// occupy finds how many blocks share a multiprocessor. Where the registers are not known they do not count.
func (k *Kernel) occupy(m *Machine) {
	per := (k.Threads + 31) / 32
	n := min(blocks, warps/per, m.Shared/(k.Shared+reserved))
	if k.Registers > 0 {
		const unit = 256 // registers of a warp come in so many, and each scheduler has a part of all
		warp := (k.Registers*32 + unit - 1) / unit * unit
		n = min(n, registers/issue/warp*issue/per)
	}
	k.Resident = max(n, 1)
	k.Waves = (k.Blocks + m.Processors*k.Resident - 1) / (m.Processors * k.Resident)
}

// time makes the launch's time of its counts.
func (k *Kernel) time(m *Machine) {
	k.occupy(m)
	busiest := float64((k.Blocks + m.Processors - 1) / m.Processors) // blocks of one multiprocessor
	cycles, bound := k.throughput(m)
	k.Throughput = seconds(busiest * cycles / float64(k.Blocks) / attainedIssue / m.Clock)
	rounds := math.Ceil(busiest / float64(k.Resident))
	k.Latency = seconds(rounds * float64(k.Counts.Chain) / m.Clock)
	k.L2 = seconds(float64(k.Counts.L2) / (attainedL2 * m.L2Rate * m.Clock))
	k.DRAM = seconds(float64(k.Counts.DRAM) / (attainedDRAM * m.DRAMRate))
	k.Floor = launchSeconds
	most := max(k.Throughput, k.Latency, k.L2, k.DRAM)
	switch most {
	case k.Throughput:
		k.Bound = bound
	case k.Latency:
		k.Bound = "latency"
	case k.L2:
		k.Bound = "L2"
	default:
		k.Bound = "DRAM"
	}
	if most < k.Floor {
		k.Bound = "launch"
	}
	k.Seconds = seconds(k.Floor + most)
}

// throughput is how many cycles of one multiprocessor all blocks take of what they need most.
func (k *Kernel) throughput(m *Machine) (cycles float64, bound string) {
	t := &k.Counts.tally
	of := func(classes ...ptx.Class) (n float64) {
		for _, c := range classes {
			n += float64(t[c])
		}
		return n
	}
	for _, p := range []struct {
		name   string
		cycles float64
	}{
		{"issue", float64(t.Sum()) / issue},
		{"fp32", of(ptx.FMA32, ptx.Float32, ptx.IntMultiply) / m.Float32},
		{"fp64", of(ptx.FP64) / m.Float64},
		{"tensor", of(ptx.MMA) / m.MMA},
		{"integer", max(of(ptx.Integer), of(ptx.IntMultiply)) / integers},
		{"special", of(ptx.Special) / specials},
		{"accesses", (float64(k.Counts.Waves) + max(float64(k.Counts.lines), float64(k.Counts.Sectors)/4) + of(ptx.Exchange)) / accesses},
	} {
		if p.cycles > cycles {
			cycles, bound = p.cycles, p.name
		}
	}
	return cycles, bound
}

// Grouped are launches that differ in nothing but their rows.
type Grouped struct {
	Kernel
	Launches int
}

// Group joins launches of one kernel, one grid and one time, in the order of the first of each.
func Group(all []Kernel) (groups []Grouped) {
	for i := range all {
		k := &all[i]
		at := slices.IndexFunc(groups, func(g Grouped) bool {
			return g.Module == k.Module && g.Name == k.Name && g.Grid == k.Grid && g.Seconds == k.Seconds
		})
		if at < 0 {
			at = len(groups)
			groups = append(groups, Grouped{Kernel: *k})
		}
		groups[at].Launches++
	}
	return groups
}

// FMAShare is the share of float32 and tensor-core products among the instructions.
func (n *Counts) FMAShare() float64 {
	return share(n.tally[ptx.FMA32]+n.tally[ptx.MMA], n.tally.Sum())
}

// ConflictShare is the share of passes through shared memory that bank conflicts cost.
func (n *Counts) ConflictShare() float64 { return share(n.Conflicts, n.Waves) }

// SectorsPerRequest is how many sectors an access of a warp to global memory touches.
func (n *Counts) SectorsPerRequest() float64 { return share(n.Sectors, n.Requests) }

func share(of, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(of) / float64(all)
}
