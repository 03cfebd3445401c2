package runtime

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	stdruntime "runtime"
	"slices"
	"strings"
	"testing"
)

// This file comes before the others by name, so that no library is loaded yet: a system's loader knows those that are.

// A path that is given is taken or refused, and no other one is looked for.
func TestFindRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lib.so")
	if err := os.WriteFile(file, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, file)
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "1.19 or later") {
		t.Errorf("%v", err)
	}
	if stdruntime.GOOS != "linux" {
		return // a system may have the library
	}
	t.Setenv(Variable, "")
	t.Setenv("PATH", t.TempDir())
	l, err := Find()
	if err == nil {
		t.Skip("the system has " + l.Path())
	}
	for _, says := range []string{"pip install onnxruntime", "python3", "libonnxruntime.so", Variable} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
}

// The library of Python's package is found, and what lies in the working directory is none.
func TestFindByPython(t *testing.T) {
	if stdruntime.GOOS != "linux" {
		t.Skip("a shell stands for Python")
	}
	here, folder := t.TempDir(), t.TempDir()
	capi := filepath.Join(folder, "capi")
	if err := os.Mkdir(capi, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libonnxruntime.so.1.19.2", "libonnxruntime.so.1.20.0", "libonnxruntime_providers_shared.so"} {
		if err := os.WriteFile(filepath.Join(capi, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	say := func(script string) {
		if err := os.WriteFile(filepath.Join(here, "python3"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	python, err := exec.LookPath("python3")
	t.Setenv("PATH", here)
	say("echo '" + folder + "'")
	paths, e := ofPython()
	if want := []string{filepath.Join(capi, "libonnxruntime.so.1.20.0"), filepath.Join(capi, "libonnxruntime.so.1.19.2")}; e != nil || !slices.Equal(paths, want) {
		t.Errorf("%v: %v", paths, e)
	}
	for script, says := range map[string]string{"echo": "no package", "exit 3": "exit status 3", fmt.Sprintf("echo '%s'", here): "no library"} {
		say(script)
		if _, err := ofPython(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", script, err)
		}
	}
	if err != nil {
		t.Skip("there is no Python")
	}
	t.Chdir(here)
	if err := os.MkdirAll(filepath.Join(here, "onnxruntime", "capi"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "onnxruntime", "__init__.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	say("exec " + python + ` "$@"`)
	if paths, err := ofPython(); slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, here) }) || err != nil && strings.Contains(err.Error(), "no library") {
		t.Errorf("a folder of the working directory is taken: %v, %v", paths, err)
	}
}
