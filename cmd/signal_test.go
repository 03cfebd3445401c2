//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/cli"
)

const limitVariable = "PRIVGRAD_TEST_FSIZE"

// child is the command as main runs it, with files no larger than the limit
// where one is set, as on a disk that is full.
func child() {
	if n, err := strconv.ParseUint(os.Getenv(limitVariable), 10, 64); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			os.Exit(99)
		}
	}
	Main(Options{})
}

// process starts the command as a process of its own.
func process(t *testing.T, environment string, args ...string) (*exec.Cmd, *bytes.Buffer, string) {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	log := filepath.Join(t.TempDir(), "stderr")
	f, err := os.Create(log)
	check(t, err)
	defer f.Close()
	var stdout bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), childVariable+"=1", environment)
	cmd.Stdout, cmd.Stderr = &stdout, f
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &stdout, log
}

// await waits until something is so, or the process is beyond help.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 6000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s never came", what)
}

// lastStep is the last step in a run's metrics.
func lastStep(out string) int {
	b, _ := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	var at struct{ Step int }
	if json.Unmarshal(lines[len(lines)-1], &at) != nil {
		return 0
	}
	return at.Step
}

func TestFullDisk(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	args := func(out string) []string {
		return []string{"train", "--data", "mnist", "--data-dir", data, "--published-set", "--model", "mlp-fmnist", "--noise-multiplier", "1", "--noise", "seeded",
			"--batch", "6000", "--steps", "3", "--json", "--out", out}
	}
	whole, full := filepath.Join(dir, "whole"), filepath.Join(dir, "full")
	ok(t, args(whole)...)

	// The ledger fits, the model of a megabyte does not.
	cmd, stdout, log := process(t, limitVariable+"=262144", args(full)...)
	err := cmd.Wait()
	said := strings.TrimPrefix(readFile(t, log), seededWarning)
	if failure := object(t, stdout.String())["error"].(map[string]any); cmd.ProcessState.ExitCode() != cli.ExitFailed || failure["exit_code"] != 1.0 {
		t.Fatalf("on a full disk: %v, %q, %q", err, stdout.String(), said)
	}
	if !strings.HasPrefix(said, "privgrad: ") || strings.Count(said, "\n") != 1 || !strings.Contains(said, "disk or a quota is full") || !strings.Contains(said, full) {
		t.Errorf("on a full disk: %q", said)
	}
	r := object(t, ok(t, append(args(full), "--resume")...))
	if r["steps"] != 3.0 || readFile(t, full, "model.safetensors") != readFile(t, whole, "model.safetensors") {
		t.Errorf("the resumed run differs from an undisturbed one: %v", r)
	}
}

func TestInterruptSavesAndResumes(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--data", "mnist", "--data-dir", data, "--published-set", "--model", "logistic", "--classes", "3,5", "--noise-multiplier", "1000",
		"--accountant", "rdp", "--batch", "100", "--steps", "100000000", "--eval-every", "1", "--json", "--out", out}
	hangUp := syscall.SIGHUP
	if signal.Ignored(hangUp) { // the tests run under nohup, and so does the run
		hangUp = syscall.SIGTERM
	}
	steps := 0
	for _, x := range []struct {
		more []string
		sent syscall.Signal
	}{{nil, syscall.SIGTERM}, {[]string{"--resume"}, hangUp}} {
		cmd, stdout, log := process(t, "", append(args, x.more...)...)
		await(t, "a step", func() bool { return lastStep(out) > steps })
		check(t, cmd.Process.Signal(x.sent))
		_ = cmd.Wait()
		said := readFile(t, log)
		if failure := object(t, stdout.String())["error"].(map[string]any); cmd.ProcessState.ExitCode() != cli.ExitInterrupted || failure["exit_code"] != 130.0 {
			t.Fatalf("interrupted: %v, %q, %q", cmd.ProcessState, stdout.String(), said)
		}
		said = evaluationLine.ReplaceAllString(said, "")
		if lines := strings.Split(said, "\n"); len(lines) != 3 || !strings.Contains(lines[0], "interrupt again") || !strings.Contains(lines[1], "privgrad resume "+out) {
			t.Errorf("interrupted: %q", said)
		}
		now := lastStep(out)
		state, _, err := ledger.Read(filepath.Join(out, "ledger.db"))
		if err != nil || state.Reserved != now || state.CrashedSlots != 0 {
			t.Errorf("after %d steps the ledger holds %+v, %v", now, state, err)
		}
		if now <= steps {
			t.Errorf("stood at step %d, now at %d", steps, now)
		}
		steps = now
	}
	if r := privgrad("eval", out); r.code != cli.ExitDone || !strings.Contains(r.stderr, "is unfinished") {
		t.Errorf("eval of a run that was interrupted: exit %d, %s", r.code, r.stderr)
	}
}

// Of an interrupted run both copies go on. The one that is elsewhere is warned of, verify fails, and report adds up both.
func TestForkedRuns(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	a, b, third, page := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c"), filepath.Join(dir, "page.html")
	args := func(steps, out string) []string {
		return []string{"train", "--data", "mnist", "--data-dir", data, "--published-set", "--model", "logistic", "--classes", "3,5", "--noise-multiplier", "20",
			"--accountant", "rdp", "--batch", "100", "--steps", steps, "--eval-every", "1", "--threads", "1", "--out", out}
	}
	cmd, _, _ := process(t, "", args("600", a)...)
	await(t, "a step", func() bool { return lastStep(a) > 0 })
	check(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	check(t, os.CopyFS(b, os.DirFS(a)))
	fails(t, cli.ExitUsage, []string{"report", a, b, "--out", page}, "has not finished", "Do not resume both")
	const warned = "privgrad: warning: "
	if r := privgrad("resume", a); r.code != cli.ExitDone || strings.Contains(r.stderr, warned) {
		t.Fatalf("resumed where it was: %s", r.stderr)
	}
	if r := privgrad("resume", b); r.code != cli.ExitDone || !strings.Contains(r.stderr, warned+b+" is on another machine or in another place") || !strings.Contains(r.stderr, "paid for once and made twice") {
		t.Fatalf("the copy resumed: %s", r.stderr)
	}
	ok(t, args("5", third)...)

	composedOf := func(runs ...string) (r, composed map[string]any) {
		r = object(t, ok(t, append(append([]string{"report"}, runs...), "--out", page, "--json")...))
		return r, r["composed"].([]any)[0].(map[string]any)
	}
	_, one := composedOf(a, third)
	r, composed := composedOf(a, b, third)
	fork := r["forks"].([]any)[0].(map[string]any)
	if len(r["forks"].([]any)) != 1 || fork["run"] != b || fork["of"] != a || len(composed["runs"].([]any)) != 3 || !(composed["epsilon"].(float64) > 1.3*one["epsilon"].(float64)) {
		t.Errorf("reported %v", r)
	}
	if text := ok(t, "report", a, b, third, "--out", page); !strings.Contains(text, "STEPS WERE RUN TWICE: "+b+" and "+a) || !strings.Contains(text, "The 3 runs on ") {
		t.Errorf("reported %s", text)
	}
	if text := readFile(t, page); !strings.Contains(text, "Steps were run twice.") {
		t.Error("the page does not say that steps were run twice")
	}
	for _, one := range []string{a, b} {
		ok(t, "verify", one)
	}
	ok(t, "verify", a, third)
	all := privgrad("verify", a, b, third, "--json")
	var v struct {
		OK   bool
		Runs []struct {
			Run string
			OK  bool
		}
		Forks []struct{ Run, Of string }
	}
	check(t, json.NewDecoder(strings.NewReader(all.stdout)).Decode(&v))
	if all.code != cli.ExitFailed || v.OK || len(v.Runs) != 3 || v.Runs[0].OK || v.Runs[1].OK || !v.Runs[2].OK || len(v.Forks) != 1 {
		t.Errorf("exit %d: %s", all.code, all.stdout)
	}
	if text := privgrad("verify", a, b); text.code != cli.ExitFailed || !strings.Contains(text.stdout, "STEPS WERE RUN TWICE") || !strings.Contains(text.stdout, "DIFFERS  forks") {
		t.Errorf("exit %d: %s", text.code, text.stdout)
	}
}

// A reader that has seen enough, such as head, does not end a run and waste its budget.
func TestClosedPipeDoesNotEndARun(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	self, err := os.Executable()
	check(t, err)
	cmd := exec.Command(self, "train", "--data", "mnist", "--data-dir", data, "--published-set", "--model", "logistic", "--classes", "3,5", "--noise-multiplier", "1",
		"--accountant", "rdp", "--batch", "100", "--steps", "50", "--eval-every", "1", "--out", out)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	reader, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	check(t, reader.Close())
	if err := cmd.Wait(); err != nil {
		t.Errorf("with nobody to read its lines, the run ends by %v", err)
	}
	if n := lastStep(out); n != 50 {
		t.Errorf("the run ends after %d steps of 50", n)
	}
	ok(t, "eval", out)

	if err := os.Remove(filepath.Join(out, "model.safetensors")); err != nil { // as before the first checkpoint
		t.Fatal(err)
	}
	fails(t, cli.ExitUsage, []string{"eval", out}, "has not finished", "privgrad resume "+out)
}

func TestSecondInterruptQuits(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	// Steps of a second or so, many to a block, on the slow device.
	cmd, _, log := process(t, "", "train", "--data", "mnist", "--data-dir", data, "--public-n", "300", "--delta", "1e-4", "--sampling-rate", "1", "--noise-multiplier", "1",
		"--device", "reference", "--steps", "1000", "--eval-every", "1", "--out", out)
	await(t, "a step", func() bool { return lastStep(out) > 0 })
	time.Sleep(20 * time.Millisecond) // into the next step
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	await(t, "the notice", func() bool { return strings.Contains(readFile(t, log), "interrupt again") })
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("the second signal: %v, %q", cmd.ProcessState, readFile(t, log))
	}
}

func TestInterruptedFetch(t *testing.T) {
	network(t, func(r *http.Request) (*http.Response, error) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return nil, err
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	r := privgrad("data", "fetch", "mnist", "--data-dir", t.TempDir())
	if r.code != cli.ExitInterrupted || r.stdout != "" || !strings.Contains(r.stderr, "privgrad: interrupted: the same command goes on from here\n") {
		t.Errorf("exit %d, %q", r.code, r.stderr)
	}
}

// What was measured before an interrupt is in the file.
func TestInterruptedCompare(t *testing.T) {
	out := filepath.Join(t.TempDir(), "c.json")
	cmd, _, log := process(t, "", "bench", "compare", "--model", "mlp-fmnist,cnn-mnist,cifar-small,mnist-tf,cifar-paper,mlp-mnist", "--rounds", "1", "--seconds", "0.001", "--threads", "1",
		"--python", "/none", "--out", out, "--progress", "off")
	await(t, "a model", func() bool { _, err := os.Stat(out); return err == nil })
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	if said := readFile(t, log); cmd.ProcessState.ExitCode() != cli.ExitInterrupted || !strings.Contains(said, "\nprivgrad: interrupted: measurements of ") || !strings.HasSuffix(said, " in "+out+"\n") {
		t.Errorf("%v, %q", cmd.ProcessState, said)
	}
	if shown := ok(t, "bench", "compare", out); !strings.Contains(shown, "mlp-fmnist, ") {
		t.Errorf("the file holds\n%s", shown)
	}
}

// A stack holds lengths of what was read from private files.
func TestQuitShowsNoStack(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT} {
		if signal.Ignored(s) { // some shells have what runs in the background ignore SIGQUIT
			continue
		}
		cmd, stdout, log := process(t, "", "train", "--data", "mnist", "--data-dir", data, "--published-set", "--model", "logistic", "--classes", "3,5",
			"--accountant", "rdp", "--noise-multiplier", "1", "--batch", "100", "--steps", "100000000", "--eval-every", "1", "--resume=auto", "--out", out)
		before := lastStep(out)
		await(t, "a step", func() bool { return lastStep(out) > before })
		check(t, cmd.Process.Signal(s))
		_ = cmd.Wait()
		if said := readFile(t, log); cmd.ProcessState.ExitCode() != 128+int(s) || stdout.Len() != 0 || strings.Contains(said, "goroutine") || strings.Contains(said, "SIG") {
			t.Errorf("%v: %v, %q", s, cmd.ProcessState, said)
		}
	}
}
