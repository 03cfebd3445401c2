package datasets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Piped is the path of data that come through standard input, in the place of a file's. They are read once, whole,
// and no file holds them.
const Piped = "-"

// errNotPiped is of a process to which nobody pipes.
var errNotPiped = errors.New("nothing comes through standard input: pipe the data to the command; a run that is resumed needs the same data again")

// ReadPiped reads standard input to its end, of at most limit bytes. A terminal is not waited for. Its errors quote
// nothing of the data.
func ReadPiped(limit int64) ([]byte, error) {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return nil, errNotPiped
	}
	data, err := io.ReadAll(io.LimitReader(os.Stdin, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("standard input cannot be read to its end: %w", err)
	case len(data) == 0:
		return nil, errNotPiped
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("standard input has more than the limit of %d MiB: write shards (privgrad data shard)", limit>>20)
	}
	return slices.Clip(data), nil
}
