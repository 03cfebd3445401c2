package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/privgrad/privgrad/internal/fault"
)

// Layout says how an image set lies on disk and what was published about it. A
// new image set is one Layout.
type Layout struct {
	Name       string
	ClassNames []string
	PerClass   []int  // published training size per class
	Shape      [3]int // channels, height, width
	Note       string // origin and licence
	Subdir     string // where the files may lie instead, "" if nowhere
	Train      []Part
	Test       []Part
}

// Part is one file of a split.
type Part struct {
	File   string // without .gz
	Decode Decoder
}

// Decoder checks a whole decompressed file and returns its pixels, its labels
// or both. It owns data and may return parts of it. Its errors quote no counts
// and no record.
type Decoder func(data []byte, shape [3]int) (pixels, labels []byte, err error)

// Open reads the set from a directory that holds its files, each as published
// or with .gz. It checks structure only, never a hash. A file's rows may be
// fewer or more than published. Without any test file Test has no shape.
func (l *Layout) Open(dir string) (*Set, error) {
	if dir == "" {
		return nil, fmt.Errorf("%s: no data directory is set: use --data-dir DIR or PRIVGRAD_DATA", l.Name)
	}
	return l.open(os.DirFS(dir), dir)
}

// OpenFS is Open on a file system, such as an embedded one.
func (l *Layout) OpenFS(fsys fs.FS) (*Set, error) { return l.open(fsys, "") }

func (l *Layout) open(fsys fs.FS, dir string) (*Set, error) {
	files, err := l.read(fsys, dir)
	if err != nil {
		return nil, err
	}
	tested := slices.ContainsFunc(files[len(l.Train):], func(f file) bool { return !errors.Is(f.err, fs.ErrNotExist) })
	if !tested {
		files = files[:len(l.Train)]
	}
	for _, f := range files {
		if f.err != nil {
			return nil, f.err
		}
	}
	set := l.Facts()
	set.TestIsPublic, set.Test = tested, Split{}
	if set.Train, err = l.join(files[:len(l.Train)]); err != nil {
		return nil, err
	}
	if tested {
		set.Test, err = l.join(files[len(l.Train):])
	}
	return set, err
}

// Facts is the set as it was published, without its records.
func (l *Layout) Facts() *Set {
	set := &Set{
		Name: l.Name, Note: l.Note, TestIsPublic: true, Published: true,
		Classes: len(l.ClassNames), ClassNames: slices.Clone(l.ClassNames), PerClass: slices.Clone(l.PerClass),
		Train: Split{Shape: l.Shape}, Test: Split{Shape: l.Shape},
	}
	for _, n := range l.PerClass {
		set.PublicN += n
	}
	return set
}

// file is one part as found on disk.
type file struct {
	name           string // without .gz
	path           string // as shown to the user
	digest         string // of the decompressed bytes, if asked for
	pixels, labels []byte
	err            error
}

// locate returns the directory that holds the files and its name for messages: the one
// that is given, or a folder of it named after the set, or Subdir of either. Where none
// has the first file it is the innermost of them that exists.
func (l *Layout) locate(fsys fs.FS, dir string) (fs.FS, string, error) {
	found := "."
	for _, sub := range []string{".", l.Subdir, l.Name, path.Join(l.Name, l.Subdir)} {
		if sub == "" || !exists(fsys, sub) {
			continue
		}
		found = sub
		if first := path.Join(sub, l.Train[0].File); exists(fsys, first) || exists(fsys, first+".gz") {
			break
		}
	}
	if found == "." {
		return fsys, dir, nil
	}
	sub, err := fs.Sub(fsys, found)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", l.Name, err)
	}
	return sub, filepath.Join(dir, found), nil
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// missingError is fs.ErrNotExist with a message of its own.
type missingError struct{ msg string }

func (e missingError) Error() string        { return e.msg }
func (e missingError) Is(target error) bool { return target == fs.ErrNotExist }

// read decodes all files of the set, training first, each on its own goroutine.
// What is wrong with a file stands in that file.
func (l *Layout) read(fsys fs.FS, dir string, look ...func(*file, []byte)) ([]file, error) {
	fsys, dir, err := l.locate(fsys, dir)
	if err != nil {
		return nil, err
	}
	files := make([]file, len(l.Train)+len(l.Test))
	var wg sync.WaitGroup
	for i, part := range slices.Concat(l.Train, l.Test) {
		wg.Go(func() {
			f := &files[i]
			defer fault.Recover(&f.err)
			data, found, err := readFile(fsys, part.File, maxFile)
			f.name, f.path = part.File, filepath.Join(dir, found)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				f.err = missingError{fmt.Sprintf("%s: neither %s nor %[2]s.gz exists: name the directory that holds it, or run `privgrad data fetch %[1]s`", l.Name, f.path)}
				return
			case err == nil:
				for _, see := range look {
					see(f, data)
				}
				f.pixels, f.labels, err = part.Decode(data, l.Shape)
			}
			if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
				f.err = fmt.Errorf("%s: %s %w", l.Name, f.path, Unread(err, nil))
			} else if err != nil {
				f.err = fmt.Errorf("%s: %s: %w", l.Name, f.path, err)
			}
		})
	}
	wg.Wait()
	return files, nil
}

func (l *Layout) join(files []file) (Split, error) {
	m := Split{Shape: l.Shape}
	var pixels, labels [][]byte
	for _, f := range files {
		pixels, labels = append(pixels, f.pixels), append(labels, f.labels)
	}
	m.Features, m.Labels = concat(pixels), concat(labels)
	if len(m.Features) != len(m.Labels)*size(l.Shape) {
		var names []string
		for _, f := range files {
			names = append(names, f.path)
		}
		return Split{}, fmt.Errorf("%s: %s hold different numbers of records: fetch or export them together", l.Name, strings.Join(names, " and "))
	}
	return m, nil
}

// concat joins parts, without copying where one alone holds anything.
func concat(parts [][]byte) []byte {
	parts = slices.DeleteFunc(parts, func(p []byte) bool { return len(p) == 0 })
	if len(parts) == 1 {
		return parts[0]
	}
	return slices.Concat(parts...)
}
