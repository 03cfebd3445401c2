// Package budget keeps what several runs on one data set may cost together, in a file. A run pays from the file before it
// begins, for all of its schedule, and gets nothing back. docs/proofs/budget.md shows what the file then promises.
package budget

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// version is that of the form of the file.
const version = 1

// A File is a budget as it stands on the disk. It has no other bytes than those that Change writes.
type File struct {
	Version      int        `json:"privgrad_budget"`
	ID           string     `json:"id"` // random
	Created      time.Time  `json:"created"`
	Data         string     `json:"data"`
	Neighbouring string     `json:"neighbouring"`
	Unit         string     `json:"privacy_unit"`
	Epsilon      float64    `json:"epsilon"`
	Delta        float64    `json:"delta"`
	Order        *float64   `json:"order,omitempty"`         // of divergences; nil where runs are declared
	Joint        *float64   `json:"joint_epsilon,omitempty"` // of all declared runs
	Declared     []Declared `json:"declared,omitempty"`
	Entries      []Entry    `json:"entries"`
	Digest       string     `json:"digest"` // of the last entry
}

// Declared is a run that was named before the first began.
type Declared struct {
	Name     string `json:"name"`
	Settings string `json:"settings"` // as in Entry
	Releases string `json:"releases"` // digest of what it releases, with the noise
}

// An Entry is a run that was paid for.
type Entry struct {
	Run        string    `json:"run"` // identity, as in its ledger
	Name       string    `json:"name"`
	Paid       time.Time `json:"paid"`
	User       string    `json:"user"` // as the system calls them; no proof
	Host       string    `json:"host"`
	Settings   string    `json:"settings"` // SHA-256 of checkpoint/config.yaml
	Divergence *float64  `json:"divergence,omitempty"`
	Epsilon    *float64  `json:"epsilon,omitempty"` // in its place, where no divergence is known
	Delta      *float64  `json:"delta,omitempty"`
	Declared   *int      `json:"declared,omitempty"` // which of these, from 0
	Again      bool      `json:"again,omitempty"`    // it was paid for before, where its directory was then
	Before     string    `json:"before"`             // digest of all that stands before
}

func digest(v any) (string, error) {
	b, err := json.Marshal(v)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// head is the digest of what never changes.
func (f *File) head() (string, error) {
	h := *f
	h.Entries, h.Digest = nil, ""
	return digest(h)
}

// chain gives the digest behind each entry, after that of the head.
func (f *File) chain() (links []string, err error) {
	last, err := f.head()
	for i := 0; err == nil; i++ {
		links = append(links, last)
		if i == len(f.Entries) {
			return links, nil
		}
		if f.Entries[i].Before != last {
			return nil, fmt.Errorf("entry %d does not follow from what stands before it", i+1)
		}
		last, err = digest(f.Entries[i])
	}
	return nil, err
}

// add appends an entry.
func (f *File) add(e Entry) error {
	e.Before = f.Digest
	link, err := digest(e)
	f.Entries, f.Digest = append(slices.Clip(f.Entries), e), link
	return err
}

func (f *File) bytes() ([]byte, error) {
	b, err := json.MarshalIndent(f, "", "  ")
	return append(b, '\n'), err
}

// check says what of the file no version of this program would have written.
func (f *File) check(text []byte) error {
	links, err := f.chain()
	if err != nil {
		return err
	}
	if f.Digest != links[len(links)-1] {
		return errors.New("its digest is another than that of its last entry")
	}
	if b, err := f.bytes(); err != nil || !bytes.Equal(b, text) {
		return errors.Join(errors.New("it has other bytes than privgrad writes"), err)
	}
	if !(f.Epsilon > 0) || math.IsInf(f.Epsilon, 0) || !(f.Delta >= 0 && f.Delta < 1) || (f.Order == nil) == (f.Joint == nil) {
		return errors.New("it states no budget")
	}
	for i, e := range f.Entries {
		if !e.costs(f) {
			return fmt.Errorf("entry %d has no cost", i+1)
		}
	}
	return nil
}

// costs says whether the entry has a cost of one kind, in numbers that count.
func (e *Entry) costs(f *File) bool {
	number := func(x *float64) bool { return x != nil && *x >= 0 && !math.IsInf(*x, 0) }
	switch {
	case f.Joint != nil:
		return e.Declared != nil && *e.Declared >= 0 && *e.Declared < len(f.Declared)
	case e.Divergence != nil:
		return number(e.Divergence) && e.Epsilon == nil
	}
	return number(e.Epsilon) && number(e.Delta)
}

// Read reads a budget. One that is damaged is never mended.
func Read(name string) (*File, error) {
	path := written.Path(name)
	if _, err := durable.Regular(path); err != nil {
		return nil, usage.Errorf("budget %s: %w", name, usage.Cause(err))
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("there is no budget %s: name one, or make it by `privgrad budget create`", name)
	}
	if err != nil {
		return nil, usage.Errorf("budget %s cannot be read: %w", name, usage.Cause(err))
	}
	return parse(name, text)
}

func parse(name string, text []byte) (*File, error) {
	var f File
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&f)
	if f.Version > version {
		return nil, usage.Errorf("budget %s has form %d, and this version of privgrad knows forms up to %d: use the version that wrote it", name, f.Version, version)
	}
	if err == nil {
		err = f.check(text)
	}
	if err != nil {
		return nil, usage.Errorf("budget %s is damaged (%w): restore the last copy of it; where there is none, its whole budget counts as spent, and no other file for the same records brings it back", name, err)
	}
	return &f, nil
}

// There says whether there is anything of the name.
func There(name string) bool {
	_, err := os.Lstat(written.Path(name))
	return name != "" && err == nil
}

func write(path string, f *File) error {
	b, err := f.bytes()
	if err != nil {
		return err
	}
	return durable.WriteFile(path, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// change has f alter the budget while no other process does. What it altered is on the disk when change returns without an error.
func change(name string, f func(*File) error) error {
	path := written.Path(name)
	if _, err := Read(name); err != nil { // before a lock file is made
		return err
	}
	return locked(path, patience, func() error {
		file, err := Read(name)
		if err != nil {
			return err
		}
		before := file.Digest
		if err := f(file); err != nil || file.Digest == before {
			return err
		}
		return write(path, file)
	})
}

// Create writes a new budget.
func Create(name string, f *File) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return fmt.Errorf("the operating system gives no randomness: %w", err)
	}
	f.Version, f.ID, f.Created, f.Entries = version, hex.EncodeToString(id), now(), []Entry{}
	var err error
	if f.Digest, err = f.head(); err != nil {
		return err
	}
	path := written.Path(name)
	return locked(path, patience, func() error {
		if _, err := os.Lstat(path); err == nil {
			return usage.Errorf("%s exists already: name another file; a budget is never replaced", name)
		}
		return write(path, f)
	})
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
