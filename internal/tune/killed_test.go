//go:build unix

package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/privgrad/privgrad/internal/rundir"
)

// killedVariable has the test binary tune in the folder that it names.
const killedVariable = "TUNE_TEST_KILLED"

// grid and trials of tunings that are killed: many trials, so that kills meet all of them.
const killedTrials = "poisson:9"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedVariable); dir != "" {
		c, o := repeated("out")
		o.draws, o.Trials = nil, killedTrials
		err := os.Chdir(dir)
		if err == nil {
			_, err = Run(context.Background(), c, o)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestKilled(t *testing.T)     { killed(t, 12) }
func TestLongKilled(t *testing.T) { killed(t, 200) }

// killed kills tunings anywhere in what they do. What chance has decided survives, as do the trials that have ended. Nothing is
// released before the last one has, and then what would have been released without kills.
func killed(t *testing.T, kills int) {
	home := t.TempDir()
	for done, n := 0, 0; done < kills; n++ {
		dir := filepath.Join(home, fmt.Sprint(n))
		must(t, os.Mkdir(dir, 0o755))
		out, private := filepath.Join(dir, "out"), rundir.Dir(filepath.Join(dir, "out.private"))
		var decided []byte
		ended := map[string][]byte{}
		for finished := false; !finished; {
			c := exec.Command(os.Args[0])
			var said bytes.Buffer
			c.Env, c.Stderr = append(os.Environ(), killedVariable+"="+dir), &said
			must(t, c.Start())
			timer := time.AfterFunc(time.Duration(rand.Int64N(int64(500*time.Millisecond))), func() { c.Process.Kill() })
			err := c.Wait()
			timer.Stop()
			var exit *exec.ExitError
			switch {
			case err == nil:
				finished = true
			case !errors.As(err, &exit) || exit.ExitCode() != -1:
				t.Fatalf("kill %d: a process ended by itself: %v\n%s", done, err, said.String())
			default:
				done++
			}
			state, err := os.ReadFile(private.Path(stateFile))
			if err == nil && decided != nil && !bytes.Equal(state, decided) || err != nil && decided != nil {
				t.Fatalf("kill %d: what was decided has changed: %v", done, err)
			}
			if err == nil {
				decided = state
			}
			results, _ := filepath.Glob(private.Path(filepath.Join(trialsDir, "*", rundir.Result)))
			for _, name := range slices.Sorted(maps.Keys(ended)) {
				if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, ended[name]) {
					t.Fatalf("kill %d: a trial that had ended was made again: %v", done, err)
				}
			}
			for _, name := range results {
				ended[name], _ = os.ReadFile(name)
			}
			var s struct{ Draws []draw }
			if decided != nil {
				must(t, json.Unmarshal(decided, &s))
			}
			if len(ended) < max(len(s.Draws), 1) {
				for _, name := range []string{rundir.Config, rundir.Model, rundir.Metrics, rundir.Result, rundir.Ledger, rundir.Checkpoints} {
					if _, err := os.Stat(filepath.Join(out, name)); err == nil {
						t.Fatalf("kill %d: %s is there before the last trial has ended", done, name)
					}
				}
			}
		}
		var s state
		must(t, json.Unmarshal(decided, &s))
		whole := filepath.Join(dir, "whole")
		must(t, os.Mkdir(whole, 0o755))
		t.Chdir(whole)
		c, o := repeated("out", s.Draws...)
		o.Trials = killedTrials
		if s.Draws == nil {
			o.draws = []draw{}
		}
		run(t, c, o)
		same(t, files(t, filepath.Join(whole, "out")), files(t, out))
		if t.Failed() {
			t.Fatalf("after %d kills of a tuning of %d trials", done, len(s.Draws))
		}
	}
}
