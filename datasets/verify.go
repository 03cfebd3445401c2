package datasets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Digest says how a file's content compares with what was published. The digest
// itself, which would betray membership in a private set, is not reported.
type Digest string

const (
	DigestUnlisted Digest = "unlisted" // no digest of this content was published
	DigestKnown    Digest = "known"    // the published content
	DigestUnknown  Digest = "unknown"  // other content than published
)

// FileReport is what Verify found out about one file.
type FileReport struct {
	Name      string // as published, without .gz
	Path      string // where it was found or looked for
	Present   bool
	Structure error // nil if the whole file is well formed
	Digest    Digest
}

// RecordReport counts the records of a split.
type RecordReport struct {
	Records    int
	OutOfRange int   // labels that are no class
	PerClass   []int // labels of each class
}

// Report is the result of Verify.
type Report struct {
	Set       string
	Files     []FileReport
	Structure error // between well-formed files: splits whose files disagree

	// Private is computed from records. It is for the owner's eyes: show it under
	// a banner that says PRIVATE, and store it nowhere. Nil unless all files are
	// well formed.
	Private *struct{ Train, Test RecordReport }
}

// OK reports whether every file is present and well formed. Digests do not
// matter: a private set in the published layout is fine.
func (r *Report) OK() bool {
	for _, f := range r.Files {
		if f.Structure != nil {
			return false
		}
	}
	return r.Structure == nil
}

// Verify reads a set's files whole and reports on each. A missing or malformed
// file is a finding, not an error.
func Verify(dir string, l *Layout) (*Report, error) {
	if dir == "" {
		return nil, fmt.Errorf("%s: no data directory is set: use --data-dir DIR or PRIVGRAD_DATA", l.Name)
	}
	return l.verify(os.DirFS(dir), dir)
}

// VerifyFS is Verify on a file system.
func VerifyFS(fsys fs.FS, l *Layout) (*Report, error) { return l.verify(fsys, "") }

func (l *Layout) verify(fsys fs.FS, dir string) (*Report, error) {
	// Hashed before decoding, which may reuse the bytes.
	files, err := l.read(fsys, dir, func(f *file, data []byte) { f.digest = digest(data) })
	if err != nil {
		return nil, err
	}
	r := &Report{Set: l.Name}
	published := contents(upstream[l.Name])
	for _, f := range files {
		fr := FileReport{f.name, f.path, !errors.Is(f.err, fs.ErrNotExist), f.err, DigestUnlisted}
		if want := published[f.name].SHA256; want != "" && f.digest != "" {
			fr.Digest = DigestUnknown
			if f.digest == want {
				fr.Digest = DigestKnown
			}
		}
		r.Files = append(r.Files, fr)
	}
	if !r.OK() {
		return r, nil
	}
	train, err := l.join(files[:len(l.Train)])
	if err != nil {
		r.Structure = err
		return r, nil
	}
	test, err := l.join(files[len(l.Train):])
	if err != nil {
		r.Structure = err
		return r, nil
	}
	classes := len(l.ClassNames)
	r.Private = &struct{ Train, Test RecordReport }{train.report(classes), test.report(classes)}
	return r, nil
}

func (m Split) report(classes int) RecordReport {
	r := RecordReport{Records: len(m.Labels), PerClass: make([]int, classes)}
	for _, l := range m.Labels {
		if int(l) < classes {
			r.PerClass[l]++
		} else {
			r.OutOfRange++
		}
	}
	return r
}

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
