package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const root = "../.."

// made is a wheel of this test's own program.
func made(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	out := t.TempDir()
	check(t, makeAll(root, out, []string{self}))
	all, err := filepath.Glob(filepath.Join(out, "*"))
	check(t, err)
	if len(all) != 1 {
		t.Fatalf("files %v, want one", all)
	}
	return all[0]
}

func TestWheel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names of wheels are tested on Linux")
	}
	path := made(t)
	if want := regexp.MustCompile(`^privgrad-[0-9.]+(\.dev0)?-py3-none-manylinux_2_[0-9]+_(x86_64|aarch64)(\.manylinux2014_[a-z0-9_]+)?(\.musllinux_1_1_[a-z0-9_]+)?\.whl$`); !want.MatchString(filepath.Base(path)) {
		t.Errorf("the name is %s", filepath.Base(path))
	}
	z, err := zip.OpenReader(path)
	check(t, err)
	defer z.Close()
	content, names := map[string][]byte{}, []string(nil)
	for _, f := range z.File {
		r, err := f.Open()
		check(t, err)
		content[f.Name], err = io.ReadAll(r)
		check(t, err)
		names = append(names, f.Name)
		want := plain
		if f.Name == "privgrad/bin/privgrad" {
			want = executable
		}
		if f.Mode() != want || !f.Modified.Equal(written) {
			t.Errorf("%s has mode %v and time %v", f.Name, f.Mode(), f.Modified)
		}
	}
	record := names[len(names)-1]
	if !strings.HasSuffix(record, ".dist-info/RECORD") {
		t.Fatalf("the last file is %s", record)
	}
	var listed []string
	for line := range strings.Lines(string(content[record])) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		name, digest := fields[0], sha256.Sum256(content[fields[0]])
		listed = append(listed, name)
		want := []string{name, "sha256=" + base64.RawURLEncoding.EncodeToString(digest[:]), fmt.Sprint(len(content[name]))}
		if name == record {
			want = []string{name, "", ""}
		}
		if !slices.Equal(fields, want) {
			t.Errorf("RECORD says %v, want %v", fields, want)
		}
	}
	if !slices.Equal(listed, names) {
		t.Errorf("RECORD lists %v, and there are %v", listed, names)
	}
	for _, name := range []string{"privgrad/__init__.py", "privgrad/py.typed"} {
		source, err := os.ReadFile(filepath.Join(root, "python", name))
		check(t, err)
		if got, there := content[name]; !there || !bytes.Equal(got, source) {
			t.Errorf("%s is not that of the sources", name)
		}
	}
	one, err := os.ReadFile(path)
	check(t, err)
	two, err := os.ReadFile(made(t))
	if check(t, err); !bytes.Equal(one, two) {
		t.Error("the same sources gave other bytes")
	}
}

// Tags follow from the binary. Empty programs are built for other systems, whose runtime may have to be compiled first.
func TestLongTags(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644))
	for platform, want := range map[string]string{
		"linux/amd64":   "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
		"linux/arm64":   "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
		"darwin/arm64":  `macosx_1[0-9]_0_arm64`,
		"windows/amd64": "win_amd64",
		"linux/riscv64": "",
	} {
		system, machine, _ := strings.Cut(platform, "/")
		build := exec.Command("go", "build", "-o", "program", "main.go")
		build.Dir = dir
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off", "GOOS="+system, "GOARCH="+machine)
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", platform, err, said)
		}
		tags, err := tagsOf(filepath.Join(dir, "program"))
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "no wheels")):
			t.Errorf("%s: %v, %v", platform, tags, err)
		case want != "" && !regexp.MustCompile("^"+want+"$").MatchString(strings.Join(tags, ".")):
			t.Errorf("%s: %v (%v), want %s", platform, tags, err, want)
		}
	}
	check(t, os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\n"), 0o755))
	if tags, err := tagsOf(filepath.Join(dir, "program")); err == nil {
		t.Errorf("a script has tags %v", tags)
	}
}

// A program that is linked to glibc runs from the version on that has all its symbols.
func TestGlibc(t *testing.T) {
	for _, c := range []struct {
		versions []string
		want     int
	}{{nil, 0}, {[]string{"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.3.2"}, 34}, {[]string{"GLIBC_2.17"}, 17}, {[]string{"GLIBC_2.17", "GLIBC_PRIVATE"}, -1}, {[]string{"CXXABI_1.3"}, -1}} {
		if got, err := newest(c.versions); c.want >= 0 && (got != c.want || err != nil) || c.want < 0 && err == nil {
			t.Errorf("%v: %d, %v, want %d", c.versions, got, err, c.want)
		}
	}
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("there is no C compiler for Linux")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.c"), filepath.Join(dir, "main")
	// getentropy came with 2.25
	check(t, os.WriteFile(source, []byte("#define _GNU_SOURCE\n#include <unistd.h>\nint main(void) { char b[4]; return getentropy(b, 4); }\n"), 0o644))
	if said, err := exec.Command(cc, "-o", program, source).CombinedOutput(); err != nil {
		t.Skipf("the C compiler makes no program: %s", said)
	}
	if tags, err := tagsOf(program); err != nil || !regexp.MustCompile(`^manylinux_2_(2[5-9]|[3-9][0-9])_`).MatchString(tags[0]) {
		t.Errorf("%v, %v", tags, err)
	}
}

func TestVersion(t *testing.T) {
	for changelog, want := range map[string]string{
		"# C\n\n## Unreleased\n\n- x\n\n## v0.2.0 (2026-11-23)\n## v0.1.0\n": "0.3.0.dev0",
		"## v1.2.3 (2026-11-23)\n## v1.2.0\n":                                "1.2.3",
		"## Unreleased\n":                                                    "",
	} {
		if got, err := versionOf(changelog); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", changelog, got, err, want)
		}
	}
}

// The module does what its guide says, from a wheel in a folder of its own. It needs a Python with what the tests use.
func TestLongPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	if said, err := exec.Command(python, "-c", "import numpy, pandas, sklearn, pip").CombinedOutput(); err != nil {
		t.Skipf("python3 lacks NumPy, pandas, scikit-learn or pip: %s", said)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "privgrad")
	if said, err := exec.Command("go", "build", "-o", program, root+"/cmd/privgrad").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	check(t, makeAll(root, dir, []string{program}))
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	check(t, err)
	installed := filepath.Join(dir, "installed")
	if said, err := exec.Command(python, "-m", "pip", "install", "--no-index", "--no-deps", "--target", installed, wheels[0]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	tests := exec.Command(python, "-W", "ignore", "-m", "unittest", "discover", "-s", filepath.Join(root, "python", "tests"))
	path := installed
	if others := os.Getenv("PYTHONPATH"); others != "" {
		path += string(os.PathListSeparator) + others
	}
	tests.Env = append(os.Environ(), "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1", "PRIVGRAD_COMMAND=")
	said, err := tests.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, said)
	}
	version, err := exec.Command(filepath.Join(installed, "privgrad", "bin", "privgrad"), "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(version), "privgrad") {
		t.Errorf("the program says %q, %v", version, err)
	}
}
