// Package ledger keeps, durably, how many slots of a run's committed schedule
// have been charged.
//
// A slot is one step of the schedule that the accountant priced before the run.
// Reserve charges a block of slots on the disk before the first noise of that
// block is drawn, and Settle returns those of the block that released nothing. A
// crash in between leaves the whole block charged, so the ledger may count too
// much and never too little. Only who knows what became of that block may Adopt it. The ledger knows nothing of mechanisms, ε or data:
// it holds public settings and counts.
//
// A file is accepted only if every byte that bears on the charge is what the
// ledger wrote there. What no single file can show is that it was replaced by an
// older intact copy of itself; a caller that keeps a step count elsewhere, as a
// checkpoint does, should refuse a count above Charged.
package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/privgrad/privgrad/internal/durable"
)

var (
	// ErrMismatch: the ledger belongs to another run or to other settings.
	ErrMismatch = errors.New("the ledger belongs to a different run or to different settings")
	// ErrInUse: another process, or another Ledger of this one, holds the file.
	ErrInUse = errors.New("the ledger is in use")
	// ErrCorrupt: the file is not one that this package left behind.
	ErrCorrupt = errors.New("the ledger is damaged")
	// ErrExhausted: the committed schedule has fewer slots left than asked for.
	ErrExhausted = errors.New("the committed schedule is used up")
	// errNoBlock: Settle without a block that this Ledger reserved.
	errNoBlock = errors.New("no reserved block to settle")
	// errUnsettled: Reserve while this Ledger's last block is not settled.
	errUnsettled = errors.New("the last reserved block is not settled")
)

// A Header says which run a ledger belongs to. It never changes.
type Header struct {
	RunID       string // 16 bytes in lower-case hex
	Fingerprint string // of the public settings, in lower-case hex
	Committed   int    // slots T of the schedule that was priced
}

// NewRunID draws the identity of a new run.
func NewRunID() (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("the operating system gives no randomness: %w", err)
	}
	return hex.EncodeToString(id), nil
}

// A State counts slots. Settled + CrashedSlots + the block now open = Reserved ≤ Committed.
type State struct {
	Committed    int // slots of the whole schedule
	Reserved     int // slots charged, whether or not anything was released
	Settled      int // charged slots of blocks that ended cleanly
	CrashedSlots int // charged slots of blocks that a crash left open
}

// A Ledger is an open ledger file, locked against every other process. Its
// methods may be called from several goroutines.
type Ledger struct {
	path string

	mu    sync.Mutex
	store       // rec is what the last successful call left
	own   bool  // this Ledger reserved the open block
	err   error // the first failed write: what the disk holds is unknown after it
}

// Open opens the ledger at path, or creates it when there is no file. An existing
// ledger must carry want's header, where an empty want.RunID accepts the stored
// one; otherwise the error is ErrMismatch. ErrInUse and ErrCorrupt are the other
// two that a user can meet; a damaged file is never replaced.
func Open(path string, want Header) (_ *Ledger, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ledger %s: %w", path, err)
		}
	}()
	file, err := durable.Regular(path)
	if err == nil && file == nil {
		err = create(path, want)
	}
	if err != nil {
		return nil, err
	}
	// bbolt trusts the pages it maps, so they are checked before it may write.
	s, err := openStore(path, true)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.rec.Header.match(want), guard(s.db.Close)); err != nil {
		return nil, err
	}
	s, err = openStore(path, false)
	if err != nil {
		return nil, err
	}
	if err := s.rec.Header.match(want); err != nil {
		return nil, errors.Join(err, guard(s.db.Close))
	}
	return &Ledger{path: path, store: s}, nil
}

// Read reports what the ledger at path holds, without changing it. It fails with
// ErrInUse while a run holds the file. A block that nobody settled counts as
// crashed.
func Read(path string) (State, Header, error) {
	s, err := openStore(path, true)
	if err == nil {
		err = guard(s.db.Close)
	}
	if err != nil {
		return State{}, Header{}, fmt.Errorf("ledger %s: %w", path, err)
	}
	s.rec.abandon()
	return s.rec.state(), s.rec.Header, nil
}

// Reserve charges the next n slots, [first, first+n), and returns when that is on
// the disk. No noise of those slots may be drawn before, and none after an error.
// Once a write has failed, here or in Settle, every call fails: open the ledger anew.
func (l *Ledger) Reserve(n int) (first int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return 0, l.err
	case n <= 0:
		return 0, fmt.Errorf("ledger %s: cannot reserve %d slots: reserve at least 1", l.path, n)
	case l.own:
		return 0, fmt.Errorf("ledger %s: %w: settle its %d slots first", l.path, errUnsettled, l.rec.open)
	case n > l.rec.Committed-l.rec.reserved:
		return 0, fmt.Errorf("ledger %s: %w: asked for %d slots, %d of %d are left; reserve fewer or end the run",
			l.path, ErrExhausted, n, l.rec.Committed-l.rec.reserved, l.rec.Committed)
	}
	next := l.rec
	next.abandon()
	first = next.reserved
	next.reserved += n
	next.open = n
	if err := l.commit(next); err != nil {
		return 0, err
	}
	l.own = true
	return first, nil
}

// Settle ends the block that this Ledger reserved last: its first used slots were
// released, the others go back to the schedule.
func (l *Ledger) Settle(used int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case !l.own:
		return fmt.Errorf("ledger %s: %w", l.path, errNoBlock)
	case used < 0 || used > l.rec.open:
		return fmt.Errorf("ledger %s: cannot settle %d slots of a block of %d", l.path, used, l.rec.open)
	}
	next := l.rec
	next.reserved -= next.open - used
	next.open = 0
	if err := l.commit(next); err != nil {
		return err
	}
	l.own = false
	return nil
}

// Adopt takes over the block that an earlier Ledger reserved last and left open, [first, first+n), and says whether it is
// there. It is for those who know by other means how many of its slots were released: they settle it. A block that
// nobody adopts stays charged in full.
func (l *Ledger) Adopt(first, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && !l.own && n > 0 && l.rec.open == n && l.rec.reserved == first+n {
		l.own = true
		return true
	}
	return false
}

// Header returns the ledger's header.
func (l *Ledger) Header() Header {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Header
}

// State returns the counts as of the last successful call.
func (l *Ledger) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.rec
	if !l.own {
		rec.abandon()
	}
	return rec.state()
}

// Charged is State().Reserved: the slots to pay for, released or not.
func (l *Ledger) Charged() int { return l.State().Reserved }

// Close releases the file. A block not settled stays charged in full.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.db == nil {
		return nil
	}
	db := l.db
	l.db = nil
	if l.err == nil {
		l.err = fmt.Errorf("ledger %s: %w", l.path, os.ErrClosed)
	} else if errors.Is(l.err, errInterrupted) {
		return nil // bbolt's own locks may be held; the end of the process frees the file
	}
	if err := guard(db.Close); err != nil {
		return fmt.Errorf("ledger %s: closing: %w", l.path, err)
	}
	return nil
}

// commit makes next the record on the disk, then in memory.
func (l *Ledger) commit(next record) error {
	err := l.checkPlace()
	if err == nil {
		err = guard(func() error { return put(l.db, &next, l.rec.tx+1) })
	}
	if err != nil {
		l.err = fmt.Errorf("ledger %s: the charge could not be written, so nothing more may be released: %w; "+
			"free disk space or mend the disk, then resume", l.path, err)
		return l.err
	}
	l.rec = next
	return nil
}

// checkPlace finds out whether path still names the open file: a ledger that was
// moved or deleted would take charges that no later run finds.
func (l *Ledger) checkPlace() error {
	now, err := os.Stat(l.path)
	if err != nil {
		return err
	}
	if !os.SameFile(now, l.file) {
		return errors.New("the file was replaced while the run was using it")
	}
	return nil
}
