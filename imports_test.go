package privgrad_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/privgrad/privgrad"

// allowed is the direction of imports: what each package may import of this
// module, outside its tests. What may depend on the private data's devices
// and what may add noise follow from it, so that a new edge is a decision.
// Packages under cmd may import all and be imported by none but each other; only they import
// those under internal/cli.
var allowed = map[string][]string{
	".": nil,

	"internal/fault":         nil,
	"internal/half":          nil,
	"internal/pages":         nil,
	"internal/ir":            nil,
	"internal/stream":        nil,
	"internal/usage":         nil,
	"internal/work":          {"internal/fault"},
	"internal/written":       nil,
	"internal/yamlfile":      {"internal/usage", "internal/written"},
	"internal/durable":       {"internal/usage", "internal/written"},
	"internal/onnx":          nil,
	"internal/onnx/export":   {"internal/device/reference", "internal/ir", "internal/onnx", "internal/usage"},
	"internal/onnx/file":     {"internal/half"},
	"internal/onnx/fold":     {"internal/onnx/file", "internal/onnx/strides"},
	"internal/onnx/lower":    {"internal/ir", "internal/onnx/file", "internal/onnx/fold", "internal/onnx/strides", "internal/usage", "nn"},
	"internal/onnx/onnxtest": {"internal/half"}, // none but tests import it
	"internal/onnx/runtime":  {"internal/usage"},
	"internal/onnx/strides":  nil,
	"internal/safetensors":   {"internal/half"},
	"internal/ptx":           {"internal/half"},
	"internal/sass":          nil,
	"internal/exact":         {"internal/stream"},

	"internal/device":            {"internal/exact", "internal/ir", "internal/stream", "internal/usage"},
	"internal/device/record":     {"internal/device", "internal/exact", "internal/ir", "internal/stream"},
	"internal/device/host":       {"internal/device", "internal/device/record", "internal/exact", "internal/half", "internal/ir", "internal/pages"},
	"internal/device/reference":  {"internal/device", "internal/device/host", "internal/device/record", "internal/fault", "internal/half", "internal/ir"},
	"internal/device/devicetest": {"internal/device", "internal/device/reference", "internal/exact", "internal/half", "internal/ir", "internal/stream", "perexample"},

	"internal/collective":                {"internal/usage"},
	"internal/collective/collectivetest": {"internal/collective"}, // none but tests import it
	"internal/collective/launch":         {"internal/collective", "internal/collective/mpi", "internal/collective/nccl", "internal/cuda/driver/cudrv", "internal/usage", "internal/written"},
	"internal/collective/local":          {"internal/collective"},
	"internal/collective/mpi":            {"internal/collective"},
	"internal/collective/nccl":           {"internal/collective", "internal/cuda/driver", "internal/fault"},
	"internal/collective/sums":           {"internal/collective", "internal/device", "internal/ir"},
	"internal/collective/team":           {"datasets", "internal/collective", "internal/usage"},

	"internal/cpu":           {"internal/cpu/gemm", "internal/cpu/squares", "internal/cpu/vec", "internal/device", "internal/device/host", "internal/device/record", "internal/fault", "internal/ir", "internal/pages"},
	"internal/cpu/gemm":      {"internal/cpu/squares", "internal/cpu/vec", "internal/pages"},
	"internal/cpu/squares":   nil,
	"internal/cpu/peak":      nil,
	"internal/cpu/vec":       {"internal/half"},
	"internal/cpu/vec/guard": nil,

	"cuda":                                 {"internal/cuda/driver", "internal/cuda/kernels", "internal/device", "internal/device/record", "internal/exact", "internal/fault", "internal/ir", "internal/stream"},
	"internal/cuda/driver":                 nil,
	"internal/cuda/driver/cudrv":           {"internal/cuda/driver"},
	"internal/cuda/driver/cudrv/cudrvtest": {"internal/cuda/driver", "internal/cuda/driver/cudrv", "internal/cuda/driver/fake"},
	"internal/cuda/driver/drivertest":      {"internal/cuda/driver"},
	"internal/cuda/driver/fake":            {"internal/cuda/driver", "internal/ptx"},
	"internal/cuda/model":                  {"internal/cuda/driver", "internal/cuda/driver/fake", "internal/cuda/kernels", "internal/device", "internal/ptx", "internal/sass"},
	"internal/cuda/gputest":                {"internal/cuda/driver", "internal/cuda/driver/cudrv", "internal/ptx"},
	"internal/cuda/kernels":                {"internal/device", "internal/ir"},

	"nn":                {"internal/ir", "internal/usage", "nn/internal/graph"},
	"nn/internal/graph": nil,
	"perexample":        {"internal/ir", "internal/usage"},

	"features": {
		"internal/cpu/gemm", "internal/cpu/vec", "internal/deskew", "internal/encoder", "internal/fault", "internal/fixed", "internal/half", "internal/ir", "internal/patches",
		"internal/safetensors", "internal/synthetic", "internal/usage", "internal/wavelets", "internal/whiten", "internal/work",
	},
	"internal/fixed":     {"internal/ir"},
	"internal/synthetic": nil,

	"accountant":              {"accountant/internal/pld", "accountant/internal/prv", "internal/btls", "internal/papers", "internal/usage", "internal/written"},
	"accountant/internal/pld": nil,
	"accountant/internal/prv": nil,
	"accountant/ledger":       {"internal/durable"},
	"internal/btls":           nil,
	"internal/papers":         nil,

	"dpoptim/mechanism":   {"accountant", "internal/device", "internal/exact", "internal/stream"},
	"dpoptim/batches":     {"accountant", "internal/stream", "internal/usage"},
	"internal/linesearch": nil,
	"internal/convex":     {"internal/device", "internal/device/host", "internal/ir"},
	"dpoptim":             {"accountant", "dpoptim/batches", "dpoptim/mechanism", "internal/convex", "internal/device", "internal/linesearch", "internal/setting", "internal/usage", "perexample"},

	// What every method of training may import is in methodImports; these are what some import besides.
	"dpoptim/sgd":     {"internal/device"},
	"dpoptim/bassily": {"internal/papers"},
	"dpoptim/pur":     {"internal/papers"},
	"dpoptim/rrpsgd":  {"internal/papers"},
	"dpoptim/blsgd":   {"internal/btls", "internal/device", "internal/linesearch"},
	"dpoptim/l2p":     {"internal/device", "internal/durable", "internal/safetensors", "internal/written"},
	"dpoptim/outpert": {"internal/convex", "internal/papers"},
	"dpoptim/local":   {"dpoptim/banco"},
	"internal/meta":   {"accountant", "dpoptim/l2p", "internal/device", "internal/durable", "internal/fault"},
	"dpoptim/objpert": {"dpoptim/mechanism", "internal/convex", "internal/papers"},
	"dpoptim/banco":   nil, // its server learns from reports alone: records are out of its reach

	"dpoptim/banco/client": {"accountant", "dpoptim/banco", "dpoptim/mechanism", "internal/stream"},

	"datasets":               {"internal/durable", "internal/fault", "internal/pages", "internal/stream", "internal/written"},
	"datasets/mnist/fashion": {"datasets", "datasets/mnist"}, // 31 MB: none but commands and tests import it
	"datasets/tabular":       {"datasets", "internal/usage", "internal/written", "internal/yamlfile"},

	"internal/views":   {"internal/stream"},
	"internal/engine":  {"accountant", "dpoptim", "dpoptim/batches", "dpoptim/mechanism", "internal/convex", "internal/device", "internal/ir", "internal/stream", "internal/usage", "internal/views", "perexample"},
	"internal/devices": {"cuda", "internal/cpu", "internal/cuda/driver/cudrv", "internal/device", "internal/device/reference", "internal/usage", "internal/written"},
	"internal/price":   {"accountant", "dpoptim", "dpoptim/batches", "dpoptim/mechanism", "internal/engine", "internal/setting", "internal/usage", "perexample"},
	"internal/recipes": nil,
	"internal/tables":  {"datasets", "features", "internal/device", "internal/device/host", "internal/half", "internal/ir", "internal/pages"},
	"internal/canary":  {"internal/device", "internal/device/reference", "internal/half", "internal/ir", "internal/stream"},
	"internal/config": {
		"accountant", "datasets", "datasets/tabular", "dpoptim", "dpoptim/batches", "features", "internal/device", "internal/devices", "internal/recipes",
		"internal/ir", "internal/rundir", "internal/setting", "internal/usage", "internal/written", "internal/yamlfile", "nn", "perexample",
	},
	"internal/imported": {
		"features", "internal/config", "internal/cpu", "internal/ir", "internal/onnx/file", "internal/onnx/lower", "internal/onnx/runtime", "internal/rundir", "internal/usage", "nn",
	},
	"internal/source":   {"datasets", "datasets/tabular", "internal/config", "internal/stream", "internal/usage", "internal/written"},
	"internal/setting":  {"internal/usage", "internal/yamlfile"},
	"internal/deskew":   {"internal/ir"},
	"internal/whiten":   nil,
	"internal/encoder":  {"internal/cpu/gemm", "internal/cpu/vec", "internal/fixed", "internal/ir", "internal/patches"},
	"internal/patches":  {"internal/cpu/gemm", "internal/cpu/vec", "internal/fixed", "internal/ir", "internal/synthetic", "internal/whiten"},
	"internal/wavelets": {"internal/cpu/gemm", "internal/ir"},
	"internal/fits":     {"accountant", "datasets", "dpoptim", "dpoptim/batches", "internal/canary", "internal/config", "internal/ir", "internal/usage", "perexample"},
	"internal/plan": {
		"accountant", "datasets", "datasets/tabular", "dpoptim", "dpoptim/batches", "dpoptim/sgd", "features", "internal/canary", "internal/config", "internal/fits", "internal/convex", "internal/device",
		"internal/devices", "internal/engine", "internal/imported", "internal/ir", "internal/price", "internal/recipes", "internal/rundir", "internal/setting", "internal/source",
		"internal/stream", "internal/tables", "internal/usage", "internal/views", "nn", "perexample",
	},
	"internal/dryrun": {
		"accountant", "datasets", "dpoptim", "internal/budget", "internal/config", "internal/device", "internal/devices", "internal/engine", "internal/fault", "internal/ir", "internal/plan",
		"internal/source", "internal/stream", "internal/tables",
	},
	"internal/outputs":        {"datasets", "internal/device", "internal/device/host", "internal/device/reference", "internal/fault", "internal/ir", "internal/tables"},
	"internal/rundir":         {"features", "internal/durable", "internal/ir", "internal/safetensors", "internal/usage", "internal/written"},
	"internal/budget":         {"accountant", "accountant/ledger", "internal/durable", "internal/papers", "internal/plan", "internal/rundir", "internal/usage", "internal/written"},
	"internal/charge":         {"accountant", "accountant/ledger", "dpoptim", "dpoptim/batches", "internal/engine", "internal/usage"},
	"internal/scoring":        {"datasets", "internal/device", "internal/engine", "internal/ir", "internal/outputs", "internal/tables"},
	"internal/slice":          {"accountant/ledger", "dpoptim", "internal/charge", "internal/config", "internal/durable", "internal/plan", "internal/rundir", "internal/usage", "internal/written"},
	"internal/snapshot":       {"dpoptim", "internal/engine", "internal/rundir", "internal/usage"},
	"internal/canary/hearing": {"dpoptim", "internal/canary", "internal/device", "internal/engine", "internal/plan", "internal/rundir", "internal/snapshot", "internal/stream", "internal/tables", "internal/usage"},
	"internal/tuned":          {"accountant", "internal/plan", "internal/price", "internal/rundir", "internal/usage"},
	"internal/tune": {
		"accountant", "accountant/ledger", "dpoptim", "internal/budget", "internal/config", "internal/durable", "internal/fault", "internal/plan", "internal/price", "internal/rundir",
		"internal/setting", "internal/source", "internal/tuned", "internal/usage", "train",
	},
	"train": {
		"accountant", "accountant/ledger", "datasets", "dpoptim", "dpoptim/batches", "dpoptim/blsgd", "features", "internal/budget", "internal/canary/hearing", "internal/charge", "internal/collective",
		"internal/collective/sums", "internal/collective/team", "internal/config", "internal/device", "internal/devices", "internal/durable", "internal/engine",
		"internal/fault", "internal/imported", "internal/outputs", "internal/plan", "internal/price", "internal/rundir", "internal/scoring", "internal/slice", "internal/snapshot", "internal/source",
		"internal/stream", "internal/tables", "internal/tuned", "internal/usage", "nn",
	},

	"internal/tfevents": nil,
	"report": {
		"accountant", "accountant/ledger", "dpoptim/batches", "internal/budget", "internal/config", "internal/durable", "internal/plan", "internal/price", "internal/rundir",
		"internal/source", "internal/tfevents", "internal/tuned", "internal/usage", "train",
	},

	"report/statement": {
		"accountant", "accountant/ledger", "dpoptim/batches", "internal/budget", "internal/config", "internal/plan", "internal/rundir", "internal/usage", "perexample", "train",
	},

	"trained": {
		"accountant", "accountant/ledger", "datasets", "datasets/folder", "datasets/numpy", "features", "internal/config", "internal/device", "internal/device/host", "internal/device/reference",
		"internal/devices", "internal/engine", "internal/imported", "internal/ir", "internal/onnx", "internal/onnx/export", "internal/onnx/file", "internal/outputs", "internal/plan", "internal/rundir", "internal/safetensors",
		"internal/source", "internal/tables", "internal/usage", "nn", "perexample",
	},

	"audit": {
		"accountant", "datasets", "dpoptim", "dpoptim/batches", "dpoptim/blsgd", "dpoptim/local", "internal/audit/hear", "internal/audit/learn", "internal/audit/oracle", "internal/audit/play",
		"internal/audit/reach", "internal/audit/verdict", "internal/config", "internal/device", "internal/devices", "internal/engine", "internal/ir", "internal/plan",
		"internal/source", "internal/stream", "internal/tables", "internal/usage", "nn", "perexample",
	},
	"internal/audit/audittest": {
		"dpoptim/mechanism", "internal/audit/reach", "internal/device", "internal/devices", "internal/engine", "internal/ir", "internal/plan", "internal/safetensors",
		"internal/stream", "internal/tables", "train",
	}, // none but tests import it
	"internal/audit/hear":    {"accountant", "dpoptim", "internal/convex", "internal/device", "internal/plan"},
	"internal/audit/learn":   {"internal/audit/hear", "internal/usage"},
	"internal/audit/oracle":  {"dpoptim/mechanism", "internal/device", "internal/device/reference", "internal/ir", "internal/plan", "internal/stream", "perexample"},
	"internal/audit/play":    nil,
	"internal/audit/reach":   {"internal/device", "internal/ir"},
	"internal/audit/onerun":  {"accountant", "internal/canary", "internal/config", "internal/plan", "internal/rundir", "internal/usage"},
	"internal/audit/verdict": {"accountant", "internal/usage"},
	"internal/timing":        {"internal/usage"},
	"bench": {
		"accountant", "cuda", "datasets", "dpoptim", "dpoptim/batches", "dpoptim/blsgd", "dpoptim/l2p", "dpoptim/sgd", "internal/cpu/gemm", "internal/cpu/peak",
		"internal/device", "internal/devices", "internal/engine", "internal/exact", "internal/half", "internal/ir", "internal/pages", "internal/plan",
		"internal/stream", "internal/tables", "internal/timing", "internal/usage", "internal/views", "nn", "perexample",
	},
	"bench/compare": {"bench", "internal/device", "internal/plan", "internal/timing", "internal/usage", "nn"},
	"bench/scale": {
		"bench", "datasets", "datasets/shards", "dpoptim", "dpoptim/batches", "internal/config", "internal/device", "internal/devices", "internal/engine",
		"internal/ir", "internal/pages", "internal/plan", "internal/source", "internal/tables", "internal/timing", "internal/usage", "nn",
	},

	// What every paper may import is in families; these are what some import besides.
	"internal/reproduce":               {"accountant", "datasets", "dpoptim/l2p", "internal/config", "internal/durable", "internal/source", "internal/usage", "internal/written", "nn", "train"},
	"internal/reproduce/banco":         {"dpoptim/banco", "dpoptim/banco/client", "internal/config", "internal/source"},
	"internal/reproduce/blsgd":         {"datasets/tabular", "dpoptim/objpert", "dpoptim/outpert", "internal/config", "internal/source"},
	"internal/reproduce/l2p":           {"datasets/tabular", "dpoptim/l2p", "internal/linesearch", "internal/meta", "internal/reproduce/l2p/memory"},
	"internal/reproduce/l2p/memory":    {"accountant", "datasets", "dpoptim/l2p", "internal/meta", "internal/reproduce"},
	"internal/reproduce/erm":           {"datasets/tabular", "internal/config", "internal/papers", "internal/source", "nn"},
	"internal/reproduce/pur":           {"datasets/tabular", "features", "internal/half", "internal/papers", "nn"},
	"internal/reproduce/papers":        {"internal/reproduce", "internal/usage"},
	"internal/reproduce/reproducetest": {"datasets", "internal/config", "internal/reproduce", "train"}, // none but tests import it

	"internal/cli": {"accountant", "accountant/ledger", "internal/config", "internal/durable", "internal/fault", "internal/plan", "internal/usage", "internal/written", "train"},
	"internal/cli/bench": {
		"bench", "bench/compare", "bench/scale", "datasets", "internal/cli", "internal/cli/data", "internal/cli/machine", "internal/devices", "internal/durable",
		"internal/usage", "internal/written", "perexample",
	},
	"internal/cli/data": {
		"datasets", "datasets/mnist", "datasets/mnist/fashion", "datasets/shards", "datasets/tabular", "internal/cli", "internal/config", "internal/durable",
		"internal/source", "internal/usage", "internal/written", "train",
	},
	"internal/cli/handout": {"internal/cli", "internal/durable", "internal/usage", "internal/written", "report/statement"},
	"internal/cli/l2p": {
		"accountant", "datasets", "datasets/tabular", "dpoptim/l2p", "internal/cli", "internal/cli/data", "internal/config", "internal/durable", "internal/meta",
		"internal/reproduce", "internal/usage", "internal/written",
	},
	"internal/cli/machine": {"internal/cpu/gemm"},
	"internal/cli/model":   {"internal/config", "internal/imported", "internal/ir", "internal/onnx/lower", "internal/cli", "internal/cli/data", "internal/durable", "internal/usage", "trained"},
	"internal/cli/budget":  {"accountant", "internal/budget", "internal/cli", "internal/cli/data", "internal/config", "internal/durable", "internal/plan", "internal/rundir", "internal/usage", "internal/written", "train"},
	"internal/cli/audited": {"audit", "internal/audit/onerun", "internal/cli", "internal/usage"},
	"internal/cli/tune":    {"internal/budget", "internal/cli", "internal/cli/data", "internal/tune", "internal/usage", "internal/written", "report", "train"},
	"internal/cli/slice":   {"internal/cli", "internal/slice", "internal/usage"},
	"internal/cli/price":   {"accountant", "dpoptim/banco", "dpoptim/batches", "internal/cli", "internal/papers", "internal/usage"},
}

// methodImports are what a method of training, a folder of dpoptim, may import.
var methodImports = []string{"accountant", "dpoptim", "dpoptim/batches", "dpoptim/sgd", "internal/setting", "internal/usage", "perexample"}

// A family is packages of one kind, each a folder of one parent, which one package lists.
type family struct {
	registry string
	imports  []string // what each of them may import
	others   []string // folders of the parent that are no such package
}

var families = map[string]family{
	"dpoptim/":            {"internal/config", methodImports, []string{"banco", "batches", "mechanism"}},
	"datasets/":           {"internal/source", []string{"datasets", "internal/fault"}, []string{"tabular"}},
	"internal/reproduce/": {"internal/reproduce/papers", []string{"accountant", "datasets", "internal/reproduce", "train"}, []string{"papers", "reproducetest"}},
}

// familyOf gives the family of a package, which then needs no row in the table; nil if it has none.
func familyOf(dir string) *family {
	parent, folder := path.Split(dir)
	if f, ok := families[parent]; ok && !slices.Contains(f.others, folder) {
		return &f
	}
	return nil
}

// A source is one Go file of the repository, whatever build tags it has.
type source struct {
	path    string // slash-separated, from the root
	dir     string
	imports map[string]string // local name to path
	file    *ast.File
	fset    *token.FileSet
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources are all Go files, parsed once.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("found %d Go files; the walk misses most of the repository", len(all))
	}
	return all
}

// parsed parses every Go file rather than asking go list, which sees one
// platform's files at a time.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if base := path.Base(name); d.IsDir() && name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		s := source{path: name, dir: path.Dir(name), imports: map[string]string{}, fset: token.NewFileSet()}
		if s.file, err = parser.ParseFile(s.fset, name, nil, parser.SkipObjectResolution|parser.ParseComments); err != nil {
			return err
		}
		for _, i := range s.file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			local := path.Base(p)
			if i.Name != nil {
				local = i.Name.Name
			}
			s.imports[local] = p
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

func under(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

func TestImportsRunOneWay(t *testing.T) {
	exists, used := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		exists[s.dir] = true
		for _, p := range s.imports {
			if p != module && !strings.HasPrefix(p, module+"/") {
				continue
			}
			to := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if to == "" {
				to = "."
			}
			used[s.dir+" "+to] = true
			if f := familyOf(s.dir); f != nil && slices.Contains(f.imports, to) {
				continue
			}
			if f := familyOf(to); f != nil && f.registry == s.dir {
				continue
			}
			if !under(s.dir, "cmd") && !slices.Contains(allowed[s.dir], to) {
				t.Errorf("%s: %s may not import %s; if it must, add the edge to the table and say why in docs/internals/architecture.md", s.path, s.dir, to)
			}
		}
	}
	for dir := range exists {
		// The generator is a module of its own and no part of the product.
		if _, listed := allowed[dir]; !listed && familyOf(dir) == nil && !under(dir, "cmd") && dir != "internal/cpu/gen" {
			t.Errorf("package %s is not in the table of allowed imports", dir)
		}
	}
	for from, list := range allowed {
		for _, to := range list {
			if !used[from+" "+to] {
				t.Errorf("the table of allowed imports lets %s import %s, which it does not: take it out", from, to)
			}
		}
		for _, p := range append([]string{from}, list...) {
			if !exists[p] {
				t.Errorf("the table of allowed imports names %s, which is no package", p)
			}
		}
	}
}

// Combine hands un-noised sums to other processes: only the package that adds them up asks for it.
func TestOnlySumsCombine(t *testing.T) {
	used := false
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") { // such as a device that hands everything on
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Combine" && f.Sel.Name != "CombinedNorm" {
				return true
			}
			switch s.dir {
			case "internal/collective/sums":
				used = true
			case "internal/device/record": // which hands it on to the device
			case "cuda", "internal/cuda/kernels": // whose kernel of that name is another
			default:
				t.Errorf("%s: only internal/collective/sums may call %s", s.fset.Position(n.Pos()), f.Sel.Name)
			}
			return true
		})
	}
	if !used {
		t.Error("internal/collective/sums has no use for Combine: the name looked for is out of date")
	}
}

// No method and no device knows of other processes: besides the packages that make the group, these files alone do.
func TestOnlyRunsKnowRanks(t *testing.T) {
	know := []string{
		"cmd/train.go",                                      // opens the group of a command
		"train/config.go", "train/ranks.go", "train/run.go", // one run of several processes
	}
	var found []string
	for _, s := range sources(t) {
		if under(s.dir, "internal/collective") || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, p := range s.imports {
			if under(strings.TrimPrefix(p, module+"/"), "internal/collective") && !slices.Contains(found, s.path) {
				found = append(found, s.path)
			}
		}
	}
	if slices.Sort(found); !slices.Equal(found, know) {
		t.Errorf("files that know of other processes are %v, and should be %v", found, know)
	}
}

// The right to release a sum comes from device.NewNoise and NewExactNoise, those to search one from
// NewSearch and NewMinimum. Whoever has it can write a sum out, with noise of any size.
func TestOnlyMechanismsMakeNoise(t *testing.T) {
	makers := []string{"NewNoise", "NewExactNoise", "NewSearch", "NewMinimum", "NewCounting"}
	used := map[string]bool{}
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || !slices.Contains(makers, id.Name) {
				return true
			}
			switch s.dir {
			case "dpoptim/mechanism":
				used[id.Name] = true
			case "internal/device", "internal/device/devicetest":
			default:
				if !s.test() {
					t.Errorf("%s: only dpoptim/mechanism may call device.%s", s.fset.Position(id.Pos()), id.Name)
				}
			}
			return true
		})
	}
	for _, name := range makers {
		if !used[name] {
			t.Errorf("dpoptim/mechanism has no use for %s: the name looked for is out of date", name)
		}
	}
}

// The index of a search and its noise would tell more of the private sums than was
// charged: both are for those that compare.
func TestOnlyDevicesDecideSearches(t *testing.T) {
	may := map[string][]string{ // where, besides its own package
		"Decide":   {"internal/device/host", "cuda"},
		"NewReals": {"internal/device", "dpoptim/mechanism"}, // there of counts, on the host
	}
	uses := map[string]int{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok || may[selector.Sel.Name] == nil {
				return true
			}
			name := selector.Sel.Name
			if uses[name]++; !slices.Contains(may[name], s.dir) {
				t.Errorf("%s: only %v may call %s", s.fset.Position(selector.Pos()), may[name], name)
			}
			return true
		})
	}
	for name := range may {
		if uses[name] == 0 {
			t.Errorf("nobody calls %s: the name looked for is out of date", name)
		}
	}
}

// An optimizer learns from a mechanism.Noisy alone. Another package could only
// make its zero value, which is refused when it is used.
func TestOnlyMechanismsMakeNoisy(t *testing.T) {
	const home = "dpoptim/mechanism"
	made := 0
	for _, s := range sources(t) {
		if s.test() && s.dir != home {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			switch name := literal.Type.(type) {
			case *ast.Ident:
				if name.Name == "Noisy" && s.dir == home && !s.test() {
					made++
				}
			case *ast.SelectorExpr:
				if x, ok := name.X.(*ast.Ident); ok && name.Sel.Name == "Noisy" && s.imports[x.Name] == module+"/"+home {
					t.Errorf("%s: only dpoptim/mechanism may make a Noisy", s.fset.Position(literal.Pos()))
				}
			}
			return true
		})
	}
	if made == 0 {
		t.Error("dpoptim/mechanism makes no Noisy: the name looked for is out of date")
	}
}

// A key's words leave package stream for the memory of a GPU alone.
func TestOnlyDevicesTakeKeys(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || under(s.dir, "cuda") || under(s.dir, "internal/cuda") || s.dir == "internal/stream" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == "KeyWords" {
				t.Errorf("%s: only devices outside the host's memory may take a key's words", s.fset.Position(id.Pos()))
			}
			return true
		})
	}
}

// Times of single steps depend on the examples of a batch. Only bench, whose
// examples are nobody's, may ask a device for them.
func TestOnlyBenchProfiles(t *testing.T) {
	uses := 0
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Profile" && selector.Sel.Name != "Profiler" {
				return true
			}
			switch s.dir {
			case "bench":
				uses++
			case "internal/device", "internal/device/host", "internal/cpu", "cuda", "internal/engine":
			default:
				if !s.test() {
					t.Errorf("%s: only bench may time single steps", s.fset.Position(selector.Pos()))
				}
			}
			return true
		})
	}
	if uses == 0 {
		t.Error("bench times no steps: the name looked for is out of date")
	}
}

// A user meets errors, never a stack trace. Package fault alone raises again, for the
// caller of a goroutine, what it has recovered.
func TestNoPanic(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || s.dir == "internal/fault" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "panic" {
					t.Errorf("%s: return an error instead", s.fset.Position(call.Pos()))
				}
			}
			return true
		})
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The guide to networks names versions as `module version`. Its Go examples and the
// README's are pieces of example_test.go, which is compiled and run.
func TestReadmeAgreesWithTheCode(t *testing.T) {
	const guidePage = "docs/guides/own-network.md"
	readme, guide, mod := text(t, "README.md"), text(t, guidePage), text(t, "go.mod")
	claims := regexp.MustCompile("`([a-z0-9./-]+) (v[0-9][-0-9a-z.]*)`").FindAllStringSubmatch(guide, -1)
	claimed := map[string]bool{}
	for _, c := range claims {
		claimed[c[1]] = true
		if !regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(c[1]+" "+c[2]) + `( // indirect)?$`).MatchString(mod) {
			t.Errorf("%s says %s %s, go.mod does not", guidePage, c[1], c[2])
		}
	}
	for _, m := range []string{"gorgonia.org/gorgonia", "gorgonia.org/tensor", "go4.org/unsafe/assume-no-moving-gc"} {
		if !claimed[m] {
			t.Errorf("%s does not say which version of %s is needed", guidePage, m)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(mod)
	if version == nil || !strings.Contains(readme, "Go "+version[1]+" ") {
		t.Errorf("the README does not ask for the Go version of go.mod, %v", version)
	}
	for name, page := range map[string]string{"README.md": readme, guidePage: guide, "docs/tutorial.md": text(t, "docs/tutorial.md")} {
		if !regexp.MustCompile(`You need a 64-bit machine\b[^.]*Go \d`).MatchString(page) {
			t.Errorf("%s does not say that a 64-bit machine is needed", name)
		}
	}

	example := strings.Join(strings.Fields(text(t, "example_test.go")), " ")
	for name, page := range map[string]string{"README.md": readme, guidePage: guide} {
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no Go example", name)
		}
		for _, b := range blocks {
			if !strings.Contains(example, strings.Join(strings.Fields(b[1]), " ")) {
				t.Errorf("example_test.go does not hold this example of %s:\n%s", name, b[1])
			}
		}
	}
}

// A link from one document to another, to a heading of one, or to a file of the
// repository leads somewhere; and whoever begins at docs/README.md finds every page.
func TestLinksLeadSomewhere(t *testing.T) {
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err := filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			names = append(names, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := map[string][]string{}
	for _, name := range names {
		for _, link := range regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`).FindAllStringSubmatch(text(t, name), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			target := name
			if link[1] != "" {
				target = path.Join(path.Dir(name), link[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, link[1])
			} else if link[2] != "" && !slices.Contains(anchors(t, target), link[2][1:]) {
				t.Errorf("%s links to %s%s: there is no such heading", name, link[1], link[2])
			}
			links[name] = append(links[name], target)
		}
	}
	reached := map[string]bool{"docs/README.md": true}
	for queue := []string{"docs/README.md"}; len(queue) > 0; queue = queue[1:] {
		for _, next := range links[queue[0]] {
			if !reached[next] {
				reached[next] = true
				queue = append(queue, next)
			}
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("no link leads from docs/README.md to %s", name)
		}
	}
}

// anchors are the names that a Markdown page's headings have in links.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var names []string
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text(t, page), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(h[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
