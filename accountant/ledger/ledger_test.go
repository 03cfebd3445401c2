package ledger

import (
	"bytes"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	testRun   = "00112233445566778899aabbccddeeff"
	testPrint = "0123456789abcdef"
)

func header(committed int) Header {
	return Header{RunID: testRun, Fingerprint: testPrint, Committed: committed}
}

// fatal is testing.T or rapid.T.
type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func mustOpen(t fatal, path string, committed int) *Ledger {
	t.Helper()
	l, err := Open(path, header(committed))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustReserve(t fatal, l *Ledger, n, wantFirst int) {
	t.Helper()
	first, err := l.Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	if first != wantFirst {
		t.Fatalf("Reserve(%d) starts at %d, want %d", n, first, wantFirst)
	}
}

func must(t fatal, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantState(t fatal, got, want State) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("state (-want +got):\n%s", diff)
	}
}

func TestBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 100)
	wantState(t, l.State(), State{Committed: 100})

	mustReserve(t, l, 30, 0)
	wantState(t, l.State(), State{Committed: 100, Reserved: 30})
	must(t, l.Settle(30))
	mustReserve(t, l, 20, 30)
	must(t, l.Settle(5))
	wantState(t, l.State(), State{Committed: 100, Reserved: 35, Settled: 35})
	mustReserve(t, l, 10, 35)
	must(t, l.Close())

	// The block that nobody settled stays charged and can no longer be settled.
	want := State{Committed: 100, Reserved: 45, Settled: 35, CrashedSlots: 10}
	state, h, err := Read(path)
	must(t, err)
	wantState(t, state, want)
	if diff := cmp.Diff(header(100), h); diff != "" {
		t.Fatalf("header (-want +got):\n%s", diff)
	}
	l = mustOpen(t, path, 100)
	wantState(t, l.State(), want)
	if err := l.Settle(0); !errors.Is(err, errNoBlock) {
		t.Fatalf("settling another process's block: %v", err)
	}
	if l.Charged() != 45 || l.State().Committed != 100 {
		t.Fatalf("charged %d of %d, want 45 of 100", l.Charged(), l.State().Committed)
	}
	mustReserve(t, l, 55, 45)
	must(t, l.Settle(55))
	wantState(t, l.State(), State{Committed: 100, Reserved: 100, Settled: 90, CrashedSlots: 10})
	if _, err := l.Reserve(1); !errors.Is(err, ErrExhausted) {
		t.Fatalf("reserving beyond the schedule: %v", err)
	}
	must(t, l.Close())
	must(t, l.Close())
	if _, err := l.Reserve(1); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("reserving on a closed ledger: %v", err)
	}
}

func TestRefusalsChangeNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 10)
	defer l.Close()
	before, err := os.ReadFile(path)
	must(t, err)
	for _, n := range []int{-1, 0, 11} {
		if _, err := l.Reserve(n); err == nil {
			t.Errorf("Reserve(%d) of 10 slots succeeded", n)
		}
	}
	if err := l.Settle(0); !errors.Is(err, errNoBlock) {
		t.Errorf("Settle without a block: %v", err)
	}
	after, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("a refused call changed the file")
	}

	mustReserve(t, l, 4, 0)
	if _, err := l.Reserve(1); !errors.Is(err, errUnsettled) {
		t.Errorf("Reserve within a block: %v", err)
	}
	for _, used := range []int{-1, 5} {
		if err := l.Settle(used); err == nil {
			t.Errorf("Settle(%d) of a block of 4 succeeded", used)
		}
	}
	must(t, l.Settle(4))
	if err := l.Settle(0); !errors.Is(err, errNoBlock) {
		t.Errorf("settling twice: %v", err)
	}
	wantState(t, l.State(), State{Committed: 10, Reserved: 4, Settled: 4})
}

func TestHeaders(t *testing.T) {
	dir := t.TempDir()
	for name, h := range map[string]Header{
		"no run id":          {Fingerprint: testPrint, Committed: 1},
		"short run id":       {RunID: "00ff", Fingerprint: testPrint, Committed: 1},
		"run id in capitals": {RunID: strings.ToUpper(testRun), Fingerprint: testPrint, Committed: 1},
		"no fingerprint":     {RunID: testRun, Committed: 1},
		"long fingerprint":   {RunID: testRun, Fingerprint: strings.Repeat("00", maxFingerprint+1), Committed: 1},
		"negative schedule":  {RunID: testRun, Fingerprint: testPrint, Committed: -1},
	} {
		if l, err := Open(filepath.Join(dir, "bad"), h); err == nil {
			l.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 0 {
		t.Fatalf("refused headers left %v behind", left)
	}

	path := filepath.Join(dir, "ledger.db")
	must(t, mustOpen(t, path, 10).Close())
	otherRun := strings.Repeat("ab", runIDSize)
	for _, c := range []struct {
		want  Header
		names []string
	}{
		{Header{RunID: otherRun, Fingerprint: testPrint, Committed: 10}, []string{"run id", testRun, otherRun}},
		{Header{RunID: testRun, Fingerprint: "ff", Committed: 10}, []string{"fingerprint", testPrint, "ff"}},
		{Header{Fingerprint: testPrint, Committed: 12}, []string{"committed", "10", "12"}},
	} {
		_, err := Open(path, c.want)
		if !errors.Is(err, ErrMismatch) {
			t.Fatalf("opening with %+v: %v", c.want, err)
		}
		for _, name := range append(c.names, path) {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
	}
	l, err := Open(path, Header{Fingerprint: testPrint, Committed: 10})
	must(t, err)
	defer l.Close()
	if l.Header().RunID != testRun {
		t.Errorf("run id %s, want the stored one", l.Header().RunID)
	}
}

func TestInUseWithinProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 10)
	if _, err := Open(path, header(10)); !errors.Is(err, ErrInUse) {
		t.Errorf("opening twice: %v", err)
	}
	if _, _, err := Read(path); !errors.Is(err, ErrInUse) {
		t.Errorf("reading while open: %v", err)
	}
	must(t, l.Close())
	must(t, mustOpen(t, path, 10).Close())
}

func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading no file: %v", err)
	}
	if _, err := openStore(path, false); !errors.Is(err, fs.ErrNotExist) { // vanished since it was checked
		t.Errorf("opening no file for writing: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

// A ledger whose file was moved away would take charges that no later run sees.
func TestReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 10)
	defer l.Close()
	must(t, os.Rename(path, path+".old"))
	if _, err := l.Reserve(1); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reserving after the file was moved: %v", err)
	}
	must(t, os.Rename(path+".old", path))
	if _, err := l.Reserve(1); err == nil {
		t.Fatal("a failed ledger took another charge")
	}
	must(t, l.Close())

	l = mustOpen(t, path, 10)
	defer l.Close()
	must(t, os.Remove(path))
	must(t, mustOpen(t, path, 10).Close())
	if _, err := l.Reserve(1); err == nil {
		t.Fatal("reserved in a file that was replaced")
	}
}

// The model is the definition: a charge falls only when the process that reserved
// the last block settles it, and never below what was released.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	const committed = 40
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "ledger.db")
		defer os.Remove(path)
		l := mustOpen(t, path, committed)
		defer func() { l.Close() }()

		var released, open, crashed, reserved int
		for range rapid.IntRange(1, 15).Draw(t, "calls") {
			before := l.Charged()
			call := rapid.SampledFrom([]string{"reserve", "reserve", "settle", "settle", "reopen"}).Draw(t, "call")
			n := rapid.IntRange(0, 12).Draw(t, "n")
			switch call {
			case "reserve":
				first, err := l.Reserve(n)
				if ok := n > 0 && open == 0 && reserved+n <= committed; ok != (err == nil) {
					t.Fatalf("Reserve(%d) with %d reserved, %d open: %v", n, reserved, open, err)
				}
				if err == nil {
					if first != reserved {
						t.Fatalf("Reserve starts at %d, want %d", first, reserved)
					}
					open, reserved = n, reserved+n
				}
			case "settle":
				err := l.Settle(n)
				if ok := open > 0 && n <= open; ok != (err == nil) {
					t.Fatalf("Settle(%d) with %d open: %v", n, open, err)
				}
				if err == nil {
					released += n
					reserved -= open - n
					open = 0
				}
			case "reopen":
				must(t, l.Close())
				l = mustOpen(t, path, committed)
				released += min(n, open) // before the crash
				crashed += open
				open = 0
			}
			if call != "settle" && l.Charged() < before {
				t.Fatalf("%s lowered the charge from %d to %d", call, before, l.Charged())
			}
			if l.Charged() < released {
				t.Fatalf("%d charged, %d released", l.Charged(), released)
			}
			wantState(t, l.State(), State{committed, reserved, reserved - open - crashed, crashed})
		}
	})
}

// The ledger reads no clock: of package time it uses the length of its wait for a lock, which
// bbolt measures monotonically, and it looks at no time of the file. A clock that jumps changes nothing.
func TestNoClock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		looked++
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && s.Sel.Name != "Millisecond" || s.Sel.Name == "ModTime" {
					t.Errorf("%s uses %s: a ledger must not depend on a clock", name, s.Sel.Name)
				}
			}
			return true
		})
		for _, i := range file.Imports {
			if i.Name != nil && i.Path.Value == `"time"` {
				t.Errorf("%s imports time under another name", name)
			}
		}
	}
	if looked < 4 {
		t.Errorf("%d files were looked at", looked)
	}

	path := filepath.Join(t.TempDir(), "ledger.db")
	for i, when := range []time.Time{time.Unix(0, 0), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1, 0)} {
		l := mustOpen(t, path, 10)
		mustReserve(t, l, 2, 2*i)
		must(t, os.Chtimes(path, when, when))
		must(t, l.Settle(2))
		must(t, l.Close())
		must(t, os.Chtimes(path, when, when))
		state, _, err := Read(path)
		must(t, err)
		wantState(t, state, State{Committed: 10, Reserved: 2 * (i + 1), Settled: 2 * (i + 1)})
	}
}

func TestBytesFollowFromCalls(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		var images [2][]byte
		for i := range images {
			rng := rand.New(rand.NewPCG(seed, 0))
			path := filepath.Join(t.TempDir(), "ledger.db")
			l := mustOpen(t, path, 1000)
			for range 20 {
				n := 1 + rng.IntN(20)
				_, err := l.Reserve(n)
				must(t, err)
				if rng.IntN(4) > 0 {
					must(t, l.Settle(rng.IntN(n+1)))
				} else {
					must(t, l.Close())
					l = mustOpen(t, path, 1000)
				}
			}
			must(t, l.Close())
			var err error
			images[i], err = os.ReadFile(path)
			must(t, err)
		}
		if !bytes.Equal(images[0], images[1]) {
			t.Fatal("the same calls gave different files")
		}
		if len(images[0]) != 8*pageSize {
			t.Fatalf("the file grew to %d bytes", len(images[0]))
		}
	}
}

// The layout is a promise to the ledgers that users have.
func TestRecordLayout(t *testing.T) {
	rec := record{Header: header(10), tx: 7, reserved: 6, open: 3, crashed: 2}
	const want = "50474c4544474531" + "0700000000000000" + "0a00000000000000" + "0600000000000000" + "0300000000000000" +
		"0200000000000000" + testRun + testPrint
	got := hex.EncodeToString(rec.encode())
	if !strings.HasPrefix(got, want) || len(got) != len(want)+64 {
		t.Fatalf("record\n%s, want\n%s and a checksum", got, want)
	}
	back, err := decode(rec.encode())
	must(t, err)
	if back != rec {
		t.Fatalf("decoded %+v, want %+v", back, rec)
	}
	for name, bad := range map[string]record{
		"more reserved than committed": {Header: header(5), reserved: 6},
		"more open than reserved":      {Header: header(5), reserved: 2, open: 3},
		"more crashed than reserved":   {Header: header(5), reserved: 3, open: 1, crashed: 3},
	} {
		if _, err := decode(bad.encode()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only the block that was left open last can be adopted, by its place, once, and is settled as one's own.
func TestAdopt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 10)
	if _, err := l.Reserve(2); err != nil {
		t.Fatal(err)
	}
	must(t, l.Settle(2))
	if _, err := l.Reserve(5); err != nil {
		t.Fatal(err)
	}
	if l.Adopt(2, 5) {
		t.Error("a Ledger adopts its own block")
	}
	must(t, l.Close())
	if l.Adopt(2, 5) {
		t.Error("a closed Ledger adopts a block")
	}
	l = mustOpen(t, path, 10)
	for _, wrong := range [][2]int{{2, 4}, {3, 4}, {0, 7}, {2, 0}, {7, 0}, {2, 8}} {
		if l.Adopt(wrong[0], wrong[1]) {
			t.Errorf("adopted %v", wrong)
		}
	}
	if !l.Adopt(2, 5) || l.Adopt(2, 5) {
		t.Error("the open block is not adopted once")
	}
	must(t, l.Settle(3))
	wantState(t, l.State(), State{Committed: 10, Reserved: 5, Settled: 5})
	must(t, l.Close())
	l = mustOpen(t, path, 10)
	defer l.Close()
	if l.Adopt(2, 3) || l.Adopt(2, 5) {
		t.Error("a settled block is adopted")
	}
	first, err := l.Reserve(1)
	if err != nil || first != 5 {
		t.Errorf("the next slot is %d: %v", first, err)
	}
}
