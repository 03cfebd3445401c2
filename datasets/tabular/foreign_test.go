package tabular

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// Files of other kinds are refused with how to convert them, wherever one may be given, by their names and by how they begin.
func TestOtherKindsOfFiles(t *testing.T) {
	dir := t.TempDir()
	trained := tabled(t, "a,y\n1,no\n", "columns: [{name: a, bounds: [0, 1]}]\n"+yesNo)
	of := func(_ *datasets.Split, _ []string, err error) error { return err }
	never := func(what string, got error, path, reads string) {
		t.Helper()
		want := `privgrad reads tables as CSV: convert it by python -c "import pandas; pandas.` + reads + `('` + path + `').to_csv('`
		if got == nil || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "index=False)\", and give csv:") {
			t.Errorf("%s: %v, want %s", what, got, want)
		}
	}
	for name, c := range map[string]struct{ begins, reads string }{
		"x.parquet": {"PAR1\x15\x00", "read_parquet"}, "x.PQ": {"PAR1\x15\x00", "read_parquet"}, "x.feather": {"ARROW1\x00\x00", "read_feather"},
		"x.arrow": {"FEA1\x00", "read_feather"}, "x.xlsx": {"PK\x03\x04\x14\x00", "read_excel"}, "x.xls": {"\xd0\xcf\x11\xe0\x00", "read_excel"},
		"x.orc": {"ORC\x00", "read_orc"}, "x.pkl": {"\x80\x04\x95\x00", "read_pickle"}, "x.pickle": {"\x80\x05\x95\x00", "read_pickle"},
	} {
		for _, name := range []string{name, strings.TrimSuffix(name, filepath.Ext(name)) + ".csv"} {
			path := write(t, dir, name, c.begins+"\n\n")
			write(t, dir, name+suffix, "columns: [{name: a, bounds: [0, 1]}]\n"+yesNo)
			for what, err := range map[string]error{
				"train": third(Open(path, Options{})), "shards": Each(path, Options{}, nil), "verify": third(Verify(path, "")),
				"predict": of(Unlabeled(path, trained, Options{})), "evaluate": third(Labeled(path, trained, Options{})), "begin a schema": third(Skeleton(path, "")),
			} {
				never(what, err, path, c.reads)
			}
			check(t, os.Remove(path))
		}
	}
	never("by a prefix", datasets.CheckName("parquet:visits"), "visits", "read_parquet")
	never("by a prefix and a name", datasets.CheckName("csv:x/v.parquet"), "x/v.parquet", "read_parquet")
	never("a path that needs quotes", datasets.CheckName("it's.parquet"), "FILE.parquet", "read_parquet")
	for _, name := range []string{"csv:visits.csv", "fmnist", "dir:photos", "visits.csv.gz", "parquet", `C:\visits.csv`} {
		if err := datasets.CheckName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Text may begin as other files do, and a record without a header before it is never looked at.
	if set := open(t, tabled(t, "PAR1,y\n1,no\n\x00,no\n", "columns: [{name: PAR1, bounds: [0, 1]}]\n"+yesNo), Options{}); set.Train.Len() != 2 { // a byte of a record decides nothing
		t.Errorf("%d records", set.Train.Len())
	}
	if set := open(t, tabled(t, "PAR1,y\n1,no\n", "columns: [{name: PAR1, bounds: [0, 1]}]\n"+yesNo), Options{}); set.Train.Len() != 1 {
		t.Errorf("%d records", set.Train.Len())
	}
	if set := open(t, tabled(t, "PAR1\x00,no\n", "header: none\ncolumns: [{name: a, bounds: [0, 1]}, {name: y}]\n"+yesNo), Options{}); set.Train.Len() != 1 {
		t.Errorf("%d records", set.Train.Len())
	}
}
