package sass

import (
	"fmt"
	"slices"
	"strings"
)

// next gives the instructions that may follow the i-th. A BSYNC waits for what left its
// BSSY, and goes on with the next instruction. A CALL of a label of the kernel itself is
// a jump by another name; that of a subroutine comes back.
func (f *Function) next(i int) ([]int, error) {
	in := &f.Code[i]
	following := []int{i + 1}
	if i+1 == len(f.Code) {
		following = nil
	}
	always := in.Guard == "" || in.Guard == "PT" || in.Guard == "UPT"
	switch in.op() {
	case "EXIT", "RET", "KILL":
		if always {
			return nil, nil
		}
		return following, nil
	case "BRX", "BRXU", "JMX", "JMXU":
		return nil, fmt.Errorf("%s: a jump to a computed address (%s), whose targets are unknown", f.Name, in.Name)
	case "BRA", "UBRA", "JMP", "CALL":
		if strings.HasPrefix(in.Target, "$") {
			return following, nil
		}
		to, ok := f.labels[in.Target]
		if !ok {
			return nil, fmt.Errorf("%s: %s goes to %q, which is no label of it", f.Name, in.Name, in.Target)
		}
		if always && len(in.Args) == 1 { // BRA.U has its predicate as an operand
			return []int{to}, nil
		}
		return append([]int{to}, following...), nil
	}
	return following, nil
}

// block is a run of instructions that is entered at its first and left at its last.
type block struct {
	first, end int
	next, prev []int
}

// blocks cuts the code. Only those that the first one leads to have predecessors.
func (f *Function) blocks() ([]block, error) {
	starts := map[int]bool{0: true}
	follow := make([][]int, len(f.Code))
	for i := range f.Code {
		var err error
		if follow[i], err = f.next(i); err != nil {
			return nil, err
		}
		if len(follow[i]) == 1 && follow[i][0] == i+1 {
			continue
		}
		starts[i+1] = true
		for _, to := range follow[i] {
			starts[to] = true
		}
	}
	var all []block
	at := make([]int, len(f.Code)+1)
	for i := range f.Code {
		if starts[i] {
			all = append(all, block{first: i})
		}
		at[i] = len(all) - 1
		all[len(all)-1].end = i + 1
	}
	for b := range all {
		for _, to := range follow[all[b].end-1] {
			if to < len(f.Code) {
				all[b].next = append(all[b].next, at[to])
			}
		}
	}
	for _, b := range order(all) {
		for _, to := range all[b].next {
			all[to].prev = append(all[to].prev, b)
		}
	}
	return all, nil
}

// order lists the blocks that the first leads to, each before those that it alone leads to.
func order(all []block) []int {
	seen := make([]bool, len(all))
	type visit struct{ block, edge int }
	var path []visit
	var post []int
	enter := func(b int) {
		seen[b] = true
		path = append(path, visit{block: b})
	}
	enter(0)
	for len(path) > 0 {
		v := &path[len(path)-1]
		if v.edge == len(all[v.block].next) {
			post = append(post, v.block)
			path = path[:len(path)-1]
			continue
		}
		to := all[v.block].next[v.edge]
		v.edge++
		if !seen[to] {
			enter(to)
		}
	}
	slices.Reverse(post)
	return post
}

// dominators gives, for every block that is reached, the last block that every way to it passes; −1 for others.
// Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001).
func dominators(all []block) []int {
	reached := order(all)
	place := make([]int, len(all))
	idom := make([]int, len(all))
	for b := range idom {
		idom[b] = -1
	}
	for p, b := range reached {
		place[b] = p
	}
	idom[0] = 0
	for changed := true; changed; {
		changed = false
		for _, b := range reached[1:] {
			common := -1
			for _, p := range all[b].prev {
				switch {
				case idom[p] < 0:
				case common < 0:
					common = p
				default:
					for common != p {
						for place[common] > place[p] {
							common = idom[common]
						}
						for place[p] > place[common] {
							p = idom[p]
						}
					}
				}
			}
			if idom[b] != common {
				idom[b], changed = common, true
			}
		}
	}
	return idom
}

// Loops gives the innermost loops, in the order of their first instructions: of each the
// numbers of its instructions, ascending. A loop is what leads to a back edge, an edge
// to a block that every way to its source passes; those to the same block make one loop.
// Innermost is a loop without the entry of another.
func (f *Function) Loops() ([][]int, error) {
	if len(f.Code) == 0 {
		return nil, nil
	}
	all, err := f.blocks()
	if err != nil {
		return nil, err
	}
	idom := dominators(all)
	dominates := func(a, b int) bool {
		for b != a && b != 0 {
			b = idom[b]
		}
		return b == a
	}
	bodies := map[int]map[int]bool{} // by entry
	for b := range all {
		for _, to := range all[b].next {
			if idom[b] < 0 || !dominates(to, b) {
				continue
			}
			if bodies[to] == nil {
				bodies[to] = map[int]bool{to: true}
			}
			for work := []int{b}; len(work) > 0; {
				x := work[len(work)-1]
				work = work[:len(work)-1]
				if !bodies[to][x] {
					bodies[to][x] = true
					work = append(work, all[x].prev...)
				}
			}
		}
	}
	var loops [][]int
	for entry := range all { // blocks lie in the order of the code
		body := bodies[entry]
		inner := body == nil
		for other := range bodies {
			inner = inner || other != entry && body[other]
		}
		if inner {
			continue
		}
		var code []int
		for b := range all {
			if body[b] {
				for i := all[b].first; i < all[b].end; i++ {
					code = append(code, i)
				}
			}
		}
		loops = append(loops, code)
	}
	return loops, nil
}
