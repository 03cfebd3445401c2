package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
)

// A record is all that a ledger stores.
type record struct {
	Header
	tx       uint64 // the bbolt transaction that wrote it
	reserved int
	open     int // the last slots of reserved, of a block not settled
	crashed  int
}

// abandon counts the open block as lost in a crash.
func (r *record) abandon() {
	r.crashed += r.open
	r.open = 0
}

func (r *record) state() State {
	return State{
		Committed:    r.Committed,
		Reserved:     r.reserved,
		Settled:      r.reserved - r.open - r.crashed,
		CrashedSlots: r.crashed,
	}
}

const (
	recordMagic    = "PGLEDGE1"
	runIDSize      = 16
	maxFingerprint = 64
	fixedSize      = len(recordMagic) + 5*8 + runIDSize
)

// encode lays the record out as magic, five little-endian uint64 counts, run ID,
// fingerprint and the SHA-256 of all that. The header must be valid.
func (r *record) encode() []byte {
	b := []byte(recordMagic)
	for _, n := range []uint64{r.tx, uint64(r.Committed), uint64(r.reserved), uint64(r.open), uint64(r.crashed)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b, _ = hex.AppendDecode(b, []byte(r.RunID+r.Fingerprint))
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func decode(b []byte) (record, error) {
	body := len(b) - sha256.Size
	if body < fixedSize+1 || body > fixedSize+maxFingerprint {
		return record{}, corrupt("its record has %d bytes", len(b))
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return record{}, corrupt("its record fails its checksum")
	}
	if string(b[:len(recordMagic)]) != recordMagic {
		return record{}, corrupt("its record has an unknown format")
	}
	var n [5]uint64
	for i := range n {
		n[i] = binary.LittleEndian.Uint64(b[len(recordMagic)+8*i:])
	}
	committed, reserved, open, crashed := n[1], n[2], n[3], n[4]
	if committed > math.MaxInt || reserved > committed || open > reserved || crashed > reserved-open {
		return record{}, corrupt("its counts contradict each other")
	}
	return record{
		Header: Header{
			RunID:       hex.EncodeToString(b[fixedSize-runIDSize : fixedSize]),
			Fingerprint: hex.EncodeToString(b[fixedSize:body]),
			Committed:   int(committed),
		},
		tx:       n[0],
		reserved: int(reserved),
		open:     int(open),
		crashed:  int(crashed),
	}, nil
}

func (h Header) validate() error {
	if !isHex(h.RunID, runIDSize, runIDSize) {
		return fmt.Errorf("run id %.80q: a new ledger needs %d bytes in lower-case hex", h.RunID, runIDSize)
	}
	if !isHex(h.Fingerprint, 1, maxFingerprint) {
		return fmt.Errorf("fingerprint %.80q: a new ledger needs 1 to %d bytes in lower-case hex", h.Fingerprint, maxFingerprint)
	}
	if h.Committed < 0 {
		return fmt.Errorf("committed slots %d: must not be negative", h.Committed)
	}
	return nil
}

func isHex(s string, low, high int) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && hex.EncodeToString(raw) == s && low <= len(raw) && len(raw) <= high
}

// match reports every field in which the stored header h differs from want.
func (h Header) match(want Header) error {
	var differs []string
	if want.RunID != "" && want.RunID != h.RunID {
		differs = append(differs, fmt.Sprintf("run id: stored %s, wanted %.80s", h.RunID, want.RunID))
	}
	if want.Fingerprint != h.Fingerprint {
		differs = append(differs, fmt.Sprintf("settings fingerprint: stored %s, wanted %.160s", h.Fingerprint, want.Fingerprint))
	}
	if want.Committed != h.Committed {
		differs = append(differs, fmt.Sprintf("committed slots: stored %d, wanted %d", h.Committed, want.Committed))
	}
	if len(differs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s; resume with the settings it was made with, or use another directory",
		ErrMismatch, strings.Join(differs, "; "))
}
