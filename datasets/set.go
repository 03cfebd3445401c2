// Package datasets reads data sets into memory, checks their structure, and draws Poisson
// samples from them. Fashion-MNIST is built into a package of its own:
//
//	set, err := fashion.Open() // datasets/mnist/fashion: 60,000 training and 10,000 test images
//
// A Set can also be made of values at hand. A Layout is a published image set in files;
// package tabular reads tables.
//
// What a training file holds is private: its row count, its class counts, the
// number of bad records and its hash appear in no error and no exported string.
// The sizes that privacy arithmetic needs are the published ones.
package datasets

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/written"
)

// Split is one split of a data set: a byte a value as stored, or float values.
type Split struct {
	Shape    [3]int  // channels, height, width; 1, 1, n for a table of n columns
	Features []uint8 // one record after the other, each in Shape's order
	// Values take the place of Features, and are what a network reads as they are; of an
	// image they are in [0, 1] where a front end reads it. A record with one that is not
	// finite counts as zero.
	Values []float32
	// Unit says that the split is a table, of values in [0, 1] or in standard units: a byte b stands for b/255.
	// Else it is of images, and a byte stands for b/127.5 − 1.
	Unit bool
	// Labels holds a byte a record. A label that is no class is kept as it is: a
	// bad record, which counts as zero later and is never reported. In a training
	// split the number of records is private.
	Labels []uint8
	// Targets takes the place of Labels in a regression; NaN is a bad record's.
	Targets []float32
	// Names are of records that have one in their files, such as CLASS/FILE of an image.
	Names []string
	// Users says whose each record is, where that is asked for; "" is nobody's.
	Users []string
	// UnitRows is how many rows each user has, one behind the other, where users are the units; 0 stands for one, of a record.
	UnitRows int
	// Mapped says that the values lie on disk, in files that the system maps into memory: their
	// pages are read when they are needed, and given back when memory is short.
	Mapped bool
}

// Len is the number of records.
func (m Split) Len() int { return len(m.Labels) + len(m.Targets) }

// size is the number of bytes of one record.
func size(shape [3]int) int { return shape[0] * shape[1] * shape[2] }

// Set is a data set with its published sizes.
type Set struct {
	Name         string
	Classes      int // 0 for a regression
	ClassNames   []string
	Train, Test  Split
	PublicN      int   // published training size, whatever Train holds; 0 where none was published
	PerClass     []int // published training size per class
	TestIsPublic bool  // the test split may be evaluated without a privacy cost
	// Published says that the three above are what was published about files of this
	// layout. Nothing here finds out whether these files are the published ones, which
	// would tell of private records: whoever opens them has to know.
	Published bool
	Note      string

	// TestDoubts are what is odd about the test split, in words that quote its files: they
	// may be shown only where TestIsPublic.
	TestDoubts []string
	// TestFaults are what is wrong with records of Test, by their numbers, in words that quote its files: they,
	// too, may be shown only where TestIsPublic.
	TestFaults map[int]string

	// Share is the share of a table's records that its own key sends to Train,
	// each by itself; 0 stands for all. A public size of the table is to be
	// multiplied by it, as PublicN has been.
	Share float64
	// Moves says that what a record holds, or its name, decides whether and where it stands in Train. One
	// that changes then moves others to another place.
	Moves bool
	// Reading identifies how files became records, where that is a setting of its
	// own: a resumed run must read as before. It follows from public settings.
	Reading string
	// Schema says how a table of one's own becomes records, as JSON, which is YAML, too. It is public, and "" of other data.
	Schema string
	// Bounds are those of a regression's labels.
	Bounds Bounds
	// Source is the public name of the set whose records these are, where they were copied from one, such as
	// "csv:mine.csv" of shards; "" of a set that is its own source. What is released of both is released of one set.
	Source string
	// Parts identifies the files into which the records are cut, by their names and public sizes, where processes open them
	// apart.
	Parts string
}

// Bounds are the lowest and the highest label of a regression, in its own units: a target z stands for
// low + z·(high − low). They are public. Targets without bounds, the zero value, are in their own units already.
type Bounds [2]float64

// Sound says whether these are bounds, or none.
func (b Bounds) Sound() bool {
	return b == Bounds{} || b[0] < b[1] && !math.IsInf(b[1]-b[0], 0)
}

// Width is what 1 of a target stands for.
func (b Bounds) Width() float64 {
	if b == (Bounds{}) {
		return 1
	}
	return b[1] - b[0]
}

// Value is what a target stands for.
func (b Bounds) Value(z float64) float64 { return b[0] + z*b.Width() }

// PublicName is what may be shown of a data set's name: of a path its end, since the rest tells where its owner
// keeps it, and often who that is.
func PublicName(data string) string {
	kind, path, isPath := strings.Cut(data, ":")
	if !isPath {
		return data
	}
	return kind + ":" + filepath.Base(filepath.Clean(path))
}

// Bytes is what the training records take of this process's own memory, with a target for each label; rows that are
// mapped take none.
func (s *Set) Bytes() int64 {
	m := &s.Train
	n := int64(len(m.Labels))*(1+4) + int64(len(m.Targets))*4
	if !m.Mapped {
		n += int64(len(m.Features)) + 4*int64(len(m.Values))
	}
	return n
}

// Keep returns the set restricted to some classes, relabelled 0…k-1 in the
// order given. Records of other classes, bad labels among them, are left out:
// each record's fate depends on that record alone, so neighbouring sets stay
// neighbouring. PublicN becomes the published size of the classes kept.
func (s *Set) Keep(classes []int) (*Set, error) {
	if len(classes) < 2 {
		return nil, fmt.Errorf("classes of %s: one class alone leaves nothing to tell apart; name at least two", s.Name)
	}
	if s.Classes == 0 || len(s.PerClass) != s.Classes {
		return nil, fmt.Errorf("%s has no published size per class, so a subset of its classes has no public size", s.Name)
	}
	var relabel [256]int16
	for i := range relabel {
		relabel[i] = -1
	}
	kept := &Set{
		Name:         s.Name,
		Classes:      len(classes),
		TestIsPublic: s.TestIsPublic,
		Published:    s.Published,
		Moves:        true,
		Note:         s.Note,
		Reading:      s.Reading,
		Schema:       s.Schema,
		Source:       s.Source,
		Parts:        s.Parts,
	}
	for i, c := range classes {
		if c < 0 || c >= s.Classes {
			return nil, fmt.Errorf("%s has no class %d: choose from 0 to %d", s.Name, c, s.Classes-1)
		}
		if relabel[c] >= 0 {
			return nil, fmt.Errorf("class %d of %s is named twice: name each class once", c, s.Name)
		}
		relabel[c] = int16(i)
		kept.PublicN += s.PerClass[c]
		kept.PerClass = append(kept.PerClass, s.PerClass[c])
		if c < len(s.ClassNames) {
			kept.ClassNames = append(kept.ClassNames, s.ClassNames[c])
		}
	}
	kept.Train = s.Train.keep(&relabel)
	kept.Test = s.Test.keep(&relabel)
	return kept, nil
}

// Class is the number of a class that is given by its name or by its number.
func (s *Set) Class(name string) (int, error) {
	k := slices.Index(s.ClassNames, name)
	if k < 0 {
		var err error
		if k, err = written.Whole(name); err != nil || k < 0 || k >= s.Classes {
			return 0, fmt.Errorf("class %q: %s has no such class; choose one of %s", name, s.Name, strings.Join(s.ClassNames, ", "))
		}
	}
	return k, nil
}

// Against returns the set with two classes, 0 for the rest and 1 for one of its classes. A
// label that is no class stays none. All sizes stay what they are.
func (s *Set) Against(class int) *Set {
	two := *s
	name := fmt.Sprint(class)
	if class < len(s.ClassNames) {
		name = s.ClassNames[class]
	}
	two.Classes, two.ClassNames = 2, []string{"not " + name, name}
	if s.PerClass != nil {
		two.PerClass = []int{s.PublicN - s.PerClass[class], s.PerClass[class]}
	}
	for _, m := range []*Split{&two.Train, &two.Test} {
		labels := make([]uint8, len(m.Labels))
		for i, l := range m.Labels {
			switch {
			case int(l) == class:
				labels[i] = 1
			case int(l) >= s.Classes:
				labels[i] = NoClass
			}
		}
		m.Labels = labels
	}
	return &two
}

func (m Split) keep(relabel *[256]int16) Split {
	n := 0
	for _, l := range m.Labels {
		if relabel[l] >= 0 {
			n++
		}
	}
	record := size(m.Shape)
	kept := Split{Shape: m.Shape, Unit: m.Unit, Labels: make([]uint8, 0, n)}
	if m.Values != nil {
		kept.Values = make([]float32, 0, n*record)
	} else {
		kept.Features = make([]uint8, 0, n*record)
	}
	for i, l := range m.Labels {
		if to := relabel[l]; to >= 0 {
			kept.Labels = append(kept.Labels, uint8(to))
			if i < len(m.Users) {
				kept.Users = append(kept.Users, m.Users[i])
			}
			if m.Values != nil {
				kept.Values = append(kept.Values, m.Values[i*record:(i+1)*record]...)
			} else {
				kept.Features = append(kept.Features, m.Features[i*record:(i+1)*record]...)
			}
		}
	}
	return kept
}

// Names are those of the classes; numbers stand for names that nobody gave.
func (s *Set) Names() (names []string) {
	for i := range s.Classes {
		if i < len(s.ClassNames) {
			names = append(names, s.ClassNames[i])
		} else {
			names = append(names, strconv.Itoa(i))
		}
	}
	return names
}
