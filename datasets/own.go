package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/privgrad/privgrad/internal/written"
)

// A Form is a way in which records of a user's own lie in files. A new form is one Form.
type Form struct {
	Prefix string // of its data sets' names, before their path, such as "dir:"
	// Open reads what is at a path. What is declared is completed by the class file
	// beside it and by defaults; the set says what came of that. Errors quote no count
	// and no shape of the files.
	Open func(path string, d Declared) (*Set, error)
	// Facts is the set as it is declared, as if it had test records: no record is opened.
	Facts func(path string, d Declared) (*Set, error)
	// Labeled reads public records to score a model on, as the set's Test, and no record to train on.
	Labeled func(path string, d Declared) (*Set, error)
	// Verify reads the same for its owner's eyes.
	Verify func(path string, d Declared) (*OwnReport, error)
}

// Declared is what owners say of their files. It is public: nothing of it is found out
// from the records.
type Declared struct {
	Size    string   // of every record, as Shape reads it; "" stands for DefaultSize
	Classes []string // in the order of the labels; none: the class file has them
	// Rank says which part of the records a form opens that keeps them in shards; others open all.
	Rank Rank
}

// DefaultSize is the size of records where nobody declared another.
const DefaultSize = "3x32x32"

// Limits of what can be declared.
const (
	mostValues  = 1 << 20 // of a record
	mostClasses = 255     // so that a byte is left for labels that are no class
)

// NoClass is a label of records that count as zero, whatever the classes.
const NoClass = 255

// Shape reads a size: CxHxW, HxW for gray images, or one number of values for records
// that are no images.
func (d Declared) Shape() (shape [3]int, err error) {
	text := d.Size
	if text == "" {
		text = DefaultSize
	}
	shape = [3]int{1, 1, 1}
	parts := strings.Split(text, "x")
	values := 1
	for i, part := range parts {
		n, err := written.Whole(part)
		if err != nil || n < 1 || n > mostValues || len(parts) > 3 {
			return shape, fmt.Errorf("image-size %s: write channels, height and width, such as 3x32x32, or 28x28 for gray images; for records that are no images one number of values", text)
		}
		if values *= n; values > mostValues {
			return shape, fmt.Errorf("image-size %s: a record may have %d values at most; declare a smaller size", text, mostValues)
		}
		shape[3-len(parts)+i] = n
	}
	return shape, nil
}

// SizeText writes a shape so that Declared reads it.
func SizeText(shape [3]int) string { return fmt.Sprintf("%dx%dx%d", shape[0], shape[1], shape[2]) }

// NewSet is an empty set of the declared shape and classes. The class file is read
// where no classes are declared: one name per line. Of data that no file holds it is "".
func (d Declared) NewSet(path, classFile string) (*Set, error) {
	shape, err := d.Shape()
	if err != nil {
		return nil, err
	}
	names := slices.Clone(d.Classes)
	if len(names) == 0 && classFile == "" {
		return nil, errors.New("nothing says which classes there are: list them, as in --class-names cat,dog")
	}
	if len(names) == 0 {
		text, err := readBounded(os.DirFS(filepath.Dir(classFile)), filepath.Base(classFile), 1<<20)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("nothing says which classes there are: list them, as in --class-names cat,dog, or write %s, one name per line", classFile)
		}
		if err == nil {
			text, err = written.Text(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", classFile, err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.TrimSpace(line) != "" {
				names = append(names, line)
			}
		}
	}
	for i := range names {
		names[i] = strings.TrimSpace(names[i]) // blanks around a name are no part of it, wherever it stands
	}
	if len(names) == 1 && len(d.Classes) == 0 && strings.Contains(names[0], ",") {
		return nil, fmt.Errorf("%s has one line, with commas: write one class a line", classFile)
	}
	if err := checkClasses(names); err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	return &Set{
		Name: strings.TrimSuffix(name, filepath.Ext(name)), Classes: len(names), ClassNames: names,
		Train: Split{Shape: shape, Unit: shape[0]*shape[1] == 1},
	}, nil
}

// Facts is NewSet, with a test split.
func (d Declared) Facts(path, classFile string) (*Set, error) {
	set, err := d.NewSet(path, classFile)
	if err == nil {
		set.Test = set.Train
	}
	return set, err
}

func checkClasses(names []string) error {
	if len(names) < 2 || len(names) > mostClasses {
		return fmt.Errorf("class-names has %d names: list 2 to %d", len(names), mostClasses)
	}
	for i, name := range names {
		if strings.TrimSpace(name) == "" || !utf8.ValidString(name) {
			return fmt.Errorf("class-names: name %d is empty, or no text: write each class by its name", i+1)
		}
		if slices.Index(names, name) != i {
			return fmt.Errorf("class-names has %q twice: name each class once", name)
		}
	}
	return nil
}

// OwnReport is what a form's Verify found out.
type OwnReport struct {
	Set       *Set  // as training reads it; nil where Structure is not
	Structure error // for which training refuses the files

	// Private is computed from records, for their owner's eyes only: show it under a
	// banner that says PRIVATE, and store it nowhere.
	Private struct {
		Counts []Count
		Notes  []string
		Faults []string // where the declared classes and the files do not match
	}
}

// Count is a private number of records of each split.
type Count struct {
	What        string
	Train, Test int
}

// CountClasses adds the number of records, and that of each class, which should not be 0.
func (r *OwnReport) CountClasses() {
	train, test := r.Set.Train.report(r.Set.Classes), r.Set.Test.report(r.Set.Classes)
	r.Private.Counts = append(r.Private.Counts, Count{"records", train.Records, test.Records}, Count{"records that count as zero", train.OutOfRange, test.OutOfRange})
	for class, name := range r.Set.ClassNames {
		r.Private.Counts = append(r.Private.Counts, Count{"class " + name, train.PerClass[class], test.PerClass[class]})
		if train.PerClass[class] == 0 {
			r.Private.Faults = append(r.Private.Faults, fmt.Sprintf("class %s has no training record", name))
		}
		if test.PerClass[class] == 0 && r.Set.Test.Shape != [3]int{} {
			r.Private.Faults = append(r.Private.Faults, fmt.Sprintf("class %s has no test record", name))
		}
	}
}
