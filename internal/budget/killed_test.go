//go:build unix

package budget

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// payVariable has the test binary pay again and again from the budget that it names, until it is killed.
const payVariable = "BUDGET_TEST_PAYS"

func TestMain(m *testing.M) {
	if path := os.Getenv(payVariable); path != "" {
		fmt.Fprintln(os.Stderr, payForever(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// payForever names each run that is paid for in the witness file, where the run would begin.
func payForever(path string) error {
	witness, err := os.OpenFile(path+".witness", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		run := fmt.Sprintf("%d-%d", os.Getpid(), n)
		if err := charge(path, gaussian(1000), run); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(witness, run); err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.Int64N(int64(4 * time.Millisecond))))
	}
}

func TestKilled(t *testing.T)     { killed(t, 40) }
func TestLongKilled(t *testing.T) { killed(t, 1000) }

// killed kills one of four processes at a time, anywhere in what it does. Every run that began stands in the budget, none is lost
// later, and the next process can pay.
func killed(t *testing.T, kills int) {
	const processes, perFile = 4, 50
	began := 0
	for done := 0; done < kills; done += perFile {
		path := create(t, 1000, 1e-5, 8)
		start := func() *exec.Cmd {
			c := exec.Command(os.Args[0])
			c.Env, c.Stderr = append(os.Environ(), payVariable+"="+path), os.Stderr
			must(t, c.Start())
			return c
		}
		stop := func(c *exec.Cmd) {
			must(t, c.Process.Kill())
			var exit *exec.ExitError
			if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
				t.Fatalf("a process ended by itself: %v", err)
			}
		}
		var running [processes]*exec.Cmd
		for i := range running {
			running[i] = start()
		}
		entries := 0
		for kill := range min(perFile, kills-done) {
			time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond))))
			i := rand.IntN(processes)
			stop(running[i])
			witness, _ := os.ReadFile(path + ".witness") // before the budget is read, as others go on
			f := read(t, path)
			there := map[string]bool{}
			for _, e := range f.Entries {
				there[e.Run] = true
			}
			for run := range strings.Lines(string(witness)) {
				if run = strings.TrimSpace(run); !there[run] {
					t.Fatalf("kill %d: run %s began, and is not in the budget", done+kill, run)
				}
			}
			if len(f.Entries) < entries {
				t.Fatalf("kill %d: the entries fell from %d to %d", done+kill, entries, len(f.Entries))
			}
			entries = len(f.Entries)
			running[i] = start()
		}
		for _, c := range running {
			stop(c)
		}
		must(t, charge(path, gaussian(1000), "after all"))
		began += entries
	}
	t.Logf("%d kills, %d runs paid for", kills, began)
	if began < kills {
		t.Errorf("%d runs were paid for over %d kills: the kills met too little", began, kills)
	}
}
