package sass

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Kernel is what is known of one kernel on one architecture.
type Kernel struct {
	Architecture, Name string
	Needs
	Blocks int      // that fit a multiprocessor
	All    Counts   // of the whole kernel
	Loops  []Counts // of its innermost loops, in the order of the code
}

// A column of the table: what a line of counts has there, and how it is read again.
type column struct {
	name string
	show func(Counts) string
	read func(*Counts, string) error // nil where it follows from others
}

func number(name string, field func(*Counts) *int) column {
	return column{name,
		func(c Counts) string { return strconv.Itoa(*field(&c)) },
		func(c *Counts, s string) (err error) { *field(c), err = strconv.Atoi(s); return err },
	}
}

func widths(name string, field func(*Counts) *Widths) column {
	return column{name,
		func(c Counts) string {
			w := *field(&c)
			if w.accesses() == 0 {
				return "0"
			}
			return fmt.Sprintf("%d/%d/%d", w[0], w[1], w[2])
		},
		func(c *Counts, s string) error {
			w := field(c)
			if s == "0" {
				return nil
			}
			_, err := fmt.Sscanf(s, "%d/%d/%d", &w[0], &w[1], &w[2])
			return err
		},
	}
}

var columns = []column{
	number("instructions", func(c *Counts) *int { return &c.Instructions }),
	number("ffma", func(c *Counts) *int { return &c.FFMA }),
	number("dfma", func(c *Counts) *int { return &c.DFMA }),
	number("hmma", func(c *Counts) *int { return &c.HMMA }),
	{name: "share %", show: func(c Counts) string {
		return strconv.FormatFloat(100*float64(c.products())/float64(max(c.Instructions, 1)), 'f', 1, 64)
	}},
	widths("ldg", func(c *Counts) *Widths { return &c.LDG }),
	widths("ldgsts", func(c *Counts) *Widths { return &c.LDGSTS }),
	widths("stg", func(c *Counts) *Widths { return &c.STG }),
	widths("lds", func(c *Counts) *Widths { return &c.LDS }),
	widths("sts", func(c *Counts) *Widths { return &c.STS }),
	number("generic", func(c *Counts) *int { return &c.Generic }),
	number("local", func(c *Counts) *int { return &c.Local }),
	number("divisions", func(c *Counts) *int { return &c.Divisions }),
	number("calls", func(c *Counts) *int { return &c.Calls }),
	number("barriers", func(c *Counts) *int { return &c.Barriers }),
}

// needs are the columns of a whole kernel.
var needs = []struct {
	name  string
	field func(*Kernel) *int
}{
	{"threads", func(k *Kernel) *int { return &k.Threads }},
	{"registers", func(k *Kernel) *int { return &k.Registers }},
	{"static", func(k *Kernel) *int { return &k.Static }},
	{"dynamic", func(k *Kernel) *int { return &k.Dynamic }},
	{"blocks", func(k *Kernel) *int { return &k.Blocks }},
}

// header is the first line of a table.
func header() []string {
	line := []string{"kernel", "architecture", "loop"}
	for _, c := range columns {
		line = append(line, c.name)
	}
	for _, n := range needs {
		line = append(line, n.name)
	}
	return line
}

// Write writes the table of a module: for every kernel a line with loop "all", and one for each innermost loop, from 1 on.
func Write(w io.Writer, kernels []Kernel) error {
	lines := [][]string{header()}
	for i := range kernels {
		k := &kernels[i]
		for n, c := range append([]Counts{k.All}, k.Loops...) {
			loop := strconv.Itoa(n)
			if n == 0 {
				loop = "all"
			}
			line := []string{k.Name, k.Architecture, loop}
			for _, col := range columns {
				line = append(line, col.show(c))
			}
			for _, need := range needs {
				figure := ""
				if n == 0 {
					figure = strconv.Itoa(*need.field(k))
				}
				line = append(line, figure)
			}
			lines = append(lines, line)
		}
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// Read reads what Write wrote.
func Read(r io.Reader) ([]Kernel, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 || strings.Join(lines[0], ",") != strings.Join(header(), ",") {
		return nil, errors.New("the table has other columns than are counted now: run make sass")
	}
	var kernels []Kernel
	for n, line := range lines[1:] {
		if err := readLine(&kernels, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+2, err)
		}
	}
	return kernels, nil
}

func readLine(kernels *[]Kernel, line []string) error {
	var c Counts
	for i, col := range columns {
		if col.read == nil {
			continue
		}
		if err := col.read(&c, line[3+i]); err != nil {
			return fmt.Errorf("column %s: %w", col.name, err)
		}
	}
	if line[2] == "all" {
		k := Kernel{Name: line[0], Architecture: line[1], All: c}
		for i, need := range needs {
			n, err := strconv.Atoi(line[3+len(columns)+i])
			if err != nil {
				return fmt.Errorf("column %s: %w", need.name, err)
			}
			*need.field(&k) = n
		}
		*kernels = append(*kernels, k)
		return nil
	}
	if len(*kernels) == 0 {
		return errors.New("a loop before the line of its kernel")
	}
	last := &(*kernels)[len(*kernels)-1]
	last.Loops = append(last.Loops, c)
	return nil
}
