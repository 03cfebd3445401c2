// Package team is the processes of one run. Each makes the whole run, on its own records: sums are added up over all ranks before
// they are released, so that all have the same parameters and come to the same decisions. The run directory is that of rank 0. The
// others have a scratch directory each, which goes when they end.
package team

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Team is a group with what its ranks tell each other. Nil stands for one process alone.
type Team struct {
	collective.Group
	Scratch string  // the rank's own directory; empty at rank 0
	Kinds   []error // what may be asked of another rank's error
	Own     []error // errors of which the others know by themselves, or need not know
}

// Leave tells the others of an error that they have not come to.
func (t *Team) Leave(err error) {
	if t == nil {
		return
	}
	if err != nil && !collective.Agreed(err) && !slices.ContainsFunc(t.Own, func(own error) bool { return errors.Is(err, own) }) {
		t.Abort(err)
	}
	if t.Scratch != "" {
		os.RemoveAll(t.Scratch)
	}
}

// Part is the share of the records that the rank opens.
func (t *Team) Part() datasets.Rank {
	if t == nil {
		return datasets.Rank{}
	}
	return datasets.Rank{Rank: t.Rank(), Of: t.Size()}
}

// gpu is implemented by groups whose ranks have a GPU each.
type gpu interface{ GPU() int }

// Device names the one that the rank opens in the place of the configured one, as each needs another; "" for that.
func (t *Team) Device(configured string) string {
	if t == nil {
		return ""
	}
	if g, ok := t.Group.(gpu); ok && (configured == "auto" || configured == "cuda") {
		return fmt.Sprintf("cuda:%d", g.GPU())
	}
	return ""
}

// All gives every rank the error of the first that has one.
func (t *Team) All(err error) error {
	if t == nil {
		return err
	}
	for rank := range t.Size() {
		if _, err := collective.At(t, rank, t.Kinds, func() ([]byte, error) { return nil, err }); err != nil {
			return err
		}
	}
	return nil
}

// Like gives all ranks the error where one of them has other bytes than rank 0.
func (t *Team) Like(mine []byte, otherwise error) error {
	digest := sha256.Sum256(mine)
	root, err := t.Root(func() ([]byte, error) { return digest[:], nil })
	if err == nil && string(root) != string(digest[:]) {
		err = otherwise
	}
	return t.All(err)
}

// Same checks that all ranks have come to the same parameters, before they are saved.
func (t *Team) Same(params []float32) error {
	if t == nil {
		return nil
	}
	bits := make([]byte, 0, 4*len(params))
	for _, x := range params {
		bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(x))
	}
	return t.Like(bits, errors.New("its parameters are not those of rank 0: a processor computes other numbers; nothing was saved of these steps, which stay charged"))
}

// Alike refuses ranks that would not make one run together. Settings and the list of shards are public, and so is what says the
// kind of the machine.
func (t *Team) Alike(settings, shards, machine string) error {
	binary, err := program()
	if err = t.All(err); err != nil {
		return err
	}
	for _, x := range []struct{ mine, otherwise string }{
		{string(binary), "its program is not that of rank 0: copy one file to all machines"},
		{settings, "its settings or its public sizes are not those of rank 0: start all ranks with the same ones"},
		{shards, "its list of shards is not that of rank 0: give all machines the index that `privgrad data shard` wrote with the shards"},
		{machine, "its processor is not of the kind that rank 0 has, and computes other bits: use machines of one kind"},
	} {
		if err := t.Like([]byte(x.mine), usage.Errorf("%s", x.otherwise)); err != nil {
			return err
		}
	}
	return nil
}

// Shard is where the records that the rank holds are among all.
func (t *Team) Shard(held int) (datasets.Shard, error) {
	counts := make([]int64, t.Size())
	counts[t.Rank()] = int64(held)
	err := t.SumInt64(counts)
	return datasets.ShardOf(t.Rank(), counts), err
}

// Root has rank 0 do f for all, and gives every rank its bytes or its error.
func (t *Team) Root(f func() ([]byte, error)) ([]byte, error) {
	return collective.AtRoot(t, t.Kinds, f)
}

// Stopping says whether the run is to end: as rank 0 has it.
func (t *Team) Stopping(own bool) bool {
	if t == nil {
		return own
	}
	b, err := t.Root(func() ([]byte, error) { return fmt.Append(nil, own), nil })
	return err == nil && string(b) == "true" // what has failed fails again at the next release
}

// program is the digest of the file that this process runs.
var program = sync.OnceValues(func() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the program's own file cannot be read, which is compared with that of rank 0: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
})
