//go:build linux || darwin

package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func init() { roles["fault"] = releaseUntilFault }

// What a child of TestFaults meets, and the seed of what it does.
const (
	seedVariable = "LEDGER_TEST_SEED"
	diesVariable = "LEDGER_TEST_DIES"
	fullVariable = "LEDGER_TEST_FULL"
)

// releaseUntilFault opens the ledger again and again, for a few blocks each time, beside
// others that do the same. The number of a slot and of the process go to the witness file,
// in one write, where its noise would be released. It may kill itself between any two calls, or
// find the disk full from some call on.
func releaseUntilFault(path string) error {
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	witness, err := os.OpenFile(path+".witness", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	fmt.Println("started")
	point := func() {
		if os.Getenv(diesVariable) != "" && rng.IntN(40) == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		if os.Getenv(fullVariable) != "" && rng.IntN(40) == 0 {
			// No further than some page of the ledger, 0 being the first.
			signal.Ignore(syscall.SIGXFSZ)
			var limit syscall.Rlimit
			_ = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit)
			limit.Cur = uint64(rng.IntN(9) * pageSize)
			_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
		}
	}
	for {
		point()
		l, err := Open(path, header(crashSlots))
		if errors.Is(err, ErrInUse) {
			continue
		}
		if err != nil {
			return err
		}
		for range 1 + rng.IntN(4) {
			point()
			n := 1 + rng.IntN(12)
			first, err := l.Reserve(n)
			if err != nil {
				return err
			}
			used := rng.IntN(n + 1)
			for slot := range used {
				point()
				release := binary.LittleEndian.AppendUint64(nil, uint64(first+slot))
				if _, err := witness.Write(binary.LittleEndian.AppendUint64(release, uint64(os.Getpid()))); err != nil {
					return err // what cannot be witnessed is not released
				}
			}
			point()
			if err := l.Settle(used); err != nil {
				return err
			}
		}
		point()
		if err := l.Close(); err != nil {
			return err
		}
		time.Sleep(time.Duration(rng.Int64N(int64(8 * time.Millisecond)))) // let another in
	}
}

// Whatever happens to the processes, the disk and the file, no slot is released twice, and a
// reader's charge covers every slot that was released or the file is called
// damaged. Seeds are fixed; where a kill from outside falls is the scheduler's choice.
func TestFaults(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 12))
	const rounds = 45
	var dir, path string
	released, crashed, contended, refused, accepted := 0, 0, 0, 0, 0
	for round := range rounds {
		if round%15 == 0 { // also the race to create a ledger
			dir = t.TempDir()
			path = filepath.Join(dir, "ledger.db")
		}
		var children []*exec.Cmd
		number, length := 1+rng.IntN(2), 30*time.Millisecond
		if round%6 == 5 { // long enough for bbolt to look for a free lock several times
			number, length = 2, 400*time.Millisecond
		}
		for range number {
			environment := []string{seedVariable + "=" + fmt.Sprint(rng.Uint64())}
			switch rng.IntN(3) {
			case 0:
				environment = append(environment, diesVariable+"=1")
			case 1:
				environment = append(environment, fullVariable+"=1")
			}
			children = append(children, startWith(t, nil, "fault", path, environment...))
		}
		time.Sleep(length/2 + time.Duration(rng.Int64N(int64(length/2))))
		for _, c := range children {
			_ = c.Process.Kill() // it may have ended
			_ = c.Wait()
		}

		slots, active := witnessed(t, path, children)
		released = max(released, len(slots))
		if active > 1 {
			contended++
		}
		highest, seen := -1, map[int]bool{}
		for _, slot := range slots {
			if seen[slot] {
				t.Fatalf("round %d: slot %d was released twice", round, slot)
			}
			seen[slot] = true
			highest = max(highest, slot)
		}
		image, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && len(slots) == 0 {
			continue // all died before there was a ledger
		}
		must(t, err)
		state, _, err := Read(path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if state.Reserved <= highest || state.Reserved < len(slots) {
			t.Fatalf("round %d: %+v, where slot %d and %d in all were released", round, state, highest, len(slots))
		}
		crashed = max(crashed, state.CrashedSlots)

		// The same file, damaged on its way.
		damaged := filepath.Join(dir, "damaged.db")
		for range 12 {
			bad := damage(rng, image)
			must(t, os.WriteFile(damaged, bad, 0o644))
			state, _, err := Read(damaged)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("round %d: a damaged file gives %v", round, err)
				}
				refused++
				continue
			}
			accepted++
			if state.Reserved <= highest || state.Reserved < len(slots) {
				t.Fatalf("round %d: a damaged file shows %+v, where slot %d was released", round, state, highest)
			}
		}
	}
	t.Logf("%d slots released in the longest run, %d lost in crashes, %d rounds in which two processes released; of damaged files %d were refused, %d unharmed",
		released, crashed, contended, refused, accepted)
	if released == 0 || crashed == 0 || contended == 0 || refused == 0 || accepted == 0 {
		t.Error("some kind of fault never came: the test shows less than it should")
	}
}

// damage flips bits, cuts, clears or grows a file, or moves pages about.
func damage(rng *rand.Rand, image []byte) []byte {
	bad := bytes.Clone(image)
	switch rng.IntN(6) {
	case 0:
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		}
	case 1:
		bad = bad[:rng.IntN(len(bad))]
	case 2:
		clear(bad[rng.IntN(len(bad)):])
	case 3:
		at := rng.IntN(len(bad))
		clear(bad[at:min(at+512, len(bad))])
	case 4:
		from, to := rng.IntN(len(bad)/pageSize)*pageSize, rng.IntN(len(bad)/pageSize)*pageSize
		copy(bad[to:to+pageSize], image[from:])
	default:
		bad = append(bad, make([]byte, 1+rng.IntN(2*pageSize))...)
	}
	return bad
}

// witnessed lists the slots of the witness file, and how many of some processes released any.
func witnessed(t *testing.T, path string, children []*exec.Cmd) (slots []int, active int) {
	t.Helper()
	b, err := os.ReadFile(path + ".witness")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if len(b)%16 != 0 {
		t.Fatalf("a release of %d bytes was witnessed", len(b)%16)
	}
	pids := map[int]bool{}
	for ; len(b) > 0; b = b[16:] {
		slots = append(slots, int(binary.LittleEndian.Uint64(b)))
		pids[int(binary.LittleEndian.Uint64(b[8:]))] = true
	}
	for _, c := range children {
		if pids[c.Process.Pid] {
			active++
		}
	}
	return slots, active
}
