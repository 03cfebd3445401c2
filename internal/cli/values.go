package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/written"
)

// A value is a flag's value that is read as package written reads it, before the flag gets it: package pflag takes 010
// for eight, 0x10 for a number and " dog" for a name.
type value struct {
	pflag.Value
	read func(text string) (string, error) // as the flag's own value reads it in one way
}

func (v value) Set(text string) error {
	text, err := v.read(text)
	if err != nil {
		return err
	}
	return v.Value.Set(text)
}

// A list is such a value of several items. As of every flag, the last one that is given counts.
type list struct {
	pflag.Value
	read func(text string) ([]string, error)
}

func (l list) Set(text string) error {
	items, err := l.read(text)
	if err != nil {
		return err
	}
	if v, ok := l.Value.(pflag.SliceValue); ok {
		return v.Replace(items)
	}
	return l.Value.Set(strings.Join(items, ","))
}

// How flags of these types are read. A test knows all types.
var (
	reads = map[string]func(string) (string, error){
		"int": plainly(written.Whole), "uint64": plainly(written.Natural), "float64": plainly(written.Number), "number": plainly(written.Number),
	}
	lists = map[string]func(string) ([]string, error){
		"intSlice": wholes, "ints": wholes, "stringSlice": written.Names, "names": written.Names,
	}
)

// plainly writes again the number that a function reads.
func plainly[T any](read func(string) (T, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		n, err := read(text)
		return fmt.Sprint(n), err
	}
}

func wholes(text string) (items []string, err error) {
	all, err := written.Wholes(text)
	for _, n := range all {
		items = append(items, strconv.Itoa(n))
	}
	return items, err
}

// readPlainly has all flags read their values so.
func readPlainly(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		kind := f.Value.Type()
		if read, ok := reads[kind]; ok {
			f.Value = value{f.Value, read}
		}
		if read, ok := lists[kind]; ok {
			f.Value = list{f.Value, read}
		}
		if f.DefValue == "[]" {
			f.DefValue = "" // help shows no default
		}
	})
}
