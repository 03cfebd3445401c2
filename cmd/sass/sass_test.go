package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/sass"
)

// The tables have every kernel of the committed PTX for every architecture, and what follows from others follows. It needs no
// assembler: that the figures are those of this PTX is for make ptx-check.
func TestTablesAreComplete(t *testing.T) {
	names, err := kernels.Modules()
	if err != nil {
		t.Fatal(err)
	}
	dynamic, err := dynamicShared()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]sass.Kernel{}
	for _, name := range names {
		text, err := kernels.PTX(name)
		if err != nil {
			t.Fatal(err)
		}
		table, err := os.ReadFile(filepath.Join("../..", tables, name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		if known[name], err = sass.Read(bytes.NewReader(table)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		have := map[string]bool{}
		for _, k := range known[name] {
			have[k.Name+" "+k.Architecture] = true
			n, err := threads(string(text), k.Name)
			if err != nil {
				t.Error(err)
			}
			for _, a := range sass.Architectures {
				if a.Name == k.Architecture && (k.Blocks != a.Fit(k.Needs) || k.Blocks == 0 || k.Threads != n || k.Dynamic != dynamic[a.Name][kernel{name, k.Name}]) {
					t.Errorf("%s: %s for %s: %+v and %d blocks do not go together", name, k.Name, a.Name, k.Needs, k.Blocks)
				}
			}
		}
		entries := regexp.MustCompile(`\.entry (\w+)\(`).FindAllSubmatch(text, -1)
		for _, m := range entries {
			for _, a := range sass.Architectures {
				if !have[string(m[1])+" "+a.Name] {
					t.Errorf("%s: no line for %s on %s", name, m[1], a.Name)
				}
			}
		}
		if want := len(entries) * len(sass.Architectures); len(known[name]) != want {
			t.Errorf("%s: %d kernels, want %d", name, len(known[name]), want)
		}
	}
	if err := unknown(filepath.Join("../..", tables), known); err != nil {
		t.Error(err)
	}
}

// Machine code is compared byte for byte, with the PTX that it is of, and files of no module are found.
func TestCompareCubins(t *testing.T) {
	folder := t.TempDir()
	modules := map[string][]byte{"one": []byte("ptx"), "two": []byte("more ptx")}
	cubins := map[[2]string]string{}
	for name := range modules {
		for _, c := range kernels.Capabilities {
			cubins[[2]string{name, fmt.Sprintf("sm_%d", c)}] = fmt.Sprint(name, "\x00code\x00", c)
		}
	}
	check := func(what string, write bool, want int, says string) {
		t.Helper()
		var said bytes.Buffer
		if bad, err := compareCubins(&said, folder, modules, cubins, write); bad != want || err != nil || !strings.Contains(said.String(), says) {
			t.Errorf("%s: %d findings, want %d; %v\n%s", what, bad, want, err, &said)
		}
	}
	check("no files", false, 2*len(kernels.Capabilities), "one.sm_80.gz is not what ptxas makes of one.ptx")
	check("writing", true, 0, "")
	check("as written", false, 0, "")

	code := cubins[[2]string{"one", "sm_90"}]
	cubins[[2]string{"one", "sm_90"}] = code[:len(code)-1] + "1"
	check("another byte", false, 1, "one.sm_90.gz")
	cubins[[2]string{"one", "sm_90"}] = code
	modules["two"] = append(modules["two"], '\n')
	check("the same code of other PTX", false, len(kernels.Capabilities), "two.sm_80.gz")
	check("writing", true, 0, "")
	file := filepath.Join(folder, kernels.CubinFile("two", 80))
	if err := os.WriteFile(file, []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("a broken file", false, 1, "two.sm_80.gz")
	delete(modules, "two")
	check("files of no module", false, len(kernels.Capabilities), "two.sm_90.gz is of no module")
	check("writing", true, 0, "")
	check("as written", false, 0, "")
}

// Machine code is offered to drivers of the assembler's major version and later ones alone.
func TestAssemblerAndDriver(t *testing.T) {
	major, err := strconv.Atoi(version[:strings.Index(version, ".")])
	if err != nil {
		t.Fatal(err)
	}
	for driver, want := range map[int]int{1000*major - 10: 1, 1000 * major: 2, 1000*major + 1000: 2} {
		if images, err := kernels.Images("gather", 80, driver); err != nil || len(images) != want {
			t.Errorf("a driver of version %d is offered %d images, %v", driver, len(images), err)
		}
	}
}

// Without an assembler and without pip nothing passes.
func TestNothingToAssembleWith(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PYTHON", "/nonexistent")
	for _, variable := range []string{"PTXAS", "NVDISASM"} {
		t.Setenv(variable, "")
	}
	err := run(false)
	for _, part := range []string{"nothing was assembled", "modules are unchecked", "cannot fetch ptxas " + version} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got error %v, want one with %q", err, part)
		}
	}
	t.Setenv("PTXAS", "/nonexistent/ptxas")
	if err := run(false); err == nil || !strings.Contains(err.Error(), "PTXAS names no program") {
		t.Errorf("with another assembler that is none: %v", err)
	}
}

// A program that is not the published one is never run.
func TestForgedAssembler(t *testing.T) {
	dir := t.TempDir()
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	f, err := z.Create("nvidia/bin/ptxas")
	if err == nil {
		_, err = f.Write([]byte("#!/bin/sh\n"))
	}
	pip := "#!/bin/sh\nwhile [ \"$1\" != --dest ]; do shift; done\ncp " + filepath.Join(dir, "forged.whl") + " \"$2\"\n"
	err = errors.Join(err, z.Close(), os.WriteFile(filepath.Join(dir, "forged.whl"), wheel.Bytes(), 0o644), os.WriteFile(filepath.Join(dir, "python"), []byte(pip), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("PYTHON", filepath.Join(dir, "python"))
	for _, variable := range []string{"PTXAS", "NVDISASM"} {
		t.Setenv(variable, "")
	}
	if err := run(false); err == nil || !strings.Contains(err.Error(), "not the one that was published") {
		t.Errorf("a forged assembler: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "privgrad", "ptxas-*", "ptxas")); len(left) > 0 {
		t.Errorf("it stays at %v", left)
	}
}

// planted is a kernel in PTX: 40 sums, a copy of 16 bytes, and a loop. Each name stands for a place in which a fault is planted.
func planted(faults map[string]string) string {
	place := func(name, usual string) string {
		if fault, ok := faults[name]; ok {
			return fault
		}
		return usual
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry planted(.param .u64 a, .param .u64 to, .param .u32 n)\n.maxntid 128, 1, 1 %s\n{", place("bounds", ""))
	line(".reg .f32 %%s<40>, %%v<4>, %%x;\n.reg .b32 %%r<8>;\n.reg .b64 %%d<8>;\n.reg .pred %%p;\n.shared .align 16 .b8 tile[4096];")
	line("ld.param.u64 %%d0, [a];\ncvta.to.global.u64 %%d1, %%d0;\nld.param.u64 %%d2, [to];\ncvta.to.global.u64 %%d2, %%d2;\nld.param.u32 %%r0, [n];")
	line("mov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%d3, %%r1, 16;\nadd.s64 %%d0, %%d0, %%d3;\nadd.s64 %%d1, %%d1, %%d3;\nadd.s64 %%d2, %%d2, %%d3;")
	line("mov.u32 %%r2, tile;\nshl.b32 %%r3, %%r1, 4;\nadd.u32 %%r2, %%r2, %%r3;\nmov.u32 %%r4, 0;\nmov.u32 %%r5, 1;")
	for i := range 40 {
		line("mov.f32 %%s%d, 0f00000000;", i)
	}
	line("again:\n%s", place("copy", "cp.async.cg.shared.global [%r2], [%d1], 16;"))
	line("cp.async.wait_all;\nbar.sync 0;\nld.shared.v4.f32 {%%v0, %%v1, %%v2, %%v3}, [%%r2];\n%s", place("load", "ld.global.f32 %x, [%d1+4096];"))
	for i := range 40 {
		line("fma.rn.f32 %%s%d, %%v%d, %%x, %%s%d;", i, i%4, (i+1)%40)
	}
	line("%s\nbar.sync 0;\nadd.s64 %%d0, %%d0, 8192;\nadd.s64 %%d1, %%d1, 8192;\nadd.u32 %%r4, %%r4, 1;\nsetp.lt.u32 %%p, %%r4, %%r0;\n@%%p bra again;", place("more", ""))
	for i := range 40 {
		line("st.global.f32 [%%d2+%d], %%s%d;", 2048*i, i)
	}
	line("st.global.u32 [%%d2+4], %%r5;\nret;\n}")
	return b.String()
}

// TestPlanted assembles a kernel without and with faults. Only make ptx-check, which has just fetched the assembler, promises that it runs.
func TestPlanted(t *testing.T) {
	tool, err := found()
	if err != nil {
		if os.Getenv("PTX_CHECK") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no assembler on this machine: make ptx-check fetches it")
	}
	tool.kept = ""
	count := func(faults map[string]string) (map[string][]sass.Kernel, error) {
		counted, _, err := tool.countAll(map[string][]byte{"planted": []byte(planted(faults))})
		return counted, err
	}
	usual, err := count(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range usual["planted"] {
		if len(k.Loops) != 1 || k.Loops[0].FFMA%40 != 0 || k.Loops[0].FFMA == 0 || k.Loops[0].LDGSTS[2] == 0 || k.All.Generic+k.All.Local+k.All.Divisions > 0 {
			t.Errorf("%s: without a fault the kernel is %+v", k.Architecture, k)
		}
	}
	folder := t.TempDir()
	var said bytes.Buffer
	if bad, err := compare(&said, folder, usual, true); bad != 0 || err != nil || said.Len() > 0 {
		t.Fatalf("writing the table: %d findings, %v, %s", bad, err, &said)
	}
	if bad, err := compare(&said, folder, usual, false); bad != 0 || err != nil {
		t.Fatalf("against its own table: %d findings, %v, %s", bad, err, &said)
	}
	// A table with an architecture too many is out of date, though nothing is worse.
	if bad, err := compare(&said, folder, map[string][]sass.Kernel{"planted": usual["planted"][1:]}, false); bad != 1 || err != nil || !strings.Contains(said.String(), "out of date") {
		t.Errorf("with an architecture less: %d findings, %v, %s", bad, err, &said)
	}

	narrow := ""
	for i := range 4 {
		narrow += fmt.Sprintf("cp.async.ca.shared.global [%%r2+%d], [%%d1+%d], 4;\n", 4*i, 4*i)
	}
	for _, c := range []struct{ what, place, fault, want string }{
		{"a generic load", "load", "ld.f32 %x, [%d0+4096];", "generic accesses: "},
		{"a division in the loop", "more", "add.u32 %r6, %r4, 7;\ndiv.u32 %r7, %r0, %r6;\nadd.u32 %r5, %r5, %r7;", "integer divisions: "},
		{"a remainder by what the loop does not change", "more", "rem.u32 %r7, %r4, %r1;\nadd.u32 %r5, %r5, %r7;", "integer divisions: "},
		{"copies of 4 bytes", "copy", narrow, "width of LDGSTS: "},
		{"a barrier more", "more", "bar.sync 0;\nst.shared.u32 [%r2], %r4;\nbar.sync 0;", "barriers a product"},
		{"an array of its own", "more", ".local .align 4 .b8 own[64];\n.reg .b32 %w<3>;\nand.b32 %w0, %r4, 60;\nmov.u32 %w1, own;\nadd.u32 %w1, %w1, %w0;\n" +
			"st.local.u32 [%w1], %r4;\nxor.b32 %w0, %w0, 4;\nmov.u32 %w2, own;\nadd.u32 %w2, %w2, %w0;\nld.local.u32 %w2, [%w2];\nadd.u32 %r5, %r5, %w2;", "accesses of local memory: "},
		{"a spill", "bounds", ".maxnreg 32", "spills"},
	} {
		if os.Getenv("PTX_CHECK") == "" && c.place == "more" {
			continue // each takes seconds
		}
		faulty, err := count(map[string]string{c.place: c.fault})
		if c.what == "a spill" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		said.Reset()
		bad, err := compare(&said, folder, faulty, false)
		if bad == 0 || err != nil {
			t.Errorf("%s: %d findings, %v", c.what, bad, err)
		}
		for _, a := range sass.Architectures {
			if !regexp.MustCompile(`(?m)^worse: planted: ` + a.Name + ` planted, loop 1: ` + c.want).MatchString(said.String()) {
				t.Errorf("%s is not found for %s:\n%s", c.what, a.Name, &said)
			}
		}
	}
}
