package datasets

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fileKind is a kind of files that hold tables and are no CSV.
type fileKind struct {
	name    string
	endings []string // of a file's name; without the point, what one may write before a colon, as csv:
	begins  []string // a file's first bytes
	read    string   // what reads it in pandas
}

var fileKinds = []fileKind{
	{"a Parquet file", []string{".parquet", ".pq"}, []string{"PAR1"}, "read_parquet"},
	{"a Feather or Arrow file", []string{".feather", ".arrow"}, []string{"ARROW1", "FEA1"}, "read_feather"},
	{"an Excel file", []string{".xlsx", ".xls", ".excel"}, []string{"PK\x03\x04", "\xd0\xcf\x11\xe0"}, "read_excel"},
	{"an ORC file", []string{".orc"}, []string{"ORC"}, "read_orc"},
	{"a pickle file", []string{".pkl", ".pickle"}, []string{"\x80\x04", "\x80\x05"}, "read_pickle"},
}

// CheckName refuses files that hold tables and are no CSV, by their names or, as in parquet:visits, by what is before the colon.
// It says how to convert them.
func CheckName(name string) error {
	before, path, prefixed := strings.Cut(name, ":")
	if !prefixed || len(before) == 1 { // which is a drive
		before, path = "", name
	}
	ending := strings.ToLower(filepath.Ext(strings.TrimSuffix(path, ".gz")))
	for _, k := range fileKinds {
		if slices.Contains(k.endings, ending) || before != "" && slices.Contains(k.endings, "."+strings.ToLower(before)) {
			return k.refuse(path)
		}
	}
	return nil
}

// CheckBytes refuses them by how they begin. It looks at no more than the first line, which is no record.
func CheckBytes(path string, text []byte) error {
	head, _, _ := bytes.Cut(text[:min(len(text), 512)], []byte("\n"))
	control := func(b byte) bool { return b < ' ' && b != '\t' && b != '\r' }
	if !slices.ContainsFunc(head, control) { // a name of a column may begin with PAR1
		return nil
	}
	for _, k := range fileKinds {
		if slices.ContainsFunc(k.begins, func(begin string) bool { return bytes.HasPrefix(head, []byte(begin)) }) {
			return k.refuse(path)
		}
	}
	return nil
}

// plainPath needs no quotes within those of the command.
var plainPath = regexp.MustCompile(`^[\pL\pN_./:+@%=, -]+$`)

func (k fileKind) refuse(path string) error {
	shown := path
	if !plainPath.MatchString(path) {
		shown = "FILE" + k.endings[0]
	}
	csv := strings.TrimSuffix(shown, filepath.Ext(shown)) + "-converted.csv" // of a name that no other file has
	return fmt.Errorf(`%s is %s, and privgrad reads tables as CSV: convert it by python -c "import pandas; pandas.%s('%s').to_csv('%s', index=False)", and give csv:%[5]s, or %[5]s to predict`, path, k.name, k.read, shown, csv)
}
