package sass

import (
	"slices"
	"strings"
)

// Widths counts the accesses of one kind by the bits that a thread moves: at most 32, 64, and 128 or more.
type Widths [3]int

func (w Widths) accesses() int { return w[0] + w[1] + w[2] }

// bits is what all of them move, narrower ones taken for 32.
func (w Widths) bits() int { return 32*w[0] + 64*w[1] + 128*w[2] }

// Counts is what a kernel, or an innermost loop of it, is made of: instructions of the assembly, each once
// whatever the number of its runs.
type Counts struct {
	Instructions     int
	FFMA, DFMA, HMMA int    // products: float32; float64; tensor cores, of every type
	LDG, STG         Widths // global memory
	LDGSTS           Widths // cp.async, from global to shared memory
	LDS, STS         Widths // shared memory; LDS with ldmatrix
	Generic          int    // loads, stores and atomics whose address does not say which memory
	Local            int    // loads and stores of a thread's own memory: spills, or arrays with computed indices
	Divisions        int    // of integers, and remainders
	Calls            int    // of the slow paths of divisions and roots
	Barriers         int    // of a block
}

// products is the share's numerator.
func (c Counts) products() int { return c.FFMA + c.DFMA + c.HMMA }

// names of the instructions that are counted as they are.
var (
	products = map[string]func(*Counts) *int{
		"FFMA": func(c *Counts) *int { return &c.FFMA }, "FFMA2": func(c *Counts) *int { return &c.FFMA },
		"UFFMA": func(c *Counts) *int { return &c.FFMA }, "DFMA": func(c *Counts) *int { return &c.DFMA },
		"HMMA": func(c *Counts) *int { return &c.HMMA }, "DMMA": func(c *Counts) *int { return &c.HMMA },
		"HGMMA": func(c *Counts) *int { return &c.HMMA }, "QGMMA": func(c *Counts) *int { return &c.HMMA },
		"UTCHMMA": func(c *Counts) *int { return &c.HMMA },
	}
	accesses = map[string]func(*Counts) *Widths{
		"LDG": func(c *Counts) *Widths { return &c.LDG }, "STG": func(c *Counts) *Widths { return &c.STG },
		"LDGSTS": func(c *Counts) *Widths { return &c.LDGSTS },
		"LDS":    func(c *Counts) *Widths { return &c.LDS }, "LDSM": func(c *Counts) *Widths { return &c.LDS },
		"STS": func(c *Counts) *Widths { return &c.STS }, "STSM": func(c *Counts) *Widths { return &c.STS },
	}
	others = map[string]func(*Counts) *int{
		"LD": func(c *Counts) *int { return &c.Generic }, "ST": func(c *Counts) *int { return &c.Generic },
		"ATOM": func(c *Counts) *int { return &c.Generic },
		"LDL":  func(c *Counts) *int { return &c.Local }, "STL": func(c *Counts) *int { return &c.Local },
		"BAR": func(c *Counts) *int { return &c.Barriers }, "UCGABAR_WAIT": func(c *Counts) *int { return &c.Barriers },
	}
)

// Count counts the instructions with these numbers, all if there are none given.
func (f *Function) Count(numbers ...[]int) Counts {
	var c Counts
	reciprocals := f.reciprocals()
	started, taken := 0, 0 // divisions of 32 bits by their first instruction, and by their quotient
	one := func(in *Instruction) {
		c.Instructions++
		op := in.op()
		if field := products[op]; field != nil {
			*field(&c)++
		}
		if field := accesses[op]; field != nil {
			field(&c)[width(in)]++
		}
		if field := others[op]; field != nil {
			*field(&c)++
		}
		switch {
		case op == "CALL" && strings.HasPrefix(in.Target, "$"):
			if strings.Contains(in.Target, "_div_u") || strings.Contains(in.Target, "_div_s") || strings.Contains(in.Target, "_rem_") {
				c.Divisions++
			} else {
				c.Calls++
			}
		case (op == "I2F" || op == "UI2F") && in.has("RP"):
			if in.has("U64") || in.has("S64") {
				c.Divisions++
			} else {
				started++
			}
		case in.quotient(reciprocals):
			taken++
		}
	}
	if len(numbers) == 0 {
		for i := range f.Code {
			one(&f.Code[i])
		}
	}
	for _, i := range slices.Concat(numbers...) {
		one(&f.Code[i])
	}
	c.Divisions += max(started, taken)
	return c
}

// A division of 32 bits, or a remainder, is written out by the assembler. It converts the divisor, rounding up
// (I2F.RP), takes the reciprocal (MUFU.RCP) and makes an integer of it, improves that by a high product and a sum
// (IMAD.HI.U32 d, x, e, x), and multiplies (IMAD.HI.U32 q, n, d, RZ); a correction follows. Of a divisor that a
// loop does not change only the last part stays in the loop: half of the instructions, which count as a division too.
func (in *Instruction) quotient(reciprocals map[string]bool) bool {
	if !in.highProduct() {
		return false
	}
	n := len(in.Args)
	return zero(in.Args[n-1]) && (reciprocals[in.Args[n-2]] || reciprocals[in.Args[n-3]])
}

// reciprocals are the registers that ever hold an improved reciprocal, and those that it is copied to.
func (f *Function) reciprocals() map[string]bool {
	found := map[string]bool{}
	for i := range f.Code {
		if in := &f.Code[i]; in.highProduct() && !zero(in.Args[len(in.Args)-1]) && len(in.Args) == 4 {
			found[in.Args[0]] = true
		}
	}
	for changed := len(found) > 0; changed; {
		changed = false
		for i := range f.Code {
			in := &f.Code[i]
			copies := in.op() == "MOV" || in.op() == "UMOV" || in.op() == "R2UR" || strings.HasPrefix(in.Name, "IMAD.MOV")
			if copies && len(in.Args) > 1 && found[in.Args[len(in.Args)-1]] && !found[in.Args[0]] {
				found[in.Args[0]], changed = true, true
			}
		}
	}
	return found
}

// highProduct is the upper half of an unsigned product with a register, plus a number.
func (in *Instruction) highProduct() bool {
	return (in.op() == "IMAD" || in.op() == "UIMAD") && in.has("HI") && in.has("U32") && len(in.Args) >= 4
}

func zero(arg string) bool { return arg == "RZ" || arg == "URZ" }

// width is the index in Widths of an access.
func width(in *Instruction) int {
	switch {
	case in.op() == "LDSM" || in.op() == "STSM": // 8×8 matrices of half precision, of which each is 32 bits a thread
		switch in.Name[strings.LastIndex(in.Name, ".")+1:] {
		case "4":
			return 2
		case "2":
			return 1
		}
		return 0
	case in.has("128") || in.has("256"):
		return 2
	case in.has("64"):
		return 1
	}
	return 0
}
