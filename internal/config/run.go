package config

import (
	"errors"
	"io/fs"
	"os"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// ReadRun is Read of a run's own file. Its text comes by text, which may read it on another machine.
func ReadRun(dir string, into *Config, text func(read func() ([]byte, error)) ([]byte, error)) error {
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
	b, err := text(read)
	if err != nil {
		return err
	}
	if err := Parse(b, file, into); err != nil {
		return err
	}
	into.OfRun()
	if into.CountRecords == nil { // a run that counts says so, and older ones did not
		into.CountRecords = new(false)
	}
	return nil
}
