package file

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What is made of a file is paid for before, but for the bytes of names, and numbers that are asked for take at most 8 times the file.
// The files are of pieces that take much more memory than bytes.
func TestMemory(t *testing.T) {
	relu := nodeOf("Relu", "x", "y")
	repeat := func(p part, n int) message { return bytes.Repeat(parts(p), n) }
	graph := func(b message) []byte {
		g := append(b, parts(relu, part{graphInputs, parts(part{1, "x"})}, part{graphOutputs, parts(part{1, "y"})})...)
		return parts(part{modelGraph, g}, part{modelOpsets, parts(part{2, 17})})
	}
	node := func(b message) []byte {
		return graph(parts(part{graphNodes, append(b, parts(part{nodeKind, "Relu"})...)}))
	}
	attribute := func(kind AttributeType, b message) []byte {
		return node(parts(part{nodeAttributes, append(b, parts(part{attributeName, "a"}, part{attributeType, int(kind)})...)}))
	}
	numbered := func(n int, p func(i int) part) (b message) {
		for i := range n {
			b = append(b, parts(p(i))...)
		}
		return b
	}
	for name, b := range map[string][]byte{
		"nodes":         graph(repeat(part{graphNodes, parts(part{nodeKind, "R"})}, 1<<16)),
		"some nodes":    graph(repeat(part{graphNodes, parts(part{nodeKind, "R"})}, 1<<14)),
		"inputs":        node(repeat(part{nodeInputs, ""}, 1<<17)),
		"outputs":       node(numbered(1<<15, func(i int) part { return part{nodeOutputs, fmt.Sprint(i)} })),
		"attributes":    node(numbered(1<<13, func(i int) part { return attributeOf(fmt.Sprint(i), IsInt) })),
		"one attribute": graph(repeat(nodeOf("R", "x", "", attributeOf("a", IsInt)), 1<<12)),
		"graphs":        graph(numbered(1<<12, func(i int) part { return nodeOf("R", "x", "", attributeOf(fmt.Sprint(i), oneGraph)) })),
		"ints":          attribute(IsInts, parts(part{attributeInts, bytesOf(1<<16, 1)})),
		"many ints":     attribute(IsInts, parts(part{attributeInts, bytesOf(8*1<<16, 1)})),
		"floats":        attribute(IsFloats, parts(part{attributeFloats, bytesOf(4*1<<16, 1)})),
		"texts":         attribute(IsTexts, repeat(part{attributeTexts, ""}, 1<<17)),
		"values":        graph(numbered(1<<13, func(i int) part { return part{graphInputs, parts(part{1, fmt.Sprint(i)})} })),
		"axes": graph(numbered(1<<10, func(i int) part {
			return part{graphInputs, parts(part{1, fmt.Sprint(i)}, part{2, parts(part{1, parts(part{2, bytesOf(64, 0x0a, 0)})})})}
		})),
		"constants": graph(numbered(1<<13, func(i int) part {
			return constantOf(part{tensorType, int(Int8)}, part{tensorName, fmt.Sprint(i)}, part{tensorRaw, "1"})
		})),
		"shapes": graph(numbered(1<<12, func(i int) part {
			return constantOf(part{tensorDims, strings.Repeat("\x01", 32)}, part{tensorType, int(Int8)}, part{tensorName, fmt.Sprint(i)}, part{tensorRaw, "1"})
		})),
		"bytes": graph(numbered(3, func(i int) part {
			return constantOf(part{tensorDims, mostInts}, part{tensorType, int(Int8)}, part{tensorName, fmt.Sprint(i)}, part{tensorRaw, bytesOf(mostInts, 1)})
		})),
		"listed":      graph(parts(constantOf(part{tensorDims, 1 << 20}, part{tensorType, int(Float16)}, part{tensorName, "a"}, part{5, bytesOf(1<<20, 1)}))),
		"opsets":      append(graph(nil), numbered(1<<15, func(i int) part { return part{modelOpsets, parts(part{1, fmt.Sprint(i)})} })...),
		"functions":   append(graph(nil), numbered(1<<14, func(i int) part { return part{modelFunctions, parts(part{1, fmt.Sprint(i)})} })...),
		"long chains": graph(numbered(1<<13, func(i int) part { return nodeOf("R", fmt.Sprint(i+1), fmt.Sprint(i)) })),
	} {
		d := &decoder{budget: budget{mostMade}, sizes: map[string]*room{}, functions: map[[2]string]bool{}}
		before := allocated()
		m, err := d.model(b)
		took, paid := allocated()-before, mostMade-d.left
		// The runtime counts small pieces late, by what it keeps ready for each size: less than 1 MiB of these.
		if most := uint64(paid + len(b) + 1<<20); took > most {
			t.Errorf("%s: %d bytes took %d, and paid for %d", name, len(b), took, paid)
		}
		t.Logf("%-13s %5d kiB of a file of %5d, paid for %5d: %v", name, took>>10, len(b)>>10, paid>>10, err)
		if err != nil {
			continue
		}
		before = allocated()
		for _, c := range m.Graph.Constants {
			filled(t, c)
		}
		if took := allocated() - before; took > uint64(8*len(b)+1<<20) {
			t.Errorf("%s: numbers of %d bytes took %d", name, len(b), took)
		}
	}
	b := graph(repeat(part{graphNodes, parts(part{nodeKind, "R"})}, 1<<20))
	before := allocated()
	if _, err := Decode(b, ""); !errors.Is(err, errTooMuch) {
		t.Errorf("a million nodes: %v", err)
	}
	if took := allocated() - before; took > 1<<20 {
		t.Errorf("a million nodes took %d bytes before they were refused", took)
	}
}
