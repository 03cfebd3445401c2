// Package data is the data sets that the command knows, and the commands about them.
package data

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/datasets/mnist/fashion"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// New is the command of data sets.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "data",
		Short:   "List, fetch, verify and shard data sets, and begin schemas",
		Long:    "data lists the data sets, fetches those that are not built in, begins a schema for your own table,\nverifies files, and cuts sets into shards.",
		Example: "  privgrad data list\n  privgrad data fetch mnist --data-dir data/mnist",
	}
	cmd.AddCommand(list(), fetch(), schema(), verify(), shard())
	return cmd
}

// Sources are train's data sets and the one that this binary carries.
func Sources() map[string]train.Source {
	s := train.Sources()
	s[mnist.Fashion.Name] = train.Source{BuiltIn: true, Facts: mnist.Fashion.Facts, Open: func(string) (*datasets.Set, error) { return openFashion() }}
	return s
}

var fashionOnce = sync.OnceValues(fashion.Open)

// openFashion unpacks the set once. Its records must stay as they are; the set around them is the caller's.
func openFashion() (*datasets.Set, error) {
	set, err := fashionOnce()
	if err != nil {
		return nil, err
	}
	own := *set
	return &own, nil
}

// layouts are the image sets that can be fetched and verified.
var layouts = append([]*datasets.Layout{&mnist.Fashion}, source.Layouts()...)

func layout(name string) (*datasets.Layout, error) {
	var names []string
	for _, l := range layouts {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return nil, usage.Unknown("data set", name, names)
}

// Names lists the data sets that train knows.
func Names() []string { return slices.Sorted(maps.Keys(Sources())) }

// TableNames lists the tables whose schemas are known.
func TableNames() []string {
	var names []string
	for _, k := range tabular.Schemas() {
		names = append(names, k.Name)
	}
	return names
}

// OfShape gives Fashion-MNIST to models of its shape, and nil to others. The program of
// make gpu-check-bundle carries no data: there it gives nil to all.
func OfShape(shape [3]int) (*datasets.Set, error) {
	if shape != mnist.Fashion.Shape {
		return nil, nil
	}
	set, err := openFashion()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return set, err
}

func needDirectory(flag, what string) (string, error) {
	dir := cmp.Or(flag, os.Getenv(config.DataDirVariable))
	if dir == "" {
		return "", usage.Errorf("no folder %s is given: name it by --data-dir, or in the environment variable %s", what, config.DataDirVariable)
	}
	return dir, nil
}
