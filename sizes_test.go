package privgrad_test

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// What one can read at once: lines of a package without tests, and lines and
// branches of a function.
const (
	packageLines     = 2000
	trainLines       = 1500 // of package train, which is one loop
	functionLines    = 80
	functionBranches = 20
	largeFunctions   = 8 // exceptions among functions, at most
)

// What is larger, and why. CONTRIBUTING.md shows these rows.
var (
	largePackages = map[string]string{
		"internal/device/devicetest": "each claim of the device contract is one test, and there are many claims",
		"accountant/internal/pld":    "one method: grids, composition and its certified ends share bounds on rounding that only hold together",
		"accountant":                 "each mechanism and each accountant is one file; they share an interface that only they use",
		"cuda":                       "one device: types that nothing else sees keep memory, order of work and recorded graphs in step",
		"internal/cuda/kernels":      "one kernel is one source and one function that says how it is launched; they share names for buffers and batches that nothing else uses",
		"internal/cpu":               "one device: its ops share scratch memory and the way rows are cut, which nothing else sees",
		"internal/ptx":               "one machine: what an instruction is, how it is read and what it does change together",
		"internal/onnx/lower":        "one table of what each kind of node means; its rows share values, forms and refusals that nothing else sees",
	}
	// A function is a name behind its folder, and behind its receiver if it has one.
	largeFunctionsOf = map[string]string{}
)

func TestSizes(t *testing.T) {
	lines := map[string]int{}
	used := map[string]bool{}
	for _, s := range sources(t) {
		// A generator's functions are as long as what they write, and nobody reads that.
		if s.test() || s.dir == "internal/cpu/gen" || ast.IsGenerated(s.file) {
			continue
		}
		lines[s.dir] += s.fset.File(s.file.Pos()).LineCount()
		for _, f := range s.functions() {
			length, branches := s.lines(f.node), branches(f.node)
			if length <= functionLines && branches <= functionBranches || f.flags {
				continue
			}
			name := s.dir + "." + f.name
			used[name] = true
			if largeFunctionsOf[name] == "" {
				t.Errorf("%s: %s has %d lines and %d branches; the most are %d and %d", s.fset.Position(f.node.Pos()), name, length, branches, functionLines, functionBranches)
			}
		}
	}
	for dir, n := range lines {
		most := packageLines
		if dir == "train" {
			most = trainLines
		}
		used[dir] = n > most
		if used[dir] && largePackages[dir] == "" {
			t.Errorf("package %s has %d lines without tests; the most are %d", dir, n, most)
		}
	}

	if n := len(largeFunctionsOf); n > largeFunctions {
		t.Errorf("%d functions are larger than the rest; the most are %d", n, largeFunctions)
	}
	_, section, _ := strings.Cut(text(t, "CONTRIBUTING.md"), "\n## Sizes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	shown := strings.Count(section, "\n| `")
	for _, table := range []map[string]string{largePackages, largeFunctionsOf} {
		for name, why := range table {
			shown--
			if !used[name] {
				t.Errorf("%s needs no exception any more: take it out of the table", name)
			}
			if row := "| `" + name + "` | " + why + " |"; !strings.Contains(section, row) {
				t.Errorf("CONTRIBUTING.md does not have this row under Sizes:\n%s", row)
			}
		}
	}
	if shown != 0 {
		t.Errorf("CONTRIBUTING.md has %+d rows under Sizes beside those of the table", shown)
	}
}

// A function is a declared one, or one written out in a table of a package.
type function struct {
	name  string
	node  ast.Node
	flags bool // it makes a command of help texts and flags, which is a list however long
}

func (s source) functions() []function {
	var all []function
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			all = append(all, function{receiver(d) + d.Name.Name, d, under(s.dir, "cmd") && makesCommand(d)})
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				ast.Inspect(v, func(n ast.Node) bool {
					f, ok := n.(*ast.FuncLit)
					if ok {
						all = append(all, function{name: v.Names[0].Name, node: f})
					}
					return !ok
				})
			}
		}
	}
	return all
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name + "."
		}
		return true
	})
	return name
}

func makesCommand(d *ast.FuncDecl) bool {
	if d.Type.Results == nil || len(d.Type.Results.List) != 1 {
		return false
	}
	pointer, ok := d.Type.Results.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	command, ok := pointer.X.(*ast.SelectorExpr)
	return ok && command.Sel.Name == "Command"
}

func (s source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// branches counts ways through a function, McCabe's measure.
func branches(f ast.Node) int {
	count := 1
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.CommClause:
			count++
		case *ast.CaseClause:
			if n.List != nil {
				count++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}
