package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// stand notes how it was called, one argument a line and an empty line at the end. In the mode wrong, real networks are not those of the CPU.
const stand = `#!/usr/bin/env bash
printf '%s\n' "$(basename -- "$0")" "images=${PRIVGRAD_IMAGES-}" "$@" '' >>"$CALLS"
case "$MODE $*" in
wrong*'--only real'*) echo 'failed        1.0 s  real/cifar-small'; exit 1 ;;
idle*'--only real'*) echo 'not run       0.0 s  real: it needs more' ;;
*'--only real'*) echo 'passed        1.0 s  real/cifar-small' ;;
esac`

// lent runs a call of the script on stand-ins, and gives their calls, its exit code and what it prints.
func lent(t *testing.T, call, mode string) (calls [][]string, code int, text string) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("the script needs bash: %v", err)
	}
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(stand)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"gpucheck.gz": packed.Bytes(), "ncu": []byte(stand)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("bash", "../../scripts/h200.sh", call, dir, filepath.Join(dir, "out"))
	c.Env = append(os.Environ(), "MODE="+mode, "CALLS="+filepath.Join(dir, "calls"), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	noted, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, one := range strings.Split(strings.TrimSpace(string(noted)), "\n\n") {
		calls = append(calls, strings.Split(one, "\n"))
	}
	list, err := exec.Command("tar", "-tzf", filepath.Join(dir, "out", "logs.tar.gz")).Output()
	if err != nil || !strings.Contains(string(list), ".txt") {
		t.Errorf("the logs are %q: %v", list, err)
	}
	return calls, c.ProcessState.ExitCode(), string(out)
}

// value is that of a flag in a call; "" where it is not there.
func value(call []string, flag string) string {
	i := slices.Index(call, flag)
	if i < 0 {
		return ""
	}
	return call[i+1]
}

// Both calls of the script run to their end, ask for what there is, and keep their time.
func TestLentMachine(t *testing.T) {
	for call, want := range map[string]struct{ groups, images string }{
		"first":  {"info,driver,train kernels kernels real conformance bench,peers bench", " cubin ptx    "},
		"second": {"bench,peers peers ncu ncu", "   "},
	} {
		calls, code, text := lent(t, call, "good")
		var groups, images []string
		for _, c := range calls {
			images = append(images, strings.TrimPrefix(c[1], "images="))
			if c[0] == "ncu" {
				groups = append(groups, c[0])
				continue
			}
			groups = append(groups, value(c, "--only"))
			for _, name := range strings.Split(value(c, "--only"), ",") {
				if name != "real" && !slices.Contains(groupNames(), name) {
					t.Errorf("%s: there is no group %s", call, name)
				}
			}
			if _, err := choose(value(c, "--models"), value(c, "--batch"), value(c, "--precisions"), value(c, "--peers")); err != nil {
				t.Errorf("%s: %v", call, err)
			}
		}
		if got := strings.Join(groups, " "); got != want.groups || strings.Join(images, " ") != want.images || code != 0 {
			t.Errorf("%s ran %q with images %q, and ended with %d\n%s", call, got, images, code, text)
		}
		list, err := exec.Command("bash", "../../scripts/h200.sh", "--list", call).Output()
		if err != nil || strings.Count(string(list), "\n") != len(calls)+1 {
			t.Errorf("%s: %v, %s", call, err, list)
		}
		most := regexp.MustCompile(`(?m)^(\d+) s at most$`).FindStringSubmatch(string(list))
		if most == nil {
			t.Fatalf("%s does not say how long it takes:\n%s", call, list)
		}
		if n, err := strconv.Atoi(most[1]); err != nil || n > 600 || call == "second" && n > 200 {
			t.Errorf("%s takes %d s", call, n)
		}
	}
}

// Where real networks are wrong, or were not compared, nothing is measured.
func TestLentMachineStops(t *testing.T) {
	for _, mode := range []string{"wrong", "idle"} {
		calls, code, text := lent(t, "first", mode)
		if len(calls) != 4 || code != 1 || !strings.Contains(text, "nothing is measured") {
			t.Errorf("%s: %d calls, exit code %d\n%s", mode, len(calls), code, text)
		}
	}
}
