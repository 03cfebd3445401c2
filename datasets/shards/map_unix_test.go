//go:build darwin || freebsd || linux || netbsd || openbsd

package shards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/fault"
)

// A shard that gets shorter while its rows are read is an error that says so, in the goroutine that opened
// it and in one that said that it reads such rows.
func TestShardIsCutOff(t *testing.T) {
	dir := write(t, draw(400, [3]int{1, 32, 32}, false, false), 400, 1, 400)
	set, err := open(dir, datasets.Declared{})
	check(t, err)
	check(t, os.Truncate(filepath.Join(dir, "train-00000.shard"), grain))
	sum := func() (err error) {
		defer fault.Recover(&err)
		total := 0
		for _, b := range set.Train.Features {
			total += int(b)
		}
		t.Log(total)
		return nil
	}
	here, there := sum(), make(chan error)
	go func() {
		fault.Map()
		there <- sum()
	}()
	for _, err := range []error{here, <-there} {
		if err == nil || !strings.Contains(err.Error(), "a file of the data cannot be read any more") {
			t.Errorf("the error is %v", err)
		}
	}
}
