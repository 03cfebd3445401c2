package plan

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/cifar"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// A Source opens one data set; dir is empty for what is built in. A set that is built in
// is known to be the published one; files are what a configuration says of them.
type Source struct {
	Open    func(dir string) (*datasets.Set, error)
	Facts   func() *datasets.Set // the set without its records; nil where nothing is known before it is opened
	BuiltIn bool
}

// Layouts are the image sets that are read from files.
func Layouts() []*datasets.Layout { return []*datasets.Layout{&mnist.Layout, &cifar.Layout} }

// Sources are the data sets that are read from files.
func Sources() map[string]Source {
	all := map[string]Source{}
	for _, l := range Layouts() {
		all[l.Name] = Source{Open: l.Open, Facts: l.Facts}
	}
	return all
}

// DataDirVariable names the environment variable that stands in for --data-dir
// where a data set is read from files.
const DataDirVariable = "PRIVGRAD_DATA"

// TablePrefix begins the name of a data set that is a table, before its path.
const TablePrefix = "csv:"

// OpenData reads a configuration's data set and keeps the classes it asks for. It also
// says what was declared of it, as assumptions.
func OpenData(c *Config, sources map[string]Source) (*datasets.Set, []string, error) {
	return openData(c, sources, false)
}

// openData is OpenData, or of the set's public facts alone: then no record is opened.
func openData(c *Config, sources map[string]Source, facts bool) (*datasets.Set, []string, error) {
	set, builtIn, err := openSource(c, sources, facts)
	if err == nil && len(c.Classes) > 0 {
		set, err = set.Keep(c.Classes)
	}
	if err != nil {
		return nil, nil, usage.Wrap(err)
	}
	if builtIn {
		return set, nil, nil
	}
	return c.declare(*set)
}

// declare holds for public of a set from files what the user says of it, and nothing
// that follows from its records: what is shown would tell whether they are the
// published ones.
func (c *Config) declare(set datasets.Set) (_ *datasets.Set, assumed []string, err error) {
	switch {
	case c.PublishedSet && !set.Published:
		return nil, nil, usage.Errorf("published-set true: data set %s has a schema of its own, of which nothing was published; leave it out, and give --public-n and --delta", c.Data)
	case c.PublishedSet:
		assumed = append(assumed, publishedFiles)
	case set.Published:
		set.PublicN, set.PerClass, set.TestIsPublic = 0, nil, false
	}
	switch tested := set.Test.Shape != [3]int{}; {
	case c.TestIsPublic && c.Folds > 0:
		return nil, nil, usage.Errorf("test-is-public true: the fold that is held out has training records of the other folds' runs; leave it out, or use --data-is-public")
	case c.TestIsPublic && !tested:
		return nil, nil, usage.Errorf("test-is-public true: data set %s has no test records; name a file in test, or give a test_share, in its schema", c.Data)
	case c.DataIsPublic:
		set.TestIsPublic = tested
	case c.TestIsPublic || set.TestIsPublic && !c.PublishedSet: // by flag, or by the user's own schema
		set.TestIsPublic = true
		assumed = append(assumed, publicTest)
	}
	return &set, assumed, nil
}

func openSource(c *Config, sources map[string]Source, facts bool) (_ *datasets.Set, builtIn bool, err error) {
	if path, ok := strings.CutPrefix(c.Data, TablePrefix); ok {
		if c.DataDir != "" {
			return nil, false, usage.Errorf("data-dir %s: a table is read from the path that --data names; leave it out, and give --data %sPATH the whole path", c.DataDir, TablePrefix)
		}
		open := tabular.Open
		if facts {
			open = tabular.Facts
		}
		set, err := open(path, tabular.Options{Schema: c.Schema, Folds: c.Folds, Fold: c.Fold})
		return set, false, err
	}
	if c.Schema != "" || c.Folds != 0 {
		return nil, false, usage.Errorf("data set %s has a layout and a test set of its own: leave out --schema and --folds, which are for tables (--data %sPATH)", c.Data, TablePrefix)
	}
	source, ok := sources[c.Data]
	if names := slices.Sorted(maps.Keys(sources)); !ok {
		return nil, false, usage.Errorf("unknown data set %q%s: choose one of %s, or %sPATH for a table", c.Data, usage.Meant(c.Data, names), strings.Join(names, ", "), TablePrefix)
	}
	dir := c.DataDir
	switch {
	case source.BuiltIn && dir != "":
		return nil, false, usage.Errorf("data-dir %s: data set %s is built in; leave it out, or choose a data set that is read from files, such as mnist", dir, c.Data)
	case source.BuiltIn && (c.PublishedSet || c.TestIsPublic):
		return nil, false, usage.Errorf("data set %s is built in, and known to be the published one: leave out --published-set and --test-is-public", c.Data)
	case !source.BuiltIn && dir == "":
		if dir = os.Getenv(DataDirVariable); dir == "" {
			return nil, false, usage.Errorf("data set %s is read from files: give their directory by --data-dir or %s (privgrad data fetch gets them)", c.Data, DataDirVariable)
		}
	}
	switch {
	case !facts:
		set, err := source.Open(dir)
		return set, source.BuiltIn, err
	case source.Facts == nil:
		return nil, false, usage.Errorf("data set %s: nothing is known of it before its records are opened; leave out --dry-run", c.Data)
	}
	return source.Facts(), source.BuiltIn, nil
}

// Model describes a named model; Input is the shape of Fashion-MNIST where
// the model takes any.
func Model(name string) (nn.Info, error) {
	for _, m := range nn.Names() {
		if m.Name == name {
			if m.Input == [3]int{} {
				m.Input = [3]int{1, 28, 28}
			}
			return m, nil
		}
	}
	_, err := nn.Build(name, nn.Options{})
	return nn.Info{}, usage.Wrap(err)
}

// Means gives the average loss and accuracy of a score, nil where undefined.
func Means(s device.Score) (loss, accuracy *float64) {
	if s.Count == 0 {
		return nil, nil
	}
	loss = Finite(s.Loss / float64(s.Count))
	if s.Confusion != nil {
		accuracy = Finite(float64(s.Correct) / float64(s.Count))
	}
	return loss, accuracy
}
