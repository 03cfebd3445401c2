// Command gather writes an overlay with which go build makes of cmd/gpucheck the one program of
// the bundle: the checker, privgrad without the data that it carries, and the tests that run on a GPU.
// Go links one package's tests into a binary; here the test files become ordinary ones.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/privgrad/privgrad"

// suites are the packages whose tests are gathered, by the name under which the program runs them.
var suites = []struct{ name, dir string }{
	{"kernels.test", "internal/cuda/kernels"}, {"cuda.test", "cuda"}, {"cudrv.test", "internal/cuda/driver/cudrv"},
}

// carriers embed data that no check needs: without these lines their file systems are empty.
var carriers = map[string]string{
	"datasets/mnist/fashion/fashion.go": "//go:embed *-ubyte.gz",
	"features/file.go":                  "//go:embed constants/*.safetensors",
}

func main() {
	out := flag.String("out", "bin/_gathered", "directory for the overlay; the _ hides it from ./...")
	flag.Parse()
	root, err := os.Getwd()
	if err == nil {
		err = gather(root, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gather:", err)
		os.Exit(1)
	}
}

// overlay is what go build reads: files that take the place of others, which need not be there.
type overlay struct {
	root, out string
	Replace   map[string]string
}

// write puts a file where go build will see it as name, a slash-separated path from the root.
func (o *overlay) write(name string, text []byte) error {
	file := filepath.Join(o.out, strings.ReplaceAll(name, "/", "__"))
	o.Replace[filepath.Join(o.root, filepath.FromSlash(name))] = file
	return os.WriteFile(file, text, 0o644)
}

func gather(root, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	o := &overlay{root: root, out: out, Replace: map[string]string{}}
	for name, line := range carriers {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		without := bytes.Replace(text, []byte("\n"+line+"\n"), []byte("\n"), 1)
		if len(without) == len(text) {
			return fmt.Errorf("%s has no line %q", name, line)
		}
		if err := o.write(name, without); err != nil {
			return err
		}
	}
	if err := o.suites(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "overlay.json"), b, 0o644)
}

// suites gathers tests, and has the program list them.
func (o *overlay) suites() error {
	context := build.Default
	context.BuildTags, context.CgoEnabled = []string{"gocuda"}, true
	var imports, list strings.Builder
	for i, s := range suites {
		p, err := context.ImportDir(filepath.Join(o.root, filepath.FromSlash(s.dir)), 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "\t\t%q: {", s.name)
		for j, kind := range []struct {
			dir   string
			files []string
		}{{s.dir, p.TestGoFiles}, {s.dir + "/gathered", p.XTestGoFiles}} {
			if len(kind.files) == 0 {
				continue
			}
			if err := o.tests(s.dir, kind.dir, kind.files); err != nil {
				return err
			}
			fmt.Fprintf(&imports, "\tp%d%d %q\n", i, j, module+"/"+kind.dir)
			fmt.Fprintf(&list, "p%d%d.GatheredTests, ", i, j)
		}
		fmt.Fprintln(&list, "},")
	}
	text, err := format.Source(fmt.Appendf(nil, `package main

import (
	"slices"
	"testing"

%s)

func init() {
	for name, lists := range map[string][][]testing.InternalTest{
%s	} {
		suites[name] = slices.Concat(lists...)
	}
}
`, imports.String(), list.String()))
	if err != nil {
		return err
	}
	return o.write("cmd/gpucheck/gathered.go", text)
}

var test = regexp.MustCompile(`^Test[^a-z]`)

// tests makes ordinary files in dir of test files, and a list of their tests.
func (o *overlay) tests(from, dir string, files []string) error {
	var names []string
	var name string
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(o.root, filepath.FromSlash(from), file))
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = f.Name.Name
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && test.MatchString(d.Name.Name) {
				if d.Name.Name == "TestMain" {
					return fmt.Errorf("%s has a TestMain, which cannot be gathered", file)
				}
				names = append(names, d.Name.Name)
			}
		}
		text = append(fmt.Appendf(nil, "//line %s:1\n", file), text...) // as which a failure names it
		if err := o.write(path.Join(dir, strings.TrimSuffix(file, "_test.go")+"_gathered.go"), text); err != nil {
			return err
		}
	}
	slices.Sort(names)
	var list strings.Builder
	for _, n := range names {
		fmt.Fprintf(&list, "{Name: %q, F: %s},\n", n, n)
	}
	text, err := format.Source(fmt.Appendf(nil, `package %s

import "testing"

// GatheredTests are the tests of this package.
var GatheredTests = []testing.InternalTest{
%s}
`, name, list.String()))
	if err != nil {
		return err
	}
	return o.write(path.Join(dir, "gathered_list.go"), text)
}
