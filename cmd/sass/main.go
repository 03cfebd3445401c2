// Sass counts what an assembler makes of the committed PTX: it assembles every module for every
// architecture, disassembles that, and compares each kernel and each of its innermost loops with the
// tables in internal/cuda/kernels/sass. It needs neither a GPU nor a toolkit.
//
//	sass         fail where a figure got worse, where a table is not what is counted now, and where a kernel spills;
//	             and where the committed machine code is not, byte for byte, what the assembler makes now
//	sass -write  write the tables and the machine code, and say what got worse
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/sass"
)

// folder is that of the committed machine code, and tables that of the tables, a module each, below the root of the module.
const (
	folder = "internal/cuda/kernels"
	tables = folder + "/sass"
)

func main() {
	write := flag.Bool("write", false, "write the tables and the machine code")
	flag.Parse()
	if err := run(*write); err != nil {
		fmt.Fprintln(os.Stderr, "sass:", err)
		os.Exit(1)
	}
}

func run(write bool) error {
	names, err := kernels.Modules()
	if err != nil {
		return err
	}
	t, err := find()
	if err != nil {
		return fmt.Errorf("nothing was assembled: registers, spills, occupancy and instructions of %d modules are unchecked: %w", len(names), err)
	}
	modules := map[string][]byte{}
	for _, name := range names {
		if modules[name], err = kernels.PTX(name); err != nil {
			return err
		}
	}
	counted, cubins, err := t.countAll(modules)
	if err != nil {
		return err
	}
	summarize(os.Stdout, counted)
	bad, err := compare(os.Stdout, tables, counted, write)
	if err != nil {
		return err
	}
	old, err := compareCubins(os.Stdout, folder, modules, cubins, write)
	if err != nil {
		return err
	}
	if bad += old; bad > 0 {
		return fmt.Errorf("%d findings; where they are meant, run make sass, look at the difference, and commit it", bad)
	}
	return nil
}

// countAll counts all modules for all architectures, on as many cores as there are. The kernels of a module are sorted by
// name; those of one name stand in the order of the architectures. cubins are the machine code, by module and architecture.
func (t *tools) countAll(modules map[string][]byte) (counted map[string][]sass.Kernel, cubins map[[2]string]string, err error) {
	dynamic, err := dynamicShared()
	if err != nil {
		return nil, nil, err
	}
	type job struct {
		module string
		a      *sass.Architecture
	}
	jobs := make(chan job)
	var lock sync.Mutex
	var all sync.WaitGroup
	var errs []error
	counted, cubins = map[string][]sass.Kernel{}, map[[2]string]string{}
	for range runtime.NumCPU() {
		all.Go(func() {
			for j := range jobs {
				made, err := t.assemble(j.module, modules[j.module], j.a.Name)
				var list []sass.Kernel
				if err == nil {
					list, err = made.count(j.module, modules[j.module], j.a, dynamic)
				}
				lock.Lock()
				counted[j.module] = append(counted[j.module], list...)
				cubins[[2]string{j.module, j.a.Name}] = made.cubin
				errs = append(errs, err)
				lock.Unlock()
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		for a := range sass.Architectures {
			jobs <- job{name, &sass.Architectures[a]}
		}
	}
	close(jobs)
	all.Wait()
	place := func(k sass.Kernel) int {
		return slices.IndexFunc(sass.Architectures, func(a sass.Architecture) bool { return a.Name == k.Architecture })
	}
	for _, list := range counted {
		slices.SortFunc(list, func(x, y sass.Kernel) int {
			if c := strings.Compare(x.Name, y.Name); c != 0 {
				return c
			}
			return place(x) - place(y)
		})
	}
	return counted, cubins, errors.Join(errs...)
}

// summarize prints a line an architecture.
func summarize(w io.Writer, counted map[string][]sass.Kernel) {
	for _, a := range sass.Architectures {
		kernels, loops, registers, generic, divisions, local := 0, 0, 0, 0, 0, 0
		for _, list := range counted {
			for _, k := range list {
				if k.Architecture != a.Name {
					continue
				}
				kernels, loops, registers = kernels+1, loops+len(k.Loops), max(registers, k.Registers)
				generic, divisions, local = generic+k.All.Generic, divisions+k.All.Divisions, local+k.All.Local
			}
		}
		fmt.Fprintf(w, "%s: %d kernels in %d modules, %d innermost loops, at most %d registers; %d generic accesses, %d divisions, %d accesses of local memory\n",
			a.Name, kernels, len(counted), loops, registers, generic, divisions, local)
	}
}

// compare holds what was counted against the tables of a folder, or writes these, and says how many findings there are: what
// is worse, and tables that are out of date. Where it writes, what is worse is said and does not count.
func compare(w io.Writer, folder string, counted map[string][]sass.Kernel, write bool) (int, error) {
	bad := 0
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		file := filepath.Join(folder, name+".csv")
		old, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		var now bytes.Buffer
		if err := sass.Write(&now, counted[name]); err != nil {
			return 0, err
		}
		if bytes.Equal(old, now.Bytes()) {
			continue
		}
		before, err := sass.Read(bytes.NewReader(old))
		if err != nil && !write {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		worse := sass.Worse(before, counted[name])
		for _, line := range worse {
			fmt.Fprintf(w, "worse: %s: %s\n", name, line)
		}
		if write {
			if err := os.WriteFile(file, now.Bytes(), 0o644); err != nil {
				return 0, err
			}
			continue
		}
		if bad += len(worse); len(worse) == 0 {
			bad++
			fmt.Fprintf(w, "%s is out of date, and nothing in it got worse\n", file)
		}
	}
	return bad, unknown(folder, counted)
}

// unknown refuses tables of modules that there are not.
func unknown(folder string, counted map[string][]sass.Kernel) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.csv"))
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".csv"); counted[name] == nil {
			return fmt.Errorf("%s is the table of no module: remove it", file)
		}
	}
	return err
}
