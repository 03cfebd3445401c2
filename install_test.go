package privgrad_test

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// `go install …/cmd/privgrad@v0.2.0` gives a command that runs, without a C compiler, from
// nothing but a module proxy. Here the proxy is a directory, and the modules that this one
// needs come from the cache that built this test.
func TestLongInstallThroughAProxy(t *testing.T) {
	const version = "v0.2.0"
	cache := strings.TrimSpace(goTool(t, nil, "env", "GOMODCACHE"))
	proxy, bin := t.TempDir(), t.TempDir()
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"list": version + "\n", version + ".info": `{"Version":"` + version + `","Time":"2026-12-01T00:00:00Z"}`, version + ".mod": text(t, "go.mod"),
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	size := moduleZip(t, filepath.Join(at, version+".zip"), module+"@"+version)

	slash := func(dir string) string { return "file://" + filepath.ToSlash(dir) }
	// Without paths, what other modules are compiled to is kept for the next time, though they lie in a new directory.
	goTool(t, []string{
		"GOPROXY=" + slash(proxy) + "," + slash(filepath.Join(cache, "cache", "download")) + ",off", "GOSUMDB=off",
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOBIN=" + bin, "GOWORK=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "CC=none",
	}, "install", module+"/cmd/privgrad@"+version)

	name := "privgrad"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for arg, want := range map[string]string{"--version": version, "info": "fmnist"} {
		out, err := exec.Command(filepath.Join(bin, name), arg).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("privgrad %s does not say %s: %v\n%s", arg, want, err, out)
		}
	}

	stated := regexp.MustCompile(`about (\d+) MB`).FindStringSubmatch(text(t, "docs/guides/own-network.md"))
	if stated == nil {
		t.Fatal("the guide to networks does not say how large the module is")
	}
	if mb, _ := strconv.ParseFloat(stated[1], 64); float64(size) > 1.1e6*mb || float64(size) < 0.9e6*mb {
		t.Errorf("the module's zip has %d bytes, and the guide says %s MB", size, stated[1])
	}
}

// goTool runs the go command outside the module, with more in its environment.
func goTool(t *testing.T, environment []string, args ...string) string {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), environment...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// moduleZip packs what a version of the module holds: no hidden directory, no module
// below this one, nothing that is built or run here.
func moduleZip(t *testing.T, path, prefix string) int64 {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != "." && (nested == nil || strings.HasPrefix(name, ".") || name == "bin" || name == "runs") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasPrefix(name, ".") {
			return nil
		}
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := z.Create(prefix + "/" + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return err
	})
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s.zip has %.1f MB", prefix, float64(info.Size())/1e6)
	return info.Size()
}
