// Package source finds and opens the data that a configuration names, and settles what of them is public.
package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/cifar"
	"github.com/privgrad/privgrad/datasets/folder"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/datasets/numpy"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// What is assumed of data, by the keys of a result.
const (
	PublishedFiles = "files_are_the_published_ones"
	PublicTest     = "test_split_is_public"
)

// A Source opens one data set; dir is empty for what is built in, and where none was given for a source of one's own. A set that is built in
// is known to be the published one; files are what a configuration says of them.
type Source struct {
	Open    func(dir string) (*datasets.Set, error)
	Facts   func() *datasets.Set // the set without its records; nil where nothing is known before it is opened
	BuiltIn bool
}

// Layouts are the image sets that are read from files.
func Layouts() []*datasets.Layout {
	return []*datasets.Layout{&mnist.Layout, &cifar.Layout, &cifar.Layout100}
}

// Sources are the data sets that are read from files.
func Sources() map[string]Source {
	all := map[string]Source{}
	for _, l := range Layouts() {
		all[l.Name] = Source{Open: l.Open, Facts: l.Facts}
	}
	return all
}

// TablePrefix begins the name of a data set that is a table, before its path.
const TablePrefix = "csv:"

// Forms are the ways in which images and arrays of a user's own lie in files, and in which any set
// lies in shards.
func Forms() []*datasets.Form {
	return []*datasets.Form{&folder.Form, &numpy.Form, &shards.Form}
}

// FormOf gives the form of a data set by its name; nil where it has none.
func FormOf(data string) *datasets.Form {
	for _, f := range Forms() {
		if strings.HasPrefix(data, f.Prefix) {
			return f
		}
	}
	return nil
}

// OpenData reads a configuration's data set and keeps the classes it asks for. What it
// found of its settings outside of the configuration it fills in: where the files are, and
// what was declared in files beside them. It also says what was declared, as assumptions.
func OpenData(c *config.Config, sources map[string]Source) (*datasets.Set, []string, error) {
	return Open(c, sources, false, datasets.Rank{})
}

// OpenFiles reads a configuration's data set as it is, with all classes and what was published of it,
// or its facts alone.
func OpenFiles(c *config.Config, sources map[string]Source, facts bool) (*datasets.Set, error) {
	set, _, err := openSource(c, sources, facts, datasets.Rank{})
	return set, usage.Wrap(err)
}

// Open is OpenData, or of the set's public facts alone: then no record is opened. A rank gets its
// part of the training records.
func Open(c *config.Config, sources map[string]Source, facts bool, rank datasets.Rank) (*datasets.Set, []string, error) {
	if rank.Of > 1 && piped(c) {
		return nil, nil, usage.Errorf("data %s: standard input reaches one process alone, and this run has %d: give the path of a file", c.Data, rank.Of)
	}
	set, builtIn, err := openSource(c, sources, facts, rank)
	if err == nil && c.Users != "" && !facts {
		set, err = nameUsers(set, c.Users)
	}
	if err == nil {
		set, err = choose(c, set)
	}
	if err == nil && c.ByUser() {
		if c.Unit == config.OfSource && set.Train.Users == nil && !facts {
			return nil, nil, usage.Errorf("unit %s: data %s does not say whose its records are; give --users FILE", c.Unit, c.Data)
		}
		set, err = byUser(c, set)
	}
	if err == nil && !strings.HasPrefix(c.Data, shards.Form.Prefix) { // whose files are the parts
		set, err = set.Take(rank)
	}
	if err != nil {
		return nil, nil, usage.Wrap(err)
	}
	if builtIn {
		return set, nil, nil
	}
	return declare(c, *set)
}

// choose makes of a set's classes those of the task.
func choose(c *config.Config, set *datasets.Set) (_ *datasets.Set, err error) {
	positive := -1
	switch {
	case c.Positive != "" && set.Classes == 0:
		return nil, usage.Errorf("positive %s: %s has numbers for labels, and no classes; leave it out", c.Positive, c.Data)
	case c.Positive != "":
		if positive, err = set.Class(c.Positive); err != nil {
			return nil, fmt.Errorf("positive: %w", err)
		}
	}
	if len(c.Classes) > 0 {
		if set, err = set.Keep(c.Classes); err != nil {
			return nil, err
		}
		if positive >= 0 {
			if positive = slices.Index(c.Classes, positive); positive < 0 {
				return nil, usage.Errorf("positive %s: --classes leaves it out; name it there, too", c.Positive)
			}
		}
	}
	if positive >= 0 {
		set = set.Against(positive)
	}
	return set, nil
}

// declare holds for public of a set from files what the user says of it, and nothing
// that follows from its records: what is shown would tell whether they are the
// published ones.
func declare(c *config.Config, set datasets.Set) (_ *datasets.Set, assumed []string, err error) {
	switch {
	case c.PublishedSet && !set.Published:
		return nil, nil, usage.Errorf("published-set true: nothing was published of %s, which is your own; leave it out, and give --public-n and --delta", c.Data)
	case c.PublishedSet:
		assumed = append(assumed, PublishedFiles)
	case set.Published:
		set.PublicN, set.PerClass, set.TestIsPublic = 0, nil, false
	}
	switch tested := set.Test.Shape != [3]int{}; {
	case c.TestIsPublic && c.Folds > 0:
		return nil, nil, usage.Errorf("test-is-public true: the fold that is held out has training records of the other folds' runs; leave it out, or use --data-is-public")
	case c.TestIsPublic && !tested:
		return nil, nil, usage.Errorf("test-is-public true: data set %s has no test records; leave it out, or add some: a table's schema names them, images are in PATH/test, arrays are x_test and y_test", c.Data)
	case c.PublishedSet && !tested:
		return nil, nil, usage.Errorf("published-set true: the test files of %s are not there; add them, or leave it out, and give --public-n and --delta", c.Data)
	case c.DataIsPublic:
		set.TestIsPublic = tested
	case c.TestIsPublic || set.TestIsPublic && !c.PublishedSet: // by flag, or by the user's own schema
		set.TestIsPublic = true
		assumed = append(assumed, PublicTest)
	}
	return &set, assumed, nil
}

// openSource finds the form or the source of the data, and opens it, or its public facts alone.
func openSource(c *config.Config, sources map[string]Source, facts bool, rank datasets.Rank) (_ *datasets.Set, builtIn bool, err error) {
	form := FormOf(c.Data)
	isTable := strings.HasPrefix(c.Data, TablePrefix)
	switch {
	case !isTable && (c.Schema != "" || c.Folds != 0 || c.DropFirst):
		return nil, false, usage.Errorf("data set %s has a layout and a test set of its own: leave out --schema, --folds and drop_first, which are for tables (--data %sPATH)", c.Data, TablePrefix)
	case form == nil && !isTable && sources[c.Data].Open == nil:
		// openPublished says that nothing has this name
	case form == nil && (len(c.ClassNames) > 0 || c.ImageSize != ""):
		return nil, false, usage.Errorf("data set %s has classes and sizes of its own: leave out --class-names and --image-size, which are for data of your own (--data %s)", c.Data, formNames())
	case form != nil:
		set, err := openForm(c, form, facts, rank)
		return set, false, err
	case isTable:
		set, err := openTable(c, facts)
		return set, false, err
	}
	return openPublished(c, sources, facts)
}

func openTable(c *config.Config, facts bool) (*datasets.Set, error) {
	path, err := Path(c)
	if err != nil {
		return nil, err
	}
	open := tabular.Open
	if facts {
		open = tabular.Facts
	}
	return open(path, tableOptions(c))
}

func tableOptions(c *config.Config) tabular.Options {
	return tabular.Options{Schema: c.Schema, Text: c.SchemaText, Folds: c.Folds, Fold: c.Fold, DropFirst: c.DropFirst, Places: c.Traits().Local, User: c.UserColumn()}
}

// Unlabeled reads the records of a file as the table of the configuration has them, to predict their labels. Doubts say
// what could not be read.
func Unlabeled(c *config.Config, file string) (records *datasets.Split, doubts []string, err error) {
	path, err := Path(c)
	if err != nil {
		return nil, nil, err
	}
	records, doubts, err = tabular.Unlabeled(file, path, tableOptions(c))
	return records, doubts, usage.Wrap(err)
}

// openPublished opens a set of the sources.
func openPublished(c *config.Config, sources map[string]Source, facts bool) (_ *datasets.Set, builtIn bool, err error) {
	source, ok := sources[c.Data]
	if names := slices.Sorted(maps.Keys(sources)); !ok {
		return nil, false, UnknownData(c.Data, names)
	}
	switch {
	case source.BuiltIn && c.DataDir != "":
		return nil, false, usage.Errorf("data-dir %s: data set %s is built in; leave it out, or choose a data set that is read from files, such as mnist", c.DataDir, c.Data)
	case source.BuiltIn && (c.PublishedSet || c.TestIsPublic):
		return nil, false, usage.Errorf("data set %s is built in, and known to be the published one: leave out --published-set and --test-is-public", c.Data)
	case facts && source.Facts == nil:
		return nil, false, usage.Errorf("data set %s: nothing is known of it before its records are opened; leave out --dry-run", c.Data)
	case facts:
		return source.Facts(), source.BuiltIn, nil
	case source.BuiltIn:
		set, err := source.Open("")
		return set, true, err
	}
	_, published := Sources()[c.Data]
	switch c.DataDir = cmp.Or(c.DataDir, os.Getenv(config.DataDirVariable)); {
	case c.DataDir == "" && !published: // a source of a program's own, which may read no files
		set, err := source.Open("")
		return set, false, err
	case c.DataDir == "":
		return nil, false, usage.Errorf("data set %s is read from files: give their directory by --data-dir or %s (privgrad data fetch gets them)", c.Data, config.DataDirVariable)
	}
	if c.DataDir, err = filepath.Abs(written.Path(c.DataDir)); err != nil {
		return nil, false, err
	}
	set, err := source.Open(c.DataDir)
	return set, false, err
}

// openForm opens data of a form, and notes what its files declare.
func openForm(c *config.Config, form *datasets.Form, facts bool, rank datasets.Rank) (*datasets.Set, error) {
	path, err := Path(c)
	if err != nil {
		return nil, err
	}
	open := form.Open
	if facts {
		open = form.Facts
	}
	set, err := open(path, datasets.Declared{Size: c.ImageSize, Classes: c.ClassNames, Rank: rank})
	if err != nil {
		return nil, err
	}
	c.ImageSize, c.ClassNames = datasets.SizeText(set.Train.Shape), set.ClassNames
	return set, nil
}

// recordsOf names the data set whose records these are, as far as a configuration tells: shards count as those of the
// published images that have the same classes and size.
func RecordsOf(c *config.Config) string {
	if strings.HasPrefix(c.Data, shards.Form.Prefix) {
		for _, l := range append(Layouts(), &mnist.Fashion) {
			if slices.Equal(l.ClassNames, c.ClassNames) && datasets.SizeText(l.Shape) == c.ImageSize {
				return l.Name
			}
		}
	}
	return c.Data
}

// UnknownData is the error of a name that is neither a known data set's nor one of own data.
func UnknownData(name string, known []string) error {
	if err := datasets.CheckName(name); err != nil {
		return usage.Wrap(err)
	}
	prefixes := []string{TablePrefix}
	for _, f := range Forms() {
		prefixes = append(prefixes, f.Prefix)
	}
	meant := usage.Meant(name, known)
	if kind, _, own := strings.Cut(name, ":"); own {
		meant = usage.Meant(kind+":", prefixes)
	}
	for _, p := range prefixes {
		if strings.HasSuffix(name, "."+strings.TrimSuffix(p, ":")) {
			meant = fmt.Sprintf(" (did you mean %s%s?)", p, name)
		}
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		meant = fmt.Sprintf(", which is a folder (did you mean %s%s?)", folder.Form.Prefix, name)
	}
	return usage.Errorf("unknown data set %q%s: choose one of %s; or of your own %sPATH (a table), %s (images, arrays and shards)", name, meant, strings.Join(known, ", "), TablePrefix, formNames())
}

// formNames lists what the names of forms look like.
func formNames() string {
	var all []string
	for _, f := range Forms() {
		all = append(all, f.Prefix+"PATH")
	}
	return strings.Join(all, ", ")
}

// Path is the whole path that Data names behind a prefix. The directory to which that was
// relative is kept in DataDir, so that the configuration means the same elsewhere: the
// working directory, or the given one. Tables may lie in a folder of it. Of what comes
// through standard input it is datasets.Piped.
func Path(c *config.Config) (string, error) {
	prefix, name, _ := strings.Cut(c.Data, ":")
	if piped(c) {
		if c.DataDir != "" {
			return "", usage.Errorf("data-dir %s: --data %s comes through standard input; leave one of them out", c.DataDir, c.Data)
		}
		return datasets.Piped, nil
	}
	folders := []string{""}
	if prefix+":" == TablePrefix {
		folders = append(folders, "tabular")
	}
	if filepath.IsAbs(name) {
		if c.DataDir != "" {
			return "", usage.Errorf("data-dir %s: --data names a whole path; leave one of them out, or name the path from --data-dir on", c.DataDir)
		}
		return written.Path(name), nil
	}
	bases := []string{c.DataDir}
	if c.DataDir == "" {
		bases = []string{"."}
		if dir := os.Getenv(config.DataDirVariable); dir != "" {
			bases = append(bases, dir)
		}
	}
	for i := range bases {
		base, err := filepath.Abs(written.Path(bases[i]))
		if err != nil {
			return "", err
		}
		bases[i] = base
		for _, folder := range folders {
			path := leads(filepath.Join(base, folder), name)
			if isThere(path) {
				c.DataDir = base
				return path, nil
			}
		}
	}
	c.DataDir = bases[0] // what opens it says that nothing is there
	return leads(bases[0], name), nil
}

// piped says whether the data come through standard input.
func piped(c *config.Config) bool {
	return c.Data == TablePrefix+datasets.Piped || c.Data == numpy.Form.Prefix+datasets.Piped
}

// leads is where a path leads from a folder.
func leads(folder, name string) string {
	return written.Path(folder + string(filepath.Separator) + name)
}

// isThere says whether a path leads to something. Tables may be compressed.
func isThere(path string) bool {
	return slices.ContainsFunc([]string{"", ".gz"}, func(end string) bool {
		_, err := os.Stat(path + end)
		return err == nil || errors.Is(err, fs.ErrPermission) // it may be there
	})
}

// Absent is the path of data of the user's own, if nothing is there; else it is empty.
func Absent(c config.Config) string {
	if !strings.HasPrefix(c.Data, TablePrefix) && FormOf(c.Data) == nil {
		return ""
	}
	path, err := Path(&c)
	if err != nil || path == datasets.Piped || isThere(path) {
		return ""
	}
	return path
}

// StatedN is the number of training records that the configuration stands for: the declared
// one, or that of a published image set, of the classes that are kept. It is 0 where a
// table's schema says more of it, or the index of shards.
func StatedN(c config.Config) (int, error) {
	if strings.HasPrefix(c.Data, TablePrefix) || strings.HasPrefix(c.Data, shards.Form.Prefix) {
		return 0, nil
	}
	if c.PublicN != nil {
		return *c.PublicN, nil
	}
	for _, l := range append(Layouts(), &mnist.Fashion) {
		if l.Name == c.Data {
			set, err := choose(&c, l.Facts())
			if err != nil {
				return 0, err
			}
			return set.PublicN, nil
		}
	}
	return 0, nil
}

// declares is what declare assumes of files, whatever is in them.
func Declares(c config.Config) (assumed []string) {
	files := FormOf(c.Data) != nil || strings.HasPrefix(c.Data, TablePrefix)
	for _, l := range Layouts() {
		files = files || l.Name == c.Data
	}
	if files && c.PublishedSet {
		assumed = append(assumed, PublishedFiles)
	}
	if files && c.TestIsPublic && !c.DataIsPublic {
		assumed = append(assumed, PublicTest)
	}
	return assumed
}

// CheckCommand is the command that shows the owner of the data's files what training would make of them;
// empty for data that no command checks.
func CheckCommand(c *config.Config) string {
	form := FormOf(c.Data)
	format := slices.ContainsFunc(Layouts(), func(l *datasets.Layout) bool { return l.Name == c.Data })
	if form == nil && !strings.HasPrefix(c.Data, TablePrefix) && !format {
		return ""
	}
	line := "privgrad data verify " + usage.Quote(c.Data)
	if piped(c) {
		line = "… | " + line
	}
	add := func(flag, value string) {
		if value != "" {
			line += " --" + flag + " " + usage.Quote(value)
		}
	}
	if form != nil {
		add("class-names", strings.Join(c.ClassNames, ","))
		add("image-size", c.ImageSize)
	}
	add("schema", c.Schema)
	if here, err := os.Getwd(); err != nil || c.DataDir != here {
		add("data-dir", c.DataDir)
	}
	return line
}

// Known says whether the data are a set, or of a form, that comes with privgrad.
func Known(c *config.Config) bool {
	if strings.HasPrefix(c.Data, TablePrefix) || FormOf(c.Data) != nil || c.Data == mnist.Fashion.Name {
		return true
	}
	_, known := Sources()[c.Data]
	return known
}
