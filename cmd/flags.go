package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/written"
	"github.com/privgrad/privgrad/train"
)

// settings are the flags of a configuration. One that was not given sets nothing.
type settings struct {
	values train.Config    // what the flags say
	given  map[string]bool // keys of those that were given
	flags  *pflag.FlagSet
}

// newSettings makes flags of the settings that are wanted.
func newSettings(flags *pflag.FlagSet, wanted func(setting.Row) bool) *settings {
	s := &settings{values: train.Default(), given: map[string]bool{}, flags: flags}
	flags.SortFlags = false
	for _, row := range config.Rows() {
		if row.InFile || !wanted(row) {
			continue
		}
		v, def := flagOf(row.Field(&s.values))
		set := v.set
		v.set = func(text string) error {
			s.given[row.Key] = true
			return set(text)
		}
		usage := row.Help
		if row.Key == "data" { // the names are this program's
			usage = strings.Replace(usage, "data set", strings.Join(data.Names(), ", "), 1)
		}
		flags.Var(v, row.Flag(), usage)
		f := flags.Lookup(row.Flag())
		if f.DefValue = def; v.kind == booleanKind.name {
			f.NoOptDefVal = "true"
		}
		cli.NameArgument(f, row.Arg)
		f.Hidden = row.Group == setting.Group{}
	}
	return s
}

func everySetting(setting.Row) bool { return true }

// has reports whether a flag is a setting's.
func (s *settings) has(flag string) bool {
	return slices.ContainsFunc(config.Rows(), func(t setting.Row) bool { return t.Flag() == flag })
}

// sections are the settings under the titles of help, or those of a topic under its titles.
func (s *settings) sections(topic string) (all []cli.Section) {
	topics := map[string][]string{}
	for _, row := range config.Rows() {
		g := row.Group
		if row.InFile {
			continue
		}
		if g.Topic != topic {
			if !slices.Contains(topics[g.Title], g.Topic) {
				topics[g.Title] = append(topics[g.Title], g.Topic)
			}
			continue
		}
		if g.Title == "" {
			continue
		}
		i := slices.IndexFunc(all, func(s cli.Section) bool { return s.Title == g.Title })
		if i < 0 {
			i = len(all)
			all = append(all, cli.Section{Title: g.Title})
		}
		all[i].Flags = append(all[i].Flags, s.flags.Lookup(row.Flag()))
	}
	for i := range all {
		if more := topics[all[i].Title]; topic == "" && len(more) > 0 {
			all[i].Title += " (more: `privgrad help " + strings.Join(more, "|") + "`)"
		} else if topic != "" {
			all[i].Title = "Settings of train"
		}
	}
	return all
}

// config is the defaults, the file over them if there is one, and the flags over both.
func (s *settings) config(file string) (train.Config, error) {
	c := train.Default()
	if file != "" {
		if err := train.ReadConfig(file, &c); err != nil {
			return c, err
		}
	}
	c.Override(&s.values, s.given)
	return c, nil
}

// A kind is how a flag's values are written. Package cli puts errors of strconv into words.
type kind[T any] struct {
	name  string
	parse func(string) (T, error)
}

var (
	textKind    = kind[string]{"string", func(s string) (string, error) { return s, nil }}
	numberKind  = kind[float64]{"number", written.Number}
	integerKind = kind[int]{"int", written.Whole}
	naturalKind = kind[uint64]{"int", written.Natural}
	namesKind   = kind[[]string]{"names", written.Names}
	booleanKind = kind[bool]{"bool", strconv.ParseBool}
	listKind    = kind[[]int]{"ints", written.Wholes}
)

// flagValue is a pflag.Value that hands its text on.
type flagValue struct {
	kind string
	set  func(string) error
}

func (v flagValue) String() string     { return "" }
func (v flagValue) Set(s string) error { return v.set(s) }
func (v flagValue) Type() string       { return v.kind }

// flagOf makes a flag of what a pointer to a setting points to, and its default's text.
func flagOf(field any) (flagValue, string) {
	switch p := field.(type) {
	case *string:
		return textKind.flag(p)
	case *int:
		return integerKind.flag(p)
	case *uint64:
		return naturalKind.flag(p)
	case *float64:
		return numberKind.flag(p)
	case *bool:
		return booleanKind.flag(p)
	case *[]int:
		return listKind.flag(p)
	case *[]string:
		return namesKind.flag(p)
	case **int:
		return integerKind.optional(p)
	case **float64:
		return numberKind.optional(p)
	case **bool:
		return booleanKind.optional(p)
	}
	return flagValue{"", func(string) error { return fmt.Errorf("no flag can be of type %T; please report this", field) }}, ""
}

// flag is one of a field that always has a value.
func (k kind[T]) flag(field *T) (flagValue, string) {
	return k.value(func(v T) { *field = v }), strings.Trim(fmt.Sprint(*field), "[]")
}

// optional is a flag of a field that is nil where nothing was said.
func (k kind[T]) optional(field **T) (flagValue, string) {
	return k.value(func(v T) { *field = &v }), ""
}

func (k kind[T]) value(set func(T)) flagValue {
	return flagValue{k.name, func(text string) error {
		v, err := k.parse(text)
		if err == nil {
			set(v)
		}
		return err
	}}
}
