package rundir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// A process is a line of Processes: one that began the run or went on with it. Its identity is random, so that two
// copies of a directory that both went on differ, even where their releases are alike.
type process struct {
	ID    string `json:"process"`
	Place string `json:"place"`
}

// placeBytes are enough to notice another place, but for one time in 65,536, and too few to find out by guessing which
// machine it was: of many names that one may guess, a part has the same two bytes.
const placeBytes = 2

// Begin notes a process that is about to make steps, and says whether the directory is elsewhere than where the last one
// had it: on another machine, or a copy. It says no where nothing was noted.
func (d Dir) Begin() (elsewhere bool, err error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return false, fmt.Errorf("the operating system gives no randomness: %w", err)
	}
	p := process{ID: hex.EncodeToString(id)}
	var before []process
	log, err := openLog(d.Path(Processes), func(line []byte) bool {
		var p process
		if json.Unmarshal(line, &p) != nil || p.ID == "" {
			return false
		}
		before = append(before, p)
		return true
	})
	if err != nil {
		return false, err
	}
	salt := p.ID
	if len(before) > 0 {
		salt = before[0].ID // one for all lines: that a place is there twice tells no more of it
	}
	if p.Place, err = d.Whereabouts(salt); err == nil {
		err = log.Append(p)
	}
	return len(before) > 0 && before[len(before)-1].Place != p.Place, errors.Join(err, log.Close())
}

// Whereabouts is a part of a digest of where the directory is. It tells neither the machine's name nor the path.
func (d Dir) Whereabouts(salt string) (string, error) {
	where, err := located(d.place())
	if err != nil {
		return "", err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "" // then the place in the file system decides alone
	}
	sum := sha256.Sum256([]byte(salt + "\n" + host + "\n" + where))
	return hex.EncodeToString(sum[:placeBytes]), nil
}
