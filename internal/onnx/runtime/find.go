package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	stdruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/internal/usage"
)

// Variable names the environment variable with the path of the library's file.
const Variable = "PRIVGRAD_ONNXRUNTIME"

// mostWait bounds how long Python may take to say where a package is.
const mostWait = 10 * time.Second

// Find loads ONNX Runtime, 1.19 or later: the file that the environment variable names, and no other where it names one; else the
// library of Python's package onnxruntime, as the first python3 of the path finds it; else what the system's loader finds. An error
// says what was tried and what to install.
func Find() (*Library, error) {
	if path := os.Getenv(Variable); path != "" {
		l, err := open(path)
		if err != nil {
			return nil, usage.Errorf("%s=%s: %w; name the file of a library of ONNX Runtime 1.19 or later", Variable, path, err)
		}
		return l, nil
	}
	var tried []string
	paths, err := ofPython()
	if err != nil {
		tried = append(tried, err.Error())
	}
	for _, path := range append(paths, systemNames()...) {
		l, err := open(path)
		if err == nil {
			return l, nil
		}
		tried = append(tried, fmt.Sprintf("%s: %v", path, err))
	}
	return nil, usage.Errorf("ONNX Runtime was not found; %s (tried: %s)", install, strings.Join(tried, "; "))
}

// ofPython lists the libraries in Python's package, the newest first by name.
func ofPython() ([]string, error) {
	python := "python3"
	if stdruntime.GOOS == "windows" {
		python = "python"
	}
	// The package is not imported. What lies in the working directory is no package that somebody installed.
	const where = `import sys, importlib.util
sys.path = [p for p in sys.path if p]
spec = importlib.util.find_spec("onnxruntime")
print(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else "")`
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	said, err := exec.CommandContext(ctx, python, "-c", where).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", python, reason(ctx, err))
	}
	folder := strings.TrimSpace(string(said))
	if folder == "" {
		return nil, fmt.Errorf("%s has no package onnxruntime", python)
	}
	var found []string
	for _, pattern := range patterns() {
		matches, err := filepath.Glob(filepath.Join(folder, "capi", pattern))
		if err != nil {
			return nil, err
		}
		found = append(found, matches...)
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no library beside it", folder)
	}
	slices.Sort(found)
	slices.Reverse(found)
	return found, nil
}

// reason says that Python took too long, where it did.
func reason(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it said nothing in %v", mostWait)
	}
	return err
}

// patterns match the library's file in the package.
func patterns() []string {
	switch stdruntime.GOOS {
	case "windows":
		return []string{"onnxruntime.dll"}
	case "darwin":
		return []string{"libonnxruntime.dylib", "libonnxruntime.[0-9]*.dylib"}
	}
	return []string{"libonnxruntime.so", "libonnxruntime.so.*"}
}

// systemNames are those by which a system's loader knows the library.
func systemNames() []string {
	switch stdruntime.GOOS {
	case "windows":
		return []string{"onnxruntime.dll"}
	case "darwin":
		return []string{"libonnxruntime.dylib"}
	}
	return []string{"libonnxruntime.so.1", "libonnxruntime.so"}
}
