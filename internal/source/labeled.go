package source

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/folder"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/usage"
)

// OpenLabeled reads the test records of other data, all of them public, as the configuration's own are read: its classes,
// schema and size hold for them. A path alone is of the kind of the configuration's own data. It gives what is odd about the
// records, too, and no record to train on.
func OpenLabeled(c config.Config, data, dataDir string, sources map[string]Source) (*datasets.Set, []string, error) {
	prefix, _, own := strings.Cut(c.Data, ":")
	if FormOf(data) == nil && !strings.HasPrefix(data, TablePrefix) && sources[data].Open == nil && own && !strings.Contains(data, ":") {
		data = prefix + ":" + data
	}
	set, err := openLabeled(c, data, dataDir, sources)
	if err == nil {
		if set.PerClass == nil { // of which Keep would make a public number: there is none to train on
			set.PerClass = make([]int, set.Classes)
		}
		set, err = choose(&c, set)
	}
	if err != nil {
		return nil, nil, usage.Wrap(err)
	}
	return set, append(set.TestDoubts, Unusable(set)...), nil
}

func openLabeled(c config.Config, data, dataDir string, sources map[string]Source) (*datasets.Set, error) {
	form, isTable := FormOf(data), strings.HasPrefix(data, TablePrefix)
	trained := c
	c.Data, c.DataDir = data, dataDir
	if form == nil && !isTable {
		if data == trained.Data {
			c.DataDir = cmp.Or(dataDir, trained.DataDir)
		}
		c.PublishedSet, c.TestIsPublic = false, false // they are of the set that was trained on
		set, _, err := openPublished(&c, sources, false)
		return set, err
	}
	path, err := Path(&c)
	if err != nil {
		return nil, err
	}
	of := trained
	own, err := Path(&of) // which fills in where it was found
	if err != nil {
		return nil, err
	}
	switch {
	case isTable && !strings.HasPrefix(trained.Data, TablePrefix) && trained.SchemaText == "": // its own schema is all that there is
		return tabular.Labeled(path, path, tableOptions(&trained))
	case isTable:
		return tabular.Labeled(path, own, tableOptions(&trained))
	case form == &folder.Form && FormOf(trained.Data) == form && sameFolder(path, filepath.Join(own, "train")):
		return nil, usage.Errorf("folder %s has the images that the model was trained on: give others", path)
	}
	declared := datasets.Declared{Size: c.ImageSize}
	if form != &shards.Form { // which says itself
		if declared.Classes, err = allClasses(trained, sources); err != nil {
			return nil, err
		}
	}
	return form.Labeled(path, declared)
}

func sameFolder(a, b string) bool {
	first, e1 := os.Stat(a)
	second, e2 := os.Stat(b)
	return e1 == nil && e2 == nil && os.SameFile(first, second)
}

// allClasses are the names of the classes of the data, before some were chosen; nil where nobody knows.
func allClasses(c config.Config, sources map[string]Source) ([]string, error) {
	if c.ClassNames != nil {
		return c.ClassNames, nil
	}
	c.ImageSize = "" // which sets of other kinds do not take
	set, err := OpenFiles(&c, sources, true)
	if err != nil {
		return nil, nil // those of a class file
	}
	if set.Classes == 0 {
		return nil, usage.Errorf("%s has numbers for labels, and no classes: give a table with such numbers", c.Data)
	}
	return set.Names(), nil
}
