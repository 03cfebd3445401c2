package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/yamlfile"
)

// A Setting is one key of a configuration: what a person is told of it, which values it
// takes, and whether a resumed run may change it.
type Setting struct {
	Key   string // in YAML; of a line search after "search."
	Group Group
	Arg   string // stands for a value in help, where its type says too little
	Help  string

	name    string // in messages, where it is not the flag's
	limit   limit  // of a value by itself; nil where any will do, or others have a say
	resume  change
	instead string // key of the setting whose place it takes
	with    string // key of the setting to whose value it belongs
}

// A Group is where help shows settings: under a title of privgrad train --help or, where it
// has one, under a topic of its own. The zero Group is for what only privgrad fills in.
type Group struct{ Title, Topic string }

// Settings are all of them, in the order in which a person reads of them.
func Settings() []Setting { return slices.Clone(settings) }

// Flag is the setting's name on a command line.
func (s Setting) Flag() string { return strings.NewReplacer("_", "-", ".", "-").Replace(s.Key) }

// Field is a pointer to the setting in a configuration. It is found by the key, as in
// YAML; the Search around it is made where there is none.
func (s Setting) Field(c *Config) any { return s.value(c).Addr().Interface() }

func (s Setting) value(c *Config) reflect.Value {
	at := reflect.ValueOf(c).Elem()
	for key := range strings.SplitSeq(s.Key, ".") {
		if at.Kind() == reflect.Pointer {
			if at.IsNil() {
				at.Set(reflect.New(at.Type().Elem()))
			}
			at = at.Elem()
		}
		f, _ := yamlfile.Field(at.Type(), key) // a test knows that every key has one
		at = at.FieldByIndex(f.Index)
	}
	return at
}

// Movable reports whether the setting says where data lie or what computes, which may differ
// between a run and its resumption.
func (s Setting) Movable() bool { return s.resume == always }

// fault is what is wrong with the value by itself; nil where none was given.
func (s Setting) fault(c *Config) error {
	if s.limit == nil {
		return nil
	}
	v := s.value(c)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	name := s.name
	if name == "" {
		name = s.Flag()
	}
	return s.limit(name, v.Interface())
}

// Override replaces the settings whose keys are given. What a given one excludes goes,
// and what belongs to a value that is replaced by another.
func (c *Config) Override(by *Config, given map[string]bool) {
	before := *c
	moves := func(key string) bool {
		s := Setting{Key: key}
		return given[key] && !reflect.DeepEqual(s.Field(by), s.Field(&before))
	}
	for _, s := range settings {
		switch {
		case given[s.Key]:
			s.value(c).Set(s.value(by))
			c.give(s.Key)
		case given[s.instead], s.with != "" && moves(s.with):
			s.value(c).SetZero()
			c.forget(s.Key)
		}
	}
	moved := func(key string) bool { return moves(key) && !slices.Contains(looking, key) }
	if i := slices.IndexFunc(recipes.Keys(), moved); i >= 0 && c.RecipeChosenOn != "" {
		c.RecipeChosenOn, c.leftRecipe = "", Setting{Key: recipes.Keys()[i]}.Flag()
	}
	if moves("epsilon") {
		c.file, c.flags = &before, given
	}
}

// A change says whether a resumed run may have another value.
type change int

const (
	never        change = iota // the setting is a part of who the run is
	always                     // it says where data lie, or what computes
	unlessSeeded               // it moves rounding only, which nothing but a seeded run promises
)

func (m change) allowed(noise string) bool {
	return m == always || m == unlessSeeded && noise != noiseSeeded
}

// A limit refuses values of a setting, by the name that a person knows it by.
type limit func(name string, value any) error

// must refuses values that are not as words say.
func must[T any](ok func(T) bool, words string, a ...any) limit {
	words = fmt.Sprintf(words, a...)
	return func(name string, value any) error {
		if v, is := value.(T); !is || !ok(v) {
			return fmt.Errorf("%s %v: must be %s", name, value, words)
		}
		return nil
	}
}

// within refuses values outside of an interval, ends included, and NaN.
func within[T int | float64](least, most T, words string, a ...any) limit {
	return must(func(v T) bool { return v >= least && v <= most }, words, a...)
}

// oneOf refuses texts that are none of the choices.
func oneOf(choices ...string) limit {
	return func(name string, value any) error {
		if word := fmt.Sprint(value); !slices.Contains(choices, word) {
			return usage.Unknown(name, word, choices)
		}
		return nil
	}
}

// unlessEmpty is a limit on texts that say something.
func unlessEmpty(l limit) limit {
	return func(name string, value any) error {
		if value == "" {
			return nil
		}
		return l(name, value)
	}
}

// reads refuses texts that their reader refuses, in its words.
func reads(reader func(text string) error) limit {
	return func(_ string, value any) error { return reader(fmt.Sprint(value)) }
}
