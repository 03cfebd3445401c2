package rundir

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

const (
	canaries = "canaries.json"
	heard    = "canaries" // of a checkpoint's metadata
)

// Coins say which canaries take part in a run. They are secret until the run has finished.
type Coins struct {
	Private bool  `json:"private"`
	Coins   []int `json:"coins"` // 1: the canary takes part
}

// KeepCoins has them on the disk when it returns, in place of any others.
func (d Dir) KeepCoins(coins []bool) error {
	c := Coins{Private: true}
	for _, partakes := range coins {
		one := 0
		if partakes {
			one = 1
		}
		c.Coins = append(c.Coins, one)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	dir, err := d.Private()
	if err != nil {
		return err
	}
	return dir.Write(canaries, append(b, '\n'))
}

// ReadCoins are those of so many canaries; nil where there is no file of them.
func (d Dir) ReadCoins(n int) ([]bool, error) {
	path := d.CoinsPath()
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("coins of the canaries: %w", err)
	}
	var c Coins
	coins := make([]bool, n)
	fair := json.Unmarshal(b, &c) == nil && len(c.Coins) == n
	for i := 0; fair && i < n; i++ {
		coins[i] = c.Coins[i] == 1
		fair = c.Coins[i] == 0 || c.Coins[i] == 1
	}
	if !fair {
		return nil, usage.Errorf("%s does not have the coins of %d canaries: restore it, or start a new run in another directory", path, n)
	}
	return coins, nil
}

// CoinsPath is the file of the coins, beside the run directory.
func (d Dir) CoinsPath() string { return Dir(d.Path(".") + private).Path(canaries) }

// ReadHeard is what the checkpoint has of canaries; nil where it has nothing of them.
func (d Dir) ReadHeard() ([]byte, error) {
	f, err := d.open(StateFile)
	if err != nil {
		return nil, usage.Errorf("%s cannot be read (%w): restore it", d.State(), usage.Cause(err))
	}
	defer f.Close()
	meta, err := safetensors.Metadata(f, mostModel)
	if err != nil {
		return nil, unreadable(d.State(), err)
	}
	return base64.StdEncoding.DecodeString(meta[heard])
}
