//go:build linux || darwin

package cmd

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// everything is what lies in a folder: what each thing is, and what files hold.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all[path] = d.Type().String()
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			all[path] += string(b)
			return err
		}
		return nil
	})
	check(t, err)
	return all
}

func sameTree(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for path, was := range before {
		if is, there := after[path]; !there || is != was {
			t.Errorf("%s: %s was changed", what, path)
		}
	}
	for path := range after {
		if _, there := before[path]; !there {
			t.Errorf("%s: %s was made", what, path)
		}
	}
}

// special makes a link, a link that leads nowhere, a pipe, a socket and a folder, all with an ending.
func special(t *testing.T, dir, ending string) (names []string) {
	t.Helper()
	target := filepath.Join(dir, "target")
	socket := filepath.Join(dir, "socket"+ending)
	listening, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	check(t, err)
	t.Cleanup(func() { listening.Close() })
	if err := errors.Join(
		os.WriteFile(target, []byte("precious"), 0o644), os.Symlink(target, filepath.Join(dir, "link"+ending)), os.Symlink("nowhere", filepath.Join(dir, "loose"+ending)),
		syscall.Mkfifo(filepath.Join(dir, "pipe"+ending), 0o644), os.Mkdir(filepath.Join(dir, "folder"+ending), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "loose", "pipe", "socket", "folder"} {
		names = append(names, name+ending)
	}
	return names
}

// No command writes through a link, or replaces a pipe, a socket or a folder.
func TestOutputsReplaceFilesAlone(t *testing.T) {
	run, images := quick(t, "--model", "mlp-small"), array(t)
	t.Chdir(t.TempDir())
	check(t, os.WriteFile("t.csv", []byte("x,y\n1,2\n"), 0o644))
	for _, c := range []struct{ command, ending, want string }{
		{"export " + run + " --force --onnx", ".onnx", "only a file is replaced"},
		{"export " + run + " --onnx", ".onnx", "only a file is replaced"},
		{"predict " + run + " " + images + " --csv", ".csv", "exists already"},
		{"report " + run + " --out", ".html", "only a file is replaced"},
		{"data schema csv:../t.csv --out", ".yaml", "exists already"},
		{"bench compare --model mlp-small --out", ".svg", "only a file is replaced"},
		{"bench compare --model mlp-small --out", ".json", "only a file is replaced"},
		{"l2p train --data quadratic --out", ".safetensors", "is there"},
	} {
		dir, err := os.MkdirTemp(".", "a")
		check(t, err)
		back, err := os.Getwd()
		check(t, err)
		t.Chdir(dir)
		names := special(t, ".", c.ending)
		before := everything(t, ".")
		for _, name := range names {
			want := c.want
			if strings.HasPrefix(want, "only") && (strings.HasPrefix(name, "l")) {
				want = "nothing is written through one"
			}
			fails(t, cli.ExitUsage, append(strings.Fields(c.command), name), name, want)
			sameTree(t, c.command+" "+name, before, everything(t, "."))
		}
		t.Chdir(back)
	}
}

// A run's own files are replaced, and what a link in their place leads to is left alone.
func TestRunWritesThroughNoLink(t *testing.T) {
	finished := quick(t, "--model", "mlp-small")
	if err := os.Remove(filepath.Join(finished, "result.json")); err != nil { // as if killed before it had finished
		t.Fatal(err)
	}
	written := everything(t, finished)
	for path := range written {
		name, err := filepath.Rel(finished, path)
		if err != nil || filepath.Base(name) == "config.yaml" || strings.HasPrefix(written[path], "d") {
			continue
		}
		copied := filepath.Join(t.TempDir(), "run")
		outside := filepath.Join(t.TempDir(), "precious")
		check(t, errors.Join(os.CopyFS(copied, os.DirFS(finished)), os.Rename(filepath.Join(copied, name), outside), os.Symlink(outside, filepath.Join(copied, name))))
		before, err := os.ReadFile(outside)
		check(t, err)
		r := privgrad("resume", copied)
		if after, err := os.ReadFile(outside); err != nil || !bytes.Equal(before, after) {
			t.Errorf("resume wrote through the link %s (%v): %s", name, err, r.stderr)
		}
		if info, err := os.Lstat(filepath.Join(copied, name)); err != nil || info.Mode()&fs.ModeSymlink == 0 || !strings.Contains(r.stderr, "is a link") {
			t.Errorf("the link %s: %v, exit %d, %s", name, info, r.code, r.stderr)
		}
	}
}

// export replaces a file only by --force, and touches none beside it.
func TestExportReplacesByForce(t *testing.T) {
	run := quick(t, "--model", "mlp-small")
	t.Chdir(t.TempDir())
	check(t, errors.Join(os.WriteFile("m.onnx", []byte("precious"), 0o600), os.WriteFile("m.onnx.tmp", []byte("precious, too"), 0o644)))
	before := everything(t, ".")
	fails(t, cli.ExitUsage, []string{"export", run, "--onnx", "m.onnx"}, "onnx m.onnx exists already: name another file, or remove it; --force replaces it")
	fails(t, cli.ExitUsage, []string{"export", run, "--onnx", "m.onnx/"}, "exists already")
	fails(t, cli.ExitUsage, []string{"export", run, "--onnx", "none/../m.onnx"}, "exists already")
	sameTree(t, "export", before, everything(t, "."))
	ok(t, "export", run, "--onnx", "m.onnx", "--force")
	after := everything(t, ".")
	if len(after) != len(before) || len(after["m.onnx"]) < 15910*4 || after["m.onnx.tmp"] != before["m.onnx.tmp"] {
		t.Errorf("export --force left other files: %d of %d", len(after), len(before))
	}
	if info, err := os.Stat("m.onnx"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file that was replaced is %v (%v)", info.Mode(), err)
	}
}

// A path with .. behind a folder that is missing is the path that it names, for every command that writes.
func TestOutOfMissingFolders(t *testing.T) {
	run, images := quick(t, "--model", "mlp-small"), array(t)
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("full", 0o755), os.WriteFile("full/model.safetensors", []byte("precious"), 0o644), os.Mkdir("deep", 0o755), os.Mkdir("deep/full", 0o755),
		os.WriteFile("deep/full/x", nil, 0o644), os.Mkdir("deep/er", 0o755), os.Symlink("deep/er", "link")); err != nil {
		t.Fatal(err)
	}
	train := []string{"train", "--model", "logistic", "--noise-multiplier", "1", "--batch", "512", "--steps", "3", "--threads", "1", "--out"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{train, "is not empty: choose another --out"},
		{append([]string{"train", "--resume=auto"}, train[1:]...), "holds no run to resume"},
		{[]string{"data", "shard", "fmnist", "--shards", "1", "--out"}, "the folder is not empty; give a new one"},
	} {
		before := everything(t, ".")
		for _, out := range []string{"full", "full/", "full/.", "./full", "nosuch/../full", "nosuch/./x/../../full/", "full/../full", "link/../full", "full/nosuch/.."} {
			fails(t, cli.ExitUsage, append(c.args[:len(c.args):len(c.args)], out), c.want)
		}
		sameTree(t, strings.Join(c.args, " "), before, everything(t, "."))
	}
	fails(t, cli.ExitUsage, []string{"predict", run, images, "--csv", "nosuch/../full/model.safetensors"}, "exists already")
	ok(t, append(train, "nosuch/../new/")...)
	if _, err := os.Stat("nosuch"); err == nil {
		t.Error("a folder was made that no path leads to")
	}
	for _, name := range []string{"new", "new/", "new/.", "nosuch/../new"} {
		if got := ok(t, "verify", name); !strings.Contains(got, "new") {
			t.Errorf("verify %s says %q", name, got)
		}
		ok(t, "eval", name)
	}
	ok(t, append(train, "link/../new")...)
	if _, err := os.Stat("deep/new/model.safetensors"); err != nil {
		t.Errorf("a path through a link leads elsewhere than the system says: %v", err)
	}
	ok(t, append(train, "kept/..//kept2", "--private-diagnostics")...)
	for _, name := range []string{"kept2.private/diagnostics.jsonl", "kept2/model.safetensors"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// What is private goes into no folder that a link leads to, and no permissions there change.
func TestPrivateFolderIsNoLink(t *testing.T) {
	t.Chdir(t.TempDir())
	check(t, errors.Join(os.Mkdir("public", 0o755), os.Symlink("public", "run.private"), os.WriteFile("other.private", []byte("mine"), 0o644)))
	for _, out := range []string{"run", "other", "run/.", "none/../run"} {
		r := privgrad("train", "--model", "logistic", "--noise-multiplier", "1", "--batch", "512", "--steps", "3", "--threads", "1", "--private-diagnostics", "--out", out)
		if r.code != cli.ExitUsage || !strings.Contains(r.stderr, "which is no folder but a file or a link: move it away") {
			t.Errorf("--out %s: exit %d, %s", out, r.code, r.stderr)
		}
		check(t, os.RemoveAll(filepath.Clean(out)))
	}
	entries, err := os.ReadDir("public")
	if info, failed := os.Stat("public"); err != nil || failed != nil || len(entries) != 0 || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder has %v and is %v (%v, %v)", entries, info.Mode(), err, failed)
	}
}

// A figure is not rerun for hours if its files could not be written.
func TestReproduceLooksBefore(t *testing.T) {
	t.Chdir(t.TempDir())
	check(t, errors.Join(os.Mkdir("figures", 0o755), os.Symlink("nowhere", "figures/l2p-fig8.png")))
	fails(t, cli.ExitUsage, []string{"reproduce", "l2p-fig8", "--quick", "--seeds", "1"}, "l2p-fig8.png: it is a link")
	if entries, err := os.ReadDir("figures"); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v)", entries, err)
	}
}

// What a killed process left unfinished is gone when its run goes on, and nothing else is.
func TestResumeSweeps(t *testing.T) {
	run := quick(t, "--model", "mlp-small")
	left := []string{filepath.Join(run, ".privgrad-AAAA.tmp"), filepath.Join(run, "checkpoint", ".privgrad-BBBB.tmp")}
	mine := filepath.Join(run, "notes.tmp")
	check(t, os.Remove(filepath.Join(run, "result.json")))
	for _, name := range append(left, mine) {
		check(t, os.WriteFile(name, []byte("half"), 0o644))
	}
	ok(t, "resume", run)
	for _, name := range left {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there (%v)", name, err)
		}
	}
	if b, err := os.ReadFile(mine); string(b) != "half" {
		t.Errorf("a file of the user's holds %q (%v)", b, err)
	}
}
