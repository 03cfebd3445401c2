package rundir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// packed are the files from which a run goes on.
var packed = []string{Config, Ledger, Metrics, Features, Network, Frozen, filepath.Join(Checkpoints, state)}

// Pack gives the files from which a run goes on, for another process of it.
func (d Dir) Pack() ([]byte, error) {
	files := map[string][]byte{}
	for _, name := range packed {
		b, err := os.ReadFile(d.Path(name))
		if err == nil {
			files[name] = b
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return json.Marshal(files)
}

// Unpack writes what Pack gave.
func (d Dir) Unpack(pack []byte) error {
	files := map[string][]byte{}
	if err := json.Unmarshal(pack, &files); err != nil {
		return err
	}
	for _, name := range packed {
		b, ok := files[name]
		if !ok {
			continue
		}
		if err := Dir(filepath.Dir(d.Path(name))).Make(); err != nil {
			return err
		}
		if err := d.Write(name, b); err != nil {
			return err
		}
	}
	return nil
}
