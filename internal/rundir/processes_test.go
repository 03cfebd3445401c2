package rundir

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func begin(t *testing.T, dir string) bool {
	t.Helper()
	elsewhere, err := Dir(dir).Begin()
	if err != nil {
		t.Fatal(err)
	}
	return elsewhere
}

func lines(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(Dir(dir).Path(Processes))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// A copy is elsewhere, and a directory that was moved is not. Each is so until its next process.
func TestBegin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a moved directory is elsewhere there")
	}
	home := t.TempDir()
	run := filepath.Join(home, "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if first, again := begin(t, run), begin(t, run); first || again {
		t.Error("a run that stays where it is is elsewhere")
	}
	copies := 0
	for range 3 { // one of 65,536 has the same place by chance
		other := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(other, os.DirFS(run)); err != nil {
			t.Fatal(err)
		}
		if begin(t, other) {
			copies++
		}
		if begin(t, other) {
			t.Error("a copy is elsewhere for ever")
		}
		if a, b := lines(t, run), lines(t, other); len(b) != 4 || b[0] != a[0] || b[2] == b[3] {
			t.Errorf("the copy has %q", b)
		}
	}
	if copies < 2 {
		t.Errorf("%d of 3 copies are elsewhere", copies)
	}
	moved := filepath.Join(home, "moved")
	if err := os.Rename(run, moved); err != nil {
		t.Fatal(err)
	}
	if begin(t, moved) {
		t.Error("a directory that was moved is elsewhere")
	}
}

// A run of an earlier version, or whose file was damaged, knows no place, and learns it.
func TestBeginWithoutAPlace(t *testing.T) {
	for _, text := range []string{"", "x", "null\n{}\n", `{"process":"`} {
		dir := t.TempDir()
		if err := os.WriteFile(Dir(dir).Path(Processes), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if first, again := begin(t, dir), begin(t, dir); first || again || len(lines(t, dir)) != 2 {
			t.Errorf("after %q", text)
		}
	}
}

// What is stored names neither the machine nor the path, and is too short to try names on; of one place it tells the
// same every time.
func TestPlacesTellNothing(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		begin(t, dir)
	}
	seen := map[string]bool{}
	for _, line := range lines(t, dir) {
		place := regexp.MustCompile(`^{"process":"[0-9a-f]{32}","place":"([0-9a-f]{4})"}$`).FindStringSubmatch(line)
		if place == nil {
			t.Fatalf("the line is %s", line)
		}
		seen[place[1]] = true
	}
	if len(seen) != 1 {
		t.Errorf("one place has %d digests", len(seen))
	}
}
