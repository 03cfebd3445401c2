// Package sass reads what nvdisasm prints of a module and counts in it what decides a
// kernel's speed: how much of an innermost loop is arithmetic, how wide its accesses
// are, what it divides, spills and waits for. It knows no GPU and runs no tool.
package sass

import (
	"fmt"
	"regexp"
	"strings"
)

// Instruction is one line of a disassembly.
type Instruction struct {
	Guard  string   // the predicate before it, without @; empty if it always runs
	Name   string   // with its modifiers: LDG.E.128
	Args   []string // operands
	Target string   // the label that an operand names, or empty
}

// op is the name without modifiers.
func (in *Instruction) op() string {
	op, _, _ := strings.Cut(in.Name, ".")
	return op
}

// has says whether a modifier is among those of the name.
func (in *Instruction) has(modifier string) bool {
	return strings.Contains(in.Name+".", "."+modifier+".")
}

// Function is the code of one kernel. Subroutines that the assembler puts behind it, for
// slow paths of divisions and roots, are left out; the calls of them are there.
type Function struct {
	Name   string
	Code   []Instruction
	labels map[string]int // of the instruction that follows
}

var (
	instructionLine = regexp.MustCompile(`^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(\S+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);`)
	labelLine       = regexp.MustCompile(`^([.$\w]+):`)
	labelOperand    = regexp.MustCompile(`\x60\(([^)]+)\)`)
)

// Parse reads the output of nvdisasm -c.
func Parse(text string) ([]Function, error) {
	var functions []Function
	var f *Function
	for line := range strings.Lines(text) {
		if m := labelLine.FindStringSubmatch(line); m != nil {
			switch label := m[1]; {
			case strings.HasPrefix(label, ".text."):
				functions = append(functions, Function{Name: strings.TrimPrefix(label, ".text."), labels: map[string]int{}})
				f = &functions[len(functions)-1]
			case strings.HasPrefix(label, "$"): // a subroutine, until the next kernel
				f = nil
			case f != nil:
				f.labels[label] = len(f.Code)
			}
			continue
		}
		m := instructionLine.FindStringSubmatch(line)
		if m == nil || f == nil {
			continue
		}
		in := Instruction{Guard: m[1], Name: m[2]}
		for _, a := range strings.Split(m[3], ",") {
			if a = strings.TrimSpace(a); a != "" {
				in.Args = append(in.Args, strings.TrimSuffix(a, ".reuse"))
			}
		}
		if target := labelOperand.FindStringSubmatch(m[3]); target != nil {
			in.Target = target[1]
		}
		f.Code = append(f.Code, in)
	}
	if len(functions) == 0 {
		return nil, fmt.Errorf("the disassembly has no kernel: it should be the output of nvdisasm -c")
	}
	return functions, nil
}
