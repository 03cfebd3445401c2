package sass

import "fmt"

// A rule says when a figure got worse. All of them are here.
type rule struct {
	name   string
	kernel bool // it holds for a whole kernel as for a loop
	worse  func(before, now Counts) bool
	show   func(Counts) string
}

// The first three are about loops alone: in a whole kernel every instruction counts once, however often it runs.
// Shares and widths are ratios, so that a loop that is unrolled further is judged by what it is made of.
var rules = []rule{
	{"instructions", false, func(b, n Counts) bool { return n.Instructions > b.Instructions }, columns[0].show},
	{"share of products", false, func(b, n Counts) bool { return n.products()*b.Instructions < b.products()*n.Instructions },
		func(c Counts) string { return fmt.Sprintf("%d of %d instructions", c.products(), c.Instructions) }},
	{"barriers a product of tensor cores", false, func(b, n Counts) bool { return n.Barriers*max(b.HMMA, 1) > b.Barriers*max(n.HMMA, 1) },
		func(c Counts) string { return fmt.Sprintf("%d for %d", c.Barriers, c.HMMA) }},
	narrower("LDG", func(c *Counts) *Widths { return &c.LDG }),
	narrower("LDGSTS", func(c *Counts) *Widths { return &c.LDGSTS }),
	narrower("STG", func(c *Counts) *Widths { return &c.STG }),
	narrower("LDS", func(c *Counts) *Widths { return &c.LDS }),
	narrower("STS", func(c *Counts) *Widths { return &c.STS }),
	more("generic accesses", func(c *Counts) *int { return &c.Generic }),
	more("accesses of local memory", func(c *Counts) *int { return &c.Local }),
	more("integer divisions", func(c *Counts) *int { return &c.Divisions }),
	more("calls of slow paths", func(c *Counts) *int { return &c.Calls }),
}

// narrower: the mean width of accesses of a kind falls.
func narrower(name string, field func(*Counts) *Widths) rule {
	return rule{"width of " + name, true,
		func(b, n Counts) bool {
			before, now := field(&b), field(&n)
			return before.accesses() > 0 && now.accesses() > 0 && now.bits()*before.accesses() < before.bits()*now.accesses()
		},
		func(c Counts) string {
			w := *field(&c)
			return fmt.Sprintf("%d of 32, %d of 64, %d of 128 bits", w[0], w[1], w[2])
		},
	}
}

// more: there are more of what should not be there.
func more(name string, field func(*Counts) *int) rule {
	return rule{name, true,
		func(b, n Counts) bool { return *field(&n) > *field(&b) },
		func(c Counts) string { return fmt.Sprint(*field(&c)) },
	}
}

// Worse lists what is worse now than before, a line each. Kernels are told apart by name and architecture; one that is
// there for the first time is no worse than nothing, and one that is gone neither.
//
// Loops are compared one by one where there are as many as before, else only those with the most products.
func Worse(before, now []Kernel) []string {
	type key struct{ architecture, name string }
	old := map[key]*Kernel{}
	for i := range before {
		old[key{before[i].Architecture, before[i].Name}] = &before[i]
	}
	var found []string
	for i := range now {
		n := &now[i]
		b := old[key{n.Architecture, n.Name}]
		if b == nil {
			continue
		}
		where := n.Architecture + " " + n.Name
		if n.Blocks < b.Blocks {
			found = append(found, fmt.Sprintf("%s: %d blocks fit a multiprocessor, before %d", where, n.Blocks, b.Blocks))
		}
		found = append(found, compare(where, true, b.All, n.All)...)
		if len(b.Loops) == len(n.Loops) {
			for l := range n.Loops {
				found = append(found, compare(fmt.Sprintf("%s, loop %d", where, l+1), false, b.Loops[l], n.Loops[l])...)
			}
		} else if len(b.Loops) > 0 && len(n.Loops) > 0 {
			found = append(found, compare(where+", main loop", false, b.main(), n.main())...)
		}
	}
	return found
}

// main is the loop with the most products, the longest of several.
func (k *Kernel) main() Counts {
	best := k.Loops[0]
	for _, l := range k.Loops[1:] {
		if p, q := l.products(), best.products(); p > q || p == q && l.Instructions > best.Instructions {
			best = l
		}
	}
	return best
}

func compare(where string, kernel bool, before, now Counts) []string {
	var found []string
	for _, r := range rules {
		if (r.kernel || !kernel) && r.worse(before, now) {
			found = append(found, fmt.Sprintf("%s: %s: %s, before %s", where, r.name, r.show(now), r.show(before)))
		}
	}
	return found
}
