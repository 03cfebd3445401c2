package config

import (
	"errors"
	"io/fs"
	"os"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// ReadRun is Read of a run's own file. The directory is on the machine of rank 0, which tells the other ranks; the group is
// nil where this process is alone.
func ReadRun(g collective.Group, dir string, into *Config) error {
	file := rundir.Dir(dir).Path(rundir.Config)
	read := func() ([]byte, error) {
		text, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = usage.Errorf("%s holds no run to resume: it has no %s; `privgrad train` starts one", dir, rundir.Config)
		case err != nil:
			err = usage.Errorf("%s: the run's %s %w", dir, rundir.Config, datasets.Unread(err, nil))
		}
		return text, err
	}
	var text []byte
	var err error
	if g == nil {
		text, err = read()
	} else {
		text, err = collective.AtRoot(g, nil, read)
	}
	if err != nil {
		return err
	}
	if err := Parse(text, file, into); err != nil {
		return err
	}
	into.OfRun()
	if into.CountRecords == nil { // a run that counts says so, and older ones did not
		into.CountRecords = new(false)
	}
	return nil
}
