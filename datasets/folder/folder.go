// Package folder reads images of a user's own from class folders: PATH/train/CLASS/*.png,
// .jpg and .jpeg, and PATH/test/CLASS/*.
//
// Classes and size are declared, never found out. Each file of a listed class is a
// record, which is read by itself: one that cannot be read or decoded, or is too large by
// its header, counts as zero, without a word. Folders that are not listed, links and files
// with other names are no records. A listed class without a folder has no records.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/fault"
)

// Form reads image folders.
var Form = datasets.Form{Prefix: "dir:", Open: open, Facts: facts, Verify: verify}

// ClassFile is the file in PATH that lists the classes where they are not declared.
const ClassFile = "classes.txt"

// endings are those of the files that are records.
var endings = []string{".png", ".jpg", ".jpeg"}

// facts is the set as it is declared, without its records. Of the test folder it lists names,
// for doubts that are shown where that is public; it never looks at the training folder.
func facts(path string, d datasets.Declared) (*datasets.Set, error) {
	set, err := d.Facts(path, filepath.Join(path, ClassFile))
	if err != nil {
		return nil, err
	}
	set.Moves = true // records stand in the order of their classes and names
	if dir := filepath.Join(path, "test"); isFolder(dir) {
		met := listSplit(dir, set.ClassNames)
		set.TestDoubts = met.doubts(set.ClassNames)
	}
	return set, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func open(path string, d datasets.Declared) (*datasets.Set, error) {
	set, _, _, err := read(path, d)
	return set, err
}

// seen is what was met in a split. It is private.
type seen struct {
	names          []string
	verdicts       []verdict
	folders        []fs.FileInfo // of classes
	links, unnamed int           // in class folders: not read
	counts         []int         // of the records of each class
	unlisted       []string      // folders of no class, and files beside those
	others         []string      // the names of the folders among these, but for hidden ones
}

// read gives the set and what was met in its splits.
func read(path string, d datasets.Declared) (set *datasets.Set, train, test seen, err error) {
	if !isFolder(filepath.Join(path, "train")) {
		return nil, train, test, fmt.Errorf("there is no folder %s: put the training images there, in one folder per class", filepath.Join(path, "train"))
	}
	if set, err = d.NewSet(path, filepath.Join(path, ClassFile)); err != nil {
		return nil, train, test, err
	}
	shape := set.Train.Shape
	if shape[0] != 1 && shape[0] != 3 || set.Train.Unit {
		return nil, train, test, fmt.Errorf("image-size %s: images are gray or have three colors; write HxW or 3xHxW", d.Size)
	}
	for _, name := range set.ClassNames {
		if name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
			return nil, train, test, fmt.Errorf("class-names: %q cannot be the name of a folder: name classes as their folders in %s", name, filepath.Join(path, "train"))
		}
	}
	set.Reading, set.Moves = "images by area means", true
	if set.Train, train, err = split(filepath.Join(path, "train"), set.ClassNames, shape); err != nil {
		return nil, train, test, err
	}
	if !isFolder(filepath.Join(path, "test")) {
		return set, train, test, nil
	}
	set.Test, test, err = split(filepath.Join(path, "test"), set.ClassNames, shape)
	set.TestDoubts = test.doubts(set.ClassNames)
	return set, train, test, err
}

// split reads the class folders of one split.
func split(dir string, classes []string, shape [3]int) (datasets.Split, seen, error) {
	s, met := datasets.Split{Shape: shape}, listSplit(dir, classes)
	for class, n := range met.counts {
		s.Labels = append(s.Labels, slices.Repeat([]uint8{uint8(class)}, n)...)
	}
	record := shape[0] * shape[1] * shape[2]
	s.Features, met.verdicts = make([]uint8, len(met.names)*record), make([]verdict, len(met.names))
	d := decoder{shape: shape}
	var next atomic.Int64
	err := parallel(func() {
		for i := next.Add(1) - 1; int(i) < len(met.names); i = next.Add(1) - 1 {
			v := d.read(met.names[i], s.Features[int(i)*record:][:record])
			if met.verdicts[i] = v; v >= oversized {
				s.Labels[i] = datasets.NoClass
			}
		}
	})
	return s, met, err
}

// listSplit lists the records of one split, and what lies beside its class folders.
func listSplit(dir string, classes []string) (met seen) {
	for _, name := range classes {
		before := len(met.names)
		met.list(filepath.Join(dir, name))
		met.counts = append(met.counts, len(met.names)-before)
	}
	beside, _ := os.ReadDir(dir)
	for _, e := range beside {
		if slices.Contains(classes, e.Name()) {
			continue
		}
		met.unlisted = append(met.unlisted, filepath.Join(dir, e.Name()))
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			met.others = append(met.others, e.Name())
		}
	}
	return met
}

// doubts are where the folders of a public test split and the declared classes differ.
func (s *seen) doubts(classes []string) []string {
	var empty []string
	for class, n := range s.counts {
		if n == 0 {
			empty = append(empty, classes[class])
		}
	}
	none, other := "no images of "+several("class", "classes", empty), several("a folder", "folders", s.others)+" that --class-names does not list"
	switch {
	case empty == nil && s.others == nil:
		return nil
	case s.others == nil:
		return []string{"the public test folder has " + none + ": is a name misspelled?"}
	case empty == nil:
		return []string{"the public test folder has " + other + ": its images are not used"}
	}
	return []string{"the public test folder has " + none + ", and has " + other + ": is a name misspelled?"}
}

// several lists the first of some names behind a noun.
func several(one, more string, names []string) string {
	var shown []string
	for _, name := range names[:min(len(names), mostNotes)] {
		if quoted := strconv.Quote(name); quoted != `"`+name+`"` { // so that it stays on one line
			name = quoted
		}
		shown = append(shown, name)
	}
	if len(names) == 1 {
		more = one
	}
	if rest := len(names) - len(shown); rest > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", rest))
	}
	return more + " " + strings.Join(shown, ", ")
}

// list appends the records of one class folder. What cannot be listed has none, and neither has a
// folder that is an earlier class's, too, as it is by a name in other letters on some file systems:
// no file is two records.
func (s *seen) list(dir string) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || slices.ContainsFunc(s.folders, func(f fs.FileInfo) bool { return os.SameFile(f, info) }) {
		return
	}
	s.folders = append(s.folders, info)
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		switch {
		case !f.Type().IsRegular():
			s.links++
		case !slices.Contains(endings, strings.ToLower(filepath.Ext(f.Name()))):
			s.unnamed++
		default:
			s.names = append(s.names, filepath.Join(dir, f.Name()))
		}
	}
}

// parallel runs work on every core.
func parallel(work func()) error {
	errs := make([]error, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			defer fault.Recover(&errs[i])
			work()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
