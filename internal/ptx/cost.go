package ptx

import "strings"

// Class is what a warp's instruction occupies, once an assembler has made a GPU's own of it.
type Class int

const (
	FMA32       Class = iota // float32 multiply-add
	Float32                  // another float32 operation of the same units: sums, products
	FP64                     // float64
	MMA                      // tensor core: m16n8k8 in tf32, m16n8k16 in bf16
	Integer                  // addition, logic, comparison, selection, also of floats
	IntMultiply              // integer multiply-add
	Special                  // reciprocals, roots, conversions
	Branch                   // also the end of a thread
	Barrier                  // of a block
	Exchange                 // between lanes: shuffle, vote
	GlobalLoad               // also cp.async
	GlobalStore              // also atomics
	SharedLoad
	SharedStore
	GenericLoad // of an address that may be of any space
	GenericStore
	Classes // how many there are
)

var classNames = [Classes]string{"fma32", "float32", "fp64", "mma", "integer", "integer_multiply", "special", "branch", "barrier", "exchange",
	"global_load", "global_store", "shared_load", "shared_store", "generic_load", "generic_store"}

func (c Class) String() string { return classNames[c] }

// Tally is a number of instructions of each class.
type Tally [Classes]int64

// Sum is that of all classes.
func (t *Tally) Sum() (n int64) {
	for _, x := range t {
		n += x
	}
	return n
}

// Latencies are cycles from an instruction's issue until another one can have its result.
type Latencies struct {
	ALU, FP64, Special, MMA, Exchange, Shared, L1, L2, Host, Barrier int
}

// cost is what an instruction of PTX is of a GPU's own.
type cost struct {
	n      Tally
	kind   delay
	cycles int64 // of a sequence, beside kind
}

// delay says which latency a result has.
type delay uint8

const (
	none delay = iota
	byALU
	byFP64
	bySpecial
	byMMA
	byExchange
	byShared
	byGlobal
)

// sequences are instructions for which assemblers write several, by what their names begin with. The numbers
// are those of ptxas 13 for sm_80 and sm_90 on the way that ordinary operands take.
var sequences = []struct {
	prefix string
	cost   cost
}{
	{"div.rn.f64", cost{n: Tally{FP64: 8, Special: 1, Integer: 4, Branch: 1}, cycles: 90}},
	{"rcp.rn.f64", cost{n: Tally{FP64: 5, Special: 1, Integer: 3, Branch: 1}, cycles: 65}},
	{"sqrt.rn.f64", cost{n: Tally{FP64: 8, Special: 1, Integer: 4, Branch: 1}, cycles: 95}},
	{"div.rn.f32", cost{n: Tally{FMA32: 6, Special: 1, Integer: 2, Branch: 1}, cycles: 50}},
	{"rcp.rn.f32", cost{n: Tally{FMA32: 2, Special: 1, Integer: 2, Branch: 1}, cycles: 35}},
	{"sqrt.rn.f32", cost{n: Tally{FMA32: 4, Special: 1, Integer: 2, Branch: 1}, cycles: 40}},
	{"div.s32", cost{n: Tally{Integer: 12, IntMultiply: 5, Special: 3}, cycles: 100}},
	{"rem.s32", cost{n: Tally{Integer: 11, IntMultiply: 5, Special: 3}, cycles: 100}},
	{"div.u32", cost{n: Tally{Integer: 9, IntMultiply: 5, Special: 3}, cycles: 90}},
	{"rem.u32", cost{n: Tally{Integer: 8, IntMultiply: 5, Special: 3}, cycles: 90}},
	{"div.u64", cost{n: Tally{Integer: 40, IntMultiply: 24, Special: 3, Branch: 3}, cycles: 350}},
	{"rem.u64", cost{n: Tally{Integer: 40, IntMultiply: 24, Special: 3, Branch: 3}, cycles: 350}},
	{"div.s64", cost{n: Tally{Integer: 50, IntMultiply: 24, Special: 3, Branch: 3}, cycles: 380}},
	{"rem.s64", cost{n: Tally{Integer: 50, IntMultiply: 24, Special: 3, Branch: 3}, cycles: 380}},
}

// free are instructions of which an assembler leaves nothing: copies of registers, operands that others can read
// where they lie, signs, which other instructions change by the way, and predicates that a comparison combines with its own.
var free = []string{"mov.", "cvta.", "ld.param.", "neg.f", "abs.f", "and.pred", "or.pred", "not.pred", "xor.pred",
	"cvt.u64.u32", "cvt.s64.s32", "cvt.u32.u64", "cvt.u32.u16", "cvt.u16.u32", "bra.uni", "cp.async.commit_group", "cp.async.wait"}

// costs are those of a kernel's instructions.
func (k *Kernel) costs() []cost {
	all := make([]cost, len(k.code))
	readers, writer := k.uses()
	for i := range k.code {
		all[i] = k.code[i].cost()
	}
	for i := range k.code {
		in := &k.code[i]
		if in.text != "add.s64" {
			continue
		}
		// base + index·size: one instruction of both, or, shifted, two of both.
		for _, s := range in.src[:in.nsrc] {
			if s < 0 || readers[s] != 1 || writer[s] < 0 {
				continue
			}
			switch by := k.code[writer[s]].text; {
			case strings.HasPrefix(by, "mul.wide."):
				all[i] = cost{}
			case by == "shl.b64":
				all[writer[s]] = cost{}
			}
		}
	}
	return all
}

// uses counts who reads a register, and finds who writes it, -1 for several.
func (k *Kernel) uses() (readers, writer []int) {
	readers, writer = make([]int, k.regs), make([]int, k.regs)
	for i := range writer {
		writer[i] = -2
	}
	for i := range k.code {
		var read, written [12]int32
		in := &k.code[i]
		for _, s := range in.sources(read[:0]) {
			if s >= 0 {
				readers[s]++
			}
		}
		for _, d := range in.results(written[:0]) {
			if writer[d] == -2 {
				writer[d] = i
			} else {
				writer[d] = -1
			}
		}
	}
	return readers, writer
}

// sources appends the slots that an instruction reads.
func (in *inst) sources(to []int32) []int32 {
	switch in.op {
	case opMMA:
		return append(to, in.list[:10]...)
	case opPack:
		return append(to, in.list[:in.count]...)
	case opUnpack:
		return append(to, in.src[0])
	case opStore:
		to = append(to, in.list[:in.count]...)
	}
	return append(to, in.src[:in.nsrc]...)
}

// results appends the slots that it writes.
func (in *inst) results(to []int32) []int32 {
	switch in.op {
	case opMMA:
		return append(to, in.src[:4]...)
	case opLoad, opUnpack, opMatrix:
		return append(to, in.list[:in.count]...)
	case opALU, opMov, opSel, opPack, opAtom, opShuffle, opVote:
		return append(to, in.dst)
	}
	return to
}

func (in *inst) cost() cost {
	for _, s := range sequences {
		if in.text == s.prefix {
			return s.cost
		}
	}
	for _, p := range free {
		if strings.HasPrefix(in.text, p) {
			return cost{}
		}
	}
	one := func(c Class, d delay) cost {
		x := cost{kind: d}
		x.n[c] = 1
		return x
	}
	switch in.op {
	case opLoad, opMatrix:
		return in.accessCost(GlobalLoad, SharedLoad, GenericLoad)
	case opStore:
		c := in.accessCost(GlobalStore, SharedStore, GenericStore)
		c.kind = none
		return c
	case opAtom:
		return in.accessCost(GlobalStore, SharedStore, GenericStore)
	case opCopy:
		return one(GlobalLoad, none)
	case opBra, opExit, opTrap:
		return one(Branch, none)
	case opBarrier:
		return one(Barrier, none)
	case opWarpSync:
		return one(Branch, none)
	case opShuffle, opVote:
		return one(Exchange, byExchange)
	case opMMA:
		return one(MMA, byMMA)
	}
	return in.arithmeticCost()
}

func (in *inst) accessCost(global, shared, other Class) cost {
	var c cost
	switch in.space {
	case inShared:
		c.n[shared], c.kind = 1, byShared
	case generic:
		c.n[other], c.kind = 1, byGlobal
	case inParam:
	default:
		c.n[global], c.kind = 1, byGlobal
	}
	return c
}

// arithmeticCost is that of what lanes compute each for themselves, by the operation and by its type.
func (in *inst) arithmeticCost() cost {
	part := strings.Split(in.text, ".")
	op, t := part[0], lastType(part)
	one := func(class Class, d delay) (c cost) {
		c.n[class], c.kind = 1, d
		return c
	}
	switch {
	case op == "cvt":
		return conversionCost(one, part)
	case op == "popc" || op == "clz":
		return one(Special, bySpecial)
	case t == f64 && op != "selp":
		return one(FP64, byFP64)
	case op == "fma":
		return one(FMA32, byALU)
	case t == f32 && (op == "add" || op == "sub" || op == "mul"):
		return one(Float32, byALU)
	}
	class, wide := Integer, int64(1)
	if t.size() == 8 {
		wide = 2 // instructions of 32 bits each
	}
	if op == "mul" || op == "mad" {
		class, wide = IntMultiply, wide*wide
		if part[1] == "wide" {
			wide = 1
		}
	}
	c := one(class, byALU)
	c.n[class] = wide
	return c
}

// conversionCost is that of cvt, whose name ends in the new type and the old one: those between floats and integers, and of
// float64, have a unit of their own. Rounding to TF32 is an addition and a mask.
func conversionCost(one func(Class, delay) cost, part []string) cost {
	from, to := lastType(part), typeNames[part[len(part)-2]]
	switch {
	case to == tf32:
		c := one(Integer, byALU)
		c.n[Integer], c.cycles = 2, 4
		return c
	case part[len(part)-2] == "bf16x2":
		return one(Integer, byALU)
	case to.float() || from.float():
		return one(Special, bySpecial)
	}
	return one(Integer, byALU)
}
