package data

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/source"
)

// Info is a data set in data list and info.
type Info struct {
	Name    string   `json:"name"`
	BuiltIn bool     `json:"built_in"`
	Records int      `json:"public_n"`
	Shape   [3]int   `json:"shape"` // channels, height, width
	Classes []string `json:"classes"`
	Files   []string `json:"files"`
	Sources []origin `json:"sources"`
	Note    string   `json:"note"`
}

type origin struct {
	URL    string `json:"url"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func Infos() []Info {
	known := Sources()
	var all []Info
	for _, l := range layouts {
		s := Info{Name: l.Name, BuiltIn: known[l.Name].BuiltIn, Shape: l.Shape, Classes: l.ClassNames, Note: l.Note, Sources: []origin{}}
		for _, n := range l.PerClass {
			s.Records += n
		}
		for _, p := range slices.Concat(l.Train, l.Test) {
			s.Files = append(s.Files, p.File)
		}
		for _, d := range datasets.Downloads(l.Name) {
			s.Sources = append(s.Sources, origin{d.URL, d.Size, d.SHA256})
		}
		all = append(all, s)
	}
	return all
}

// tableInfo is a published table in data list.
type tableInfo struct {
	Name    string   `json:"name"` // of its schema
	File    string   `json:"file"`
	Records int      `json:"public_n"`
	Test    string   `json:"test"`       // test file, else empty
	Share   float64  `json:"test_share"` // share of the records that is held out, else 0
	Columns []string `json:"features"`
	Classes []string `json:"classes"` // null in a regression
	Note    string   `json:"note"`
	SHA256  string   `json:"sha256"` // of the file; empty where it is not stated
}

func tableInfos() ([]tableInfo, error) {
	var all []tableInfo
	for _, k := range tabular.Schemas() {
		s, err := k.Schema()
		if err != nil {
			return nil, err
		}
		all = append(all, tableInfo{k.Name, k.File, k.Records, s.Test, s.TestShare, s.Features(), s.ClassNames(), k.Note, k.SHA256})
	}
	return all, nil
}

func list() *cobra.Command {
	return cli.Command{
		Use:   "list",
		Short: "List the data sets: where they come from, their files and licenses",
		Long: `list shows the data sets that train knows, with their sources, files, origin and license.
Then it shows the published tables whose schemas are built in.

Your own table needs a schema of public bounds and categories: see
docs/guides/own-table.md. Your own images and arrays need none: see
docs/guides/own-images.md.`,
		Example: "  privgrad data list",
		Run: func(c *cli.Call) error {
			all := Infos()
			tables, err := tableInfos()
			if err != nil {
				return err
			}
			return c.Show(map[string]any{"data_sets": all, "tables": tables}, func(w io.Writer) {
				for _, s := range all {
					describeSet(w, s)
					fmt.Fprintln(w)
				}
				describeTables(w, tables)
				fmt.Fprintln(w, "\nyour own images, by --data dir:PATH or npz:FILE: see docs/guides/own-images.md\nlarge sets, by privgrad data shard and --data shards:DIR: see docs/guides/shards.md")
			})
		},
	}.New()
}

func describeSet(w io.Writer, s Info) {
	var size int64
	for _, d := range s.Sources {
		size += d.Bytes
	}
	fmt.Fprintf(w, "%s: %d training records of %d×%d×%d in %d classes\n", s.Name, s.Records, s.Shape[0], s.Shape[1], s.Shape[2], len(s.Classes))
	if s.BuiltIn {
		fmt.Fprintln(w, "  built in")
	} else {
		fmt.Fprintf(w, "  get it by: privgrad data fetch %s --data-dir DIR (%s)\n", s.Name, cli.ByteSize(size))
	}
	fmt.Fprintf(w, "  classes: %s\n", classNames(s.Classes))
	fmt.Fprintf(w, "  files, each also as .gz: %s\n", strings.Join(s.Files, ", "))
	for _, d := range s.Sources {
		fmt.Fprintf(w, "  from %s\n", d.URL)
	}
	fmt.Fprintf(w, "  note: %s\n", s.Note)
}

// classNames lists classes for people: of many the first and the last.
func classNames(all []string) string {
	const most, first = 20, 5
	if len(all) > most {
		return fmt.Sprintf("%s, … %s (--json lists all)", strings.Join(all[:first], ", "), all[len(all)-1])
	}
	return strings.Join(all, ", ")
}

func describeTables(w io.Writer, tables []tableInfo) {
	fmt.Fprintf(w, "tables, by --data %sPATH:\n", source.TablePrefix)
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "  schema\tfile, also as .gz\tpublic N\tfeatures\tlabel\ttest")
		for _, t := range tables {
			label, test := fmt.Sprintf("%d classes", len(t.Classes)), t.Test
			if t.Classes == nil {
				label = "a number"
			}
			if test == "" {
				test = fmt.Sprintf("%g%% of it", 100*t.Share)
			}
			fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%s\t%s\n", t.Name, t.File, t.Records, len(t.Columns), label, test)
		}
	})
	for _, t := range tables {
		fmt.Fprintf(w, "  note on %s: %s\n", t.Name, t.Note)
		if t.SHA256 != "" {
			fmt.Fprintf(w, "    SHA-256 of %s: %s\n", t.File, t.SHA256)
		}
	}
}
