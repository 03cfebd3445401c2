package ledger

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// history returns the file after each of calls, where a positive number reserves
// that many slots and any other settles that many, negated.
func history(t *testing.T, calls ...int) (images [][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 1000)
	defer l.Close()
	for _, n := range calls {
		if n > 0 {
			_, err := l.Reserve(n)
			must(t, err)
		} else {
			must(t, l.Settle(-n))
		}
		image, err := os.ReadFile(path)
		must(t, err)
		images = append(images, image)
	}
	return images
}

func mustVerify(t *testing.T, image []byte) record {
	t.Helper()
	rec, err := verify(image)
	must(t, err)
	return rec
}

// A single flipped bit is found, or it lies where nothing reads and the record is
// exactly the one that was written.
func TestFlippedBits(t *testing.T) {
	for _, image := range history(t, 10, -7, 20) {
		want := mustVerify(t, image)
		accepted := 0
		for at := range image {
			// Every bit of what carries a value, one bit of each byte of the padding.
			bits := []byte{1 << (at % 8)}
			if at%pageSize < 400 {
				bits = []byte{1, 2, 4, 8, 16, 32, 64, 128}
			}
			for _, bit := range bits {
				image[at] ^= bit
				got, err := verify(image)
				image[at] ^= bit
				if err == nil && got != want {
					t.Fatalf("bit %#x of byte %d: %+v, was %+v", bit, at, got, want)
				}
				if err != nil && !errors.Is(err, ErrCorrupt) {
					t.Fatalf("bit %#x of byte %d: %v", bit, at, err)
				}
				if err == nil {
					accepted++
					if page := at / pageSize; page < 2 {
						t.Fatalf("bit %#x of byte %d: meta page %d was not checked", bit, at, page)
					}
				}
			}
		}
		if accepted == 0 {
			t.Fatal("no flip in a free page was accepted: the test flips nothing")
		}
	}
}

// What a damaged file does to a whole use: an error, or no charge is lost.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "ledger.db")
	images := history(t, 10, -7, 20)
	try := func(name string, image []byte, charged int) {
		t.Helper()
		must(t, os.WriteFile(path, image, 0o644))
		_, _, readErr := Read(path)
		l, err := Open(path, header(1000))
		if (readErr == nil) != (err == nil) {
			t.Fatalf("%s: Read says %v, Open %v", name, readErr, err)
		}
		if err != nil {
			left, _ := os.ReadFile(path)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) || !bytes.Equal(left, image) {
				t.Fatalf("%s: %v, file kept: %t", name, err, bytes.Equal(left, image))
			}
			return
		}
		defer l.Close()
		if l.Charged() < charged {
			t.Fatalf("%s: %d charged, was %d", name, l.Charged(), charged)
		}
		mustReserve(t, l, 5, l.Charged())
		must(t, l.Settle(2))
	}

	for _, image := range images {
		charged := mustVerify(t, image).reserved
		for size := 0; size < len(image); size += 1 + rng.IntN(700) {
			try("truncated", image[:size], charged)
			rest := bytes.Clone(image)
			clear(rest[size:])
			try("zeroed to the end", rest, charged)
		}
		for size := 0; size <= len(image); size += pageSize {
			try("truncated to pages", image[:size], charged)
		}
		for range 200 {
			bad := bytes.Clone(image)
			for range 1 + rng.IntN(3) {
				bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			}
			try("flipped", bad, charged)
		}
		try("longer", append(bytes.Clone(image), make([]byte, pageSize)...), charged)
		try("too long", append(bytes.Clone(image), make([]byte, maxSize)...), charged)
	}
	noise := make([]byte, len(images[0]))
	for range 20 {
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		try("noise", noise, 0)
	}
}

// A power loss keeps any of the pages that were being written, and of each any
// sectors. Pages are synced before the meta page that makes them count.
func TestPowerLoss(t *testing.T) {
	const sector = 512
	images := history(t, 10, -7, 20, -20, 3, -3)
	path := filepath.Join(t.TempDir(), "ledger.db")
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range images[1:] {
		before, after := images[i], images[i+1]
		was, is := mustVerify(t, before), mustVerify(t, after)

		for range 20 {
			state := bytes.Clone(before)
			for at := 2 * pageSize; at < len(state); at += sector {
				if rng.IntN(2) == 0 {
					copy(state[at:at+sector], after[at:])
				}
			}
			if got := mustVerify(t, state); got != was {
				t.Fatalf("call %d, torn pages: %+v, was %+v", i+1, got, was)
			}
			must(t, os.WriteFile(path, state, 0o644))
			l := mustOpen(t, path, 1000)
			mustReserve(t, l, 1, was.reserved)
			must(t, l.Close())
		}
		for at := 0; at <= 2*pageSize; at += sector {
			state := bytes.Clone(after)
			copy(state[at:2*pageSize], before[at:])
			if got := mustVerify(t, state); got != was && got != is {
				t.Fatalf("call %d, torn meta page: %+v, want %+v or %+v", i+1, got, was, is)
			}
		}
	}
}

// A disk that acknowledges a page and loses it must not lower the charge, as long
// as the meta page of the same write is there.
func TestLostPages(t *testing.T) {
	images := history(t, 10, -7, 20, -20, 3, -3, 8, -1)
	for i := range images[1:] {
		after := images[i+1]
		is := mustVerify(t, after)
		for _, before := range images[:i+1] {
			for page := 2 * pageSize; page < len(after); page += pageSize {
				state := bytes.Clone(after)
				copy(state[page:page+pageSize], before[page:])
				if got, err := verify(state); err == nil && got != is {
					t.Fatalf("call %d, page %d: %+v, want %+v", i+1, page/pageSize, got, is)
				}
			}
		}
	}
}

// A meta page with a good checksum can still point anywhere.
func TestForgedMeta(t *testing.T) {
	image := history(t, 10)[0]
	path := filepath.Join(t.TempDir(), "ledger.db")
	good := [2]meta{parseMeta(image), parseMeta(image[pageSize:])}
	const far = 1 << 60
	for _, change := range []func(*meta){
		func(m *meta) { m.root = far },
		func(m *meta) { m.root = 0 },
		func(m *meta) { m.root = m.freelist },
		func(m *meta) { m.freelist = far },
		func(m *meta) { m.freelist = 1 },
		func(m *meta) { m.pages = far },
		func(m *meta) { m.pages = 2 },
		func(m *meta) { m.pages++ },
		func(m *meta) { m.tx += 2 },
		func(m *meta) { m.tx += far },
		func(m *meta) { m.root, m.freelist = m.freelist, m.root },
	} {
		bad := bytes.Clone(image)
		for i, m := range good {
			change(&m)
			copy(bad[i*pageSize:], m.page())
		}
		must(t, os.WriteFile(path, bad, 0o644))
		if _, err := Open(path, header(1000)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v: %v", parseMeta(bad), err)
		}
	}
	older := good[0]
	older.tx -= 2
	copy(image, older.page())
	if _, err := verify(image); !errors.Is(err, ErrCorrupt) {
		t.Errorf("meta pages of transactions %d and %d: %v", older.tx, good[1].tx, err)
	}
}

// bbolt meets the hole in its memory map as a fault, which ends most programs.
func TestTruncatedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 10)
	mustReserve(t, l, 3, 0)
	must(t, os.Truncate(path, 0))
	if err := l.Settle(1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("settling in a truncated file: %v", err)
	}
	if _, err := l.Reserve(1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reserving in a truncated file: %v", err)
	}
	wantState(t, l.State(), State{Committed: 10, Reserved: 3})
	must(t, l.Close())
}

// bbolt falls back to the older meta page when the newer one goes bad, and would
// write the next charge as if the last had never been.
func TestMetaLostWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path, 10)
	defer l.Close()
	mustReserve(t, l, 3, 0)
	image, err := os.ReadFile(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{^image[pageSize+pageHeader+48]}, pageSize+pageHeader+48)
	must(t, errors.Join(err, f.Close()))
	if err := l.Settle(1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "transaction 3 stands where 4") {
		t.Errorf("settling after the meta page went bad: %v", err)
	}
}
