package train

import (
	"errors"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// Default is the run that a user gets who says nothing but ε or σ.
func Default() Config { return config.Default() }

// ReadConfig reads a YAML file over a configuration; unknown keys are errors.
func ReadConfig(path string, into *Config) error { return config.Read(path, into) }

// ReadRun is ReadConfig of a run's own file. The directory is on the machine of rank 0, which tells the other ranks; the group
// is nil where this process is alone.
func ReadRun(g collective.Group, dir string, into *Config) error {
	return config.ReadRun(dir, into, func(read func() ([]byte, error)) ([]byte, error) {
		if g == nil {
			return read()
		}
		return collective.AtRoot(g, nil, read)
	})
}

// A Source opens one data set of a program's own, by its name in Options.Sources:
//
//	Open    func(dir string) (*datasets.Set, error) // dir is Config.DataDir; empty where none was given
//	Facts   func() *datasets.Set                    // the set without its records, for dry runs; nil where nothing is known of it
//	BuiltIn bool                                    // the records are in the program, and are known to be the published ones
type Source = source.Source

// Sources are the data sets that are read from files.
func Sources() map[string]Source { return source.Sources() }

// Assumption is one of a result's in words; another version's stays as it is.
func Assumption(key string) string { return plan.Assumption(key) }

// ConfigFile is the configuration's, in a run directory, for a command line to name.
const ConfigFile = rundir.Config

// Initial says which tensors of a network began with the values of the file that --init names.
type Initial = plan.Initial

// A UsageError is a request that cannot be met as it stands: a bad setting, a
// bad file, a directory that is taken. Nothing was changed.
type UsageError = usage.Error

// ErrInterrupted says that a run stopped early because its context was cancelled, and
// was saved. The error of Run is one by errors.Is, and says how to go on.
var ErrInterrupted = errors.New("interrupted")

// ErrSlice says that all steps of a slice of a run are made and saved, so that it can be taken back.
var ErrSlice = errors.New("slice complete")

// ErrReport says that a run is complete, and that the files of its Reporter could not all be
// written. Run returns the result, too, which lists those that are there.
var ErrReport = errors.New("the report could not be written")
