// Package setting describes single settings of a run: what a person is told of one, which values it takes, and whether
// a resumed run may change it. A setting is a field of a struct, found by its key as in YAML.
package setting

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/yamlfile"
)

// A Row is one key of a configuration. Flags of privgrad train, their help, the checks of single values and the identity
// of a run follow from it.
type Row struct {
	Key   string // in YAML; of a struct in the configuration after the struct's key and a dot
	Group Group
	Arg   string // stands for a value in help, where its type says too little
	Help  string // at most 75 characters where it stands in train --help, so that it fits one line

	Name    string // in messages, where it is not the flag's
	Limit   Limit  // of a value by itself; nil where any will do, or others have a say
	Resume  Change
	Instead string // key of the setting whose place it takes
	With    string // key of the setting to whose value it belongs
	Named   bool   // only methods that name it in Kind.Reads read it
	InFile  bool   // it has no flag: it is written into a configuration file
}

// A Group is where help shows settings: under a title of privgrad train --help or, where it
// has one, under a topic of its own. The zero Group is for what only privgrad fills in.
type Group struct{ Title, Topic string }

// Convex is the page of the methods for linear models.
var Convex = Group{"Training", "convex"}

// Flag is the setting's name on a command line, and in messages; the key where it has no flag.
func (r Row) Flag() string {
	if r.InFile {
		return r.Key
	}
	return r.Dashed()
}

// Dashed is the key as flags are written.
func (r Row) Dashed() string { return strings.NewReplacer("_", "-", ".", "-").Replace(r.Key) }

// Field is a pointer to the setting in a configuration, to which c points.
func (r Row) Field(c any) any { return r.Value(c).Addr().Interface() }

// Value is the setting in a configuration, to which c points.
func (r Row) Value(c any) reflect.Value {
	at := reflect.ValueOf(c).Elem()
	for key := range strings.SplitSeq(r.Key, ".") {
		f, _ := yamlfile.Field(at.Type(), key) // a test knows that every key has one
		at = at.FieldByIndex(f.Index)
	}
	return at
}

// Given is the value that the setting has, and whether it has one that is not zero.
func (r Row) Given(c any) (reflect.Value, bool) {
	v := reflect.Indirect(r.Value(c))
	return v, v.IsValid() && (r.Value(c).Kind() == reflect.Pointer || !v.IsZero())
}

// Put sets the setting to a value of its type, also where it may be left out.
func (r Row) Put(c, value any) {
	field, v := r.Value(c), reflect.ValueOf(value)
	if field.Kind() == reflect.Pointer {
		at := reflect.New(v.Type())
		at.Elem().Set(v)
		v = at
	}
	field.Set(v)
}

// Movable reports whether the setting says where data lie or what computes, which may differ
// between a run and its resumption.
func (r Row) Movable() bool { return r.Resume == Always }

// Fault is what is wrong with the value by itself; nil where none was given.
func (r Row) Fault(c any) error {
	v := reflect.Indirect(r.Value(c))
	if r.Limit == nil || !v.IsValid() {
		return nil
	}
	name := r.Name
	if name == "" {
		name = r.Flag()
	}
	return r.Limit(name, v.Interface())
}

// A Change says whether a resumed run may have another value.
type Change int

const (
	Never        Change = iota // the setting is a part of who the run is
	Always                     // it says where data lie, or what computes
	UnlessSeeded               // it moves rounding only, which nothing but a seeded run promises
)

// Allowed reports whether a run may change the value, seeded or not.
func (m Change) Allowed(seeded bool) bool {
	return m == Always || m == UnlessSeeded && !seeded
}

// A Limit refuses values of a setting, by the name that a person knows it by.
type Limit func(name string, value any) error

// Must refuses values that are not as words say.
func Must[T any](ok func(T) bool, words string, a ...any) Limit {
	words = fmt.Sprintf(words, a...)
	return func(name string, value any) error {
		if v, is := value.(T); !is || !ok(v) {
			return fmt.Errorf("%s %v: must be %s", name, value, words)
		}
		return nil
	}
}

// Within refuses values outside of an interval, ends included, and NaN.
func Within[T int | float64](least, most T, words string, a ...any) Limit {
	return Must(func(v T) bool { return v >= least && v <= most }, words, a...)
}

// OneOf refuses texts that are none of the choices.
func OneOf(choices ...string) Limit {
	return func(name string, value any) error {
		if word := fmt.Sprint(value); !slices.Contains(choices, word) {
			return usage.Unknown(name, word, choices)
		}
		return nil
	}
}

// Each refuses lists with a text that is none of the choices.
func Each(choices ...string) Limit {
	return func(name string, value any) error {
		for _, word := range value.([]string) {
			if !slices.Contains(choices, word) {
				return usage.Unknown(name, word, choices)
			}
		}
		return nil
	}
}

// UnlessEmpty is a limit on texts that say something.
func UnlessEmpty(l Limit) Limit {
	return func(name string, value any) error {
		if value == "" {
			return nil
		}
		return l(name, value)
	}
}

// Reads refuses texts that their reader refuses, in its words.
func Reads(reader func(text string) error) Limit {
	return func(_ string, value any) error { return reader(fmt.Sprint(value)) }
}

// Bounds that keep a run within single precision: of noise multipliers, and of lengths of features and of weights, whose
// products and squares have to fit, too.
const (
	LeastNoise, MostNoise   = 1e-6, 1e9
	leastLength, mostLength = 1e-12, 1e12
)

// Limits of more than one setting.
var (
	Positive = Within(math.SmallestNonzeroFloat64, math.MaxFloat64, "a finite number above 0")
	Length   = Within(leastLength, mostLength, "in [%g, %g]", leastLength, mostLength)
	Noise    = Within(LeastNoise, MostNoise, "a noise multiplier in [%g, %g]", LeastNoise, MostNoise)
	BelowOne = Must(func(x float64) bool { return x >= 0 && x < 1 }, "in [0, 1)")
)

// Choices lists names, for help.
func Choices[T ~string](names []T) string { return strings.Join(Texts(names), ", ") }

// Texts are names as texts.
func Texts[T ~string](names []T) (texts []string) {
	for _, n := range names {
		texts = append(texts, string(n))
	}
	return texts
}
