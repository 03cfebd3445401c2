package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The test binary runs itself again as one of these.
const roleVariable = "LEDGER_TEST_ROLE"

var roles = map[string]func(path string) error{
	"release": releaseForever,
	"hold":    hold,
}

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleVariable)]; ok {
		if err := role(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start runs role on path in a process of its own and returns once that process
// printed its first line.
func start(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	return startWith(t, os.Stderr, role, path)
}

// startWith is start with variables, and errors of the process going elsewhere.
func startWith(t *testing.T, errors io.Writer, role, path string, environment ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), environment...)
	cmd.Stderr = errors
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s printed %q: %v", role, line, err)
	}
	return cmd
}

const crashSlots = 1 << 40

// releaseForever runs blocks of random size, some ended early. One byte goes to
// the witness file before each release.
func releaseForever(path string) error {
	witness, err := os.OpenFile(path+".witness", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	fmt.Println("started")
	l, err := Open(path, header(crashSlots))
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for {
		n := 1 + rng.IntN(20)
		if _, err := l.Reserve(n); err != nil {
			return err
		}
		used := rng.IntN(n + 1)
		for range used {
			if _, err := witness.Write([]byte{1}); err != nil {
				return err
			}
		}
		if err := l.Settle(used); err != nil {
			return err
		}
	}
}

func TestKilled(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	path := filepath.Join(t.TempDir(), "ledger.db")
	charged := 0
	for kill := range 30 {
		child := start(t, "release", path)
		time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
		must(t, child.Process.Kill())
		_ = child.Wait()

		l := mustOpen(t, path, crashSlots)
		witness, err := os.Stat(path + ".witness")
		must(t, err)
		if int64(l.Charged()) < witness.Size() {
			t.Fatalf("kill %d: %d charged, %d released", kill, l.Charged(), witness.Size())
		}
		if l.Charged() < charged {
			t.Fatalf("kill %d: the charge fell from %d to %d", kill, charged, l.Charged())
		}
		charged = l.Charged()
		must(t, l.Close())
	}
	if charged == 0 {
		t.Fatal("no child reserved anything")
	}
}

// hold keeps a block open until its parent kills it.
func hold(path string) error {
	l, err := Open(path, header(10))
	if err != nil {
		return err
	}
	if _, err := l.Reserve(3); err != nil {
		return err
	}
	fmt.Println("holding")
	_, err = io.Copy(io.Discard, os.Stdin)
	if err == nil {
		time.Sleep(time.Hour)
	}
	return err
}

func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	holder := start(t, "hold", path)
	if _, err := Open(path, header(10)); !errors.Is(err, ErrInUse) {
		t.Errorf("opening a held ledger: %v", err)
	}
	if _, _, err := Read(path); !errors.Is(err, ErrInUse) {
		t.Errorf("reading a held ledger: %v", err)
	}
	must(t, holder.Process.Kill())
	_ = holder.Wait()
	state, _, err := Read(path)
	must(t, err)
	wantState(t, state, State{Committed: 10, Reserved: 3, CrashedSlots: 3})
}
