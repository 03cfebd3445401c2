// Package folder reads images of a user's own from class folders: PATH/train/CLASS/*.png,
// .jpg and .jpeg, and PATH/test/CLASS/*.
//
// Classes and size are declared, never found out. Each file of a listed class is a
// record, which is read by itself: one that cannot be read or decoded, or is too large by
// its header, counts as zero, without a word. Folders that are not listed, links, and files
// that are hidden or have other names are no records. A listed class without a folder has no records.
package folder

import (
	"cmp"
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
var Form = datasets.Form{Prefix: "dir:", Open: open, Facts: facts, Labeled: labeled, Verify: verify}

// ClassFile is the file in PATH that lists the classes where they are not declared.
const ClassFile = "classes.txt"

// endings are those of the files that are records.
var endings = []string{".png", ".jpg", ".jpeg"}

// isImage says whether a file is one of the images of its folder, by its name alone. Hidden ones are none: companions that macOS
// writes beside files on other disks (._1.png), what was thrown away (.trashed-1.png), and what is still being copied.
func isImage(name string) bool {
	return !hidden(name) && slices.Contains(endings, strings.ToLower(filepath.Ext(name)))
}

// hidden says whether a file or a folder is one that systems write for themselves.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// readDir is replaced in tests, which root could not run otherwise.
var readDir = os.ReadDir

// enter fails where the folders in a folder cannot be reached: of a split, that is no matter of its records. It is replaced in
// tests, too.
var enter = func(dir string) error {
	_, err := os.Stat(dir + string(filepath.Separator) + ".")
	return err
}

// facts is the set as it is declared, without its records. Of the test folder it lists names,
// for doubts that are shown where that is public; it never looks at the training folder.
func facts(path string, d datasets.Declared) (*datasets.Set, error) {
	set, err := d.Facts(path, filepath.Join(path, ClassFile))
	if err == nil {
		err = areImages(set, d)
	}
	if err != nil {
		return nil, err
	}
	set.Moves = true // records stand in the order of their classes and names
	dir := filepath.Join(path, "test")
	tested, err := isFolder(dir)
	if tested {
		met := listSplit(dir, set.ClassNames)
		set.TestDoubts = met.doubts(set.ClassNames)
	}
	return set, err
}

// isFolder says whether there is a folder. That nobody can tell is an error.
func isFolder(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("folder %s %w", path, datasets.Unread(err, nil))
	}
	return err == nil && info.IsDir(), nil
}

func open(path string, d datasets.Declared) (*datasets.Set, error) {
	set, _, _, err := read(path, d)
	return set, err
}

// seen is what was met in a split. It is private.
type seen struct {
	names          []string
	verdicts       []verdict
	why            []error       // what is wrong with each; nil: nothing
	shut           []string      // of each class folder that cannot be listed, why; else ""
	folders        []fs.FileInfo // of classes
	links, unnamed int           // in class folders: not read
	counts         []int         // of the records of each class
	unlisted       []string      // folders of no class, and files beside those
	others         []string      // the names of the folders among these, but for hidden ones
}

// read gives the set and what was met in its splits.
func read(path string, d datasets.Declared) (set *datasets.Set, train, test seen, err error) {
	trained, err := isFolder(filepath.Join(path, "train"))
	if err != nil {
		return nil, train, test, err
	}
	if !trained {
		return nil, train, test, fmt.Errorf("there is no folder %s: put the training images there, in one folder per class", filepath.Join(path, "train"))
	}
	if err := enter(filepath.Join(path, "train")); err != nil {
		return nil, train, test, fmt.Errorf("folder %s %w", filepath.Join(path, "train"), datasets.Unread(err, nil))
	}
	if set, err = newSet(path, d); err != nil {
		return nil, train, test, err
	}
	set.Reading, set.Moves = "images by area means", true
	if set.Train, train, err = split(filepath.Join(path, "train"), set.ClassNames, set.Train.Shape); err != nil {
		return nil, train, test, err
	}
	if tested, err := isFolder(filepath.Join(path, "test")); !tested {
		return set, train, test, err
	}
	test, err = readTest(set, filepath.Join(path, "test"))
	return set, train, test, err
}

// areImages refuses a declared size that no image has.
func areImages(set *datasets.Set, d datasets.Declared) error {
	if shape := set.Train.Shape; shape[0] != 1 && shape[0] != 3 || set.Train.Unit {
		return fmt.Errorf("image-size %s: images are gray or have three colors; write HxW or 3xHxW", d.Size)
	}
	return nil
}

// newSet is the set as it is declared, without its records.
func newSet(path string, d datasets.Declared) (*datasets.Set, error) {
	set, err := d.NewSet(path, filepath.Join(path, ClassFile))
	if err != nil {
		return nil, err
	}
	if err := areImages(set, d); err != nil {
		return nil, err
	}
	for _, name := range set.ClassNames {
		if name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
			return nil, fmt.Errorf("class-names: %q cannot be the name of a folder: name classes as their folders in %s", name, filepath.Join(path, "train"))
		}
	}
	return set, nil
}

// readTest reads the test split of a set from the class folders in dir.
func readTest(set *datasets.Set, dir string) (test seen, err error) {
	set.Test, test, err = split(dir, set.ClassNames, set.Train.Shape)
	set.TestDoubts, set.TestFaults = test.doubts(set.ClassNames), test.faults()
	return test, err
}

// labeled reads PATH/test/CLASS or, where PATH has no folder of a split, PATH/CLASS.
func labeled(path string, d datasets.Declared) (*datasets.Set, error) {
	if there, err := isFolder(path); !there {
		return nil, cmp.Or(err, fmt.Errorf("there is no folder %s: give one with a folder of images per class", path))
	}
	set, err := newSet(path, d)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(path, "test")
	tested, err := isFolder(dir)
	if err == nil && !tested {
		var trained bool
		if trained, err = isFolder(filepath.Join(path, "train")); trained {
			return nil, fmt.Errorf("folder %s has images to train on, and none to test on: put those into %s, in one folder per class", path, dir)
		}
		dir = path
	}
	if err == nil {
		_, err = readTest(set, dir)
	}
	if err == nil && set.Test.Len() == 0 {
		err = fmt.Errorf("folder %s has no images in folders of the %s", dir, several("class", "classes", set.ClassNames))
	}
	return set, err
}

// split reads the class folders of one split.
func split(dir string, classes []string, shape [3]int) (datasets.Split, seen, error) {
	s, met := datasets.Split{Shape: shape}, listSplit(dir, classes)
	for class, n := range met.counts {
		s.Labels = append(s.Labels, slices.Repeat([]uint8{uint8(class)}, n)...)
	}
	record := shape[0] * shape[1] * shape[2]
	s.Features, met.verdicts, met.why = make([]uint8, len(met.names)*record), make([]verdict, len(met.names)), make([]error, len(met.names))
	for _, name := range met.names {
		s.Names = append(s.Names, filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name))
	}
	d := decoder{shape: shape}
	var next atomic.Int64
	err := parallel(func() {
		for i := next.Add(1) - 1; int(i) < len(met.names); i = next.Add(1) - 1 {
			met.verdicts[i], met.why[i] = d.read(met.names[i], s.Features[int(i)*record:][:record])
			if met.why[i] != nil {
				s.Labels[i] = datasets.NoClass
			}
		}
	})
	return s, met, err
}

// listSplit lists the records of one split, and what lies beside its class folders.
func listSplit(dir string, classes []string) (met seen) {
	for _, name := range classes {
		before, shut := len(met.names), ""
		if err := met.list(filepath.Join(dir, name)); err != nil {
			shut = fmt.Sprintf("folder %s %v", shown(filepath.Join(dir, name)), datasets.Unread(err, nil))
		}
		met.counts, met.shut = append(met.counts, len(met.names)-before), append(met.shut, shut)
	}
	beside, _ := readDir(dir)
	for _, e := range beside {
		if slices.Contains(classes, e.Name()) {
			continue
		}
		met.unlisted = append(met.unlisted, filepath.Join(dir, e.Name()))
		if e.IsDir() && !hidden(e.Name()) {
			met.others = append(met.others, e.Name())
		}
	}
	return met
}

// faults are those of the records of a split, by their numbers.
func (s *seen) faults() map[int]string {
	all := map[int]string{}
	for i, why := range s.why {
		if why != nil {
			all[i] = fmt.Sprintf("%s %v", shown(s.names[i]), why)
		}
	}
	return all
}

// doubts are what is odd about the folders of a public test split: those that cannot be listed, and where they and the
// declared classes differ.
func (s *seen) doubts(classes []string) (all []string) {
	for _, folder := range s.closed() {
		all = append(all, "public test "+folder)
	}
	return append(all, s.differ(classes)...)
}

// closed says of all folders that cannot be listed why.
func (s *seen) closed() []string {
	return slices.DeleteFunc(slices.Clone(s.shut), func(why string) bool { return why == "" })
}

func (s *seen) differ(classes []string) []string {
	var empty []string
	for class, n := range s.counts {
		if n == 0 && s.shut[class] == "" {
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
	var all []string
	for _, name := range names[:min(len(names), mostNotes)] {
		all = append(all, shown(name))
	}
	if len(names) == 1 {
		more = one
	}
	if rest := len(names) - len(all); rest > 0 {
		all = append(all, fmt.Sprintf("and %d more", rest))
	}
	return more + " " + strings.Join(all, ", ")
}

// shown is a name that stays on one line.
func shown(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// list appends the records of one class folder. What cannot be listed has none, and neither has a
// folder that is an earlier class's, too, as it is by a name in other letters on some file systems:
// no file is two records.
func (s *seen) list(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || info == nil || !info.IsDir() || slices.ContainsFunc(s.folders, func(f fs.FileInfo) bool { return os.SameFile(f, info) }) {
		return err
	}
	s.folders = append(s.folders, info)
	files, err := readDir(dir)
	for _, f := range files {
		switch {
		case !f.Type().IsRegular():
			s.links++
		case !isImage(f.Name()):
			s.unnamed++
		default:
			s.names = append(s.names, filepath.Join(dir, f.Name()))
		}
	}
	return err
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
