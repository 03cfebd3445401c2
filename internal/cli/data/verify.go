package data

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/datasets/mnist/fashion"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// verification is the JSON form of data verify. What was found out about
// records is not in it: that is for the owner's eyes, and JSON gets stored.
type verification struct {
	Set       string     `json:"data_set"`
	OK        bool       `json:"ok"`
	Files     []fileInfo `json:"files"`
	Structure *string    `json:"structure"` // what is wrong between the files, else null
}

type fileInfo struct {
	Name      string  `json:"name"`
	Path      string  `json:"path"`
	Present   bool    `json:"present"`
	Structure *string `json:"structure"` // what is wrong, else null
	Digest    string  `json:"digest"`    // known, unknown, or unlisted
}

// tableVerification is the same of a table.
type tableVerification struct {
	Table    string   `json:"table"`
	Schema   string   `json:"schema"`
	OK       bool     `json:"ok"`
	Features int      `json:"features"`
	Classes  []string `json:"classes"`
}

func verify() *cobra.Command {
	var dir, schema string
	var own datasets.Declared
	return cli.Command{
		Use:   "verify NAME|csv:PATH|dir:PATH|npz:FILE|shards:DIR",
		Short: "Check the files of a data set, or your own",
		Long: `verify checks data files before you train. It says whether their structure is sound and
whether they are the published files. It fails if training would refuse them.

Of your own data, the last line is a verdict. The command fails (exit code 1) if a listed class
has no records, if there is a folder that --class-names does not list, or if most values of a
table's column are none that its schema describes. It also fails if a schema lacks quotes around
a category with a comma, or if categories show that a table is not in UTF-8.

Under the banner PRIVATE it also tells you, the owner, what training never shows:

  published formats   the number of records, labels that are no class
  tables              malformed records, missing and unreadable numbers and dates, those out of
                      bounds, unknown categories, bad labels: how many, in which column, the
                      line of the first, and how the schema may have to read them; the most
                      frequent unknown category or label
  folders and arrays  damaged or oversized images, files that are left out, labels
                      that are no class, shapes of arrays

Show that part to nobody from whom you protect the records. --json leaves it out, the
verdict included.

Your own data in a published format has an unknown digest. That is fine: training never
looks at digests. If the files are the published ones, train with --published-set.`,
		Example: "  privgrad data verify dir:photos --class-names cat,dog --image-size 3x32x32\n  privgrad data verify fmnist                           # what is built in\n  privgrad data verify mnist --data-dir data/mnist\n  privgrad data verify csv:adult.data\n  privgrad data verify csv:mine.csv --schema mine.yaml",
		Args:    cli.OneArg("the name of a data set"),
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&dir, "data-dir", "", "folder of the files (or $"+config.DataDirVariable+"); fmnist needs none")
			f.StringSliceVar(&own.Classes, "class-names", nil, cli.Help("class_names"))
			f.StringVar(&own.Size, "image-size", "", cli.Help("image_size"))
			f.StringVar(&schema, "schema", "", "schema of a table: a file (default PATH.schema.yaml) or one of "+strings.Join(TableNames(), ", "))
		},
		Run: func(c *cli.Call) error {
			name := c.Arguments[0]
			form, isTable := source.FormOf(name), strings.HasPrefix(name, source.TablePrefix)
			if _, err := layout(name); err != nil && form == nil && !isTable {
				return source.UnknownData(name, Names())
			}
			switch {
			case schema != "" && !isTable:
				return usage.Errorf("schema %s: a schema is for tables (%sPATH), and %s is none; leave out --schema", schema, source.TablePrefix, name)
			case form == nil && (own.Classes != nil || own.Size != ""):
				return usage.Errorf("data set %s has its own classes and size; leave out --class-names and --image-size, which are for your own images and arrays", name)
			case form == nil && !isTable:
				return verifySet(c, name, dir)
			}
			path, err := source.Path(&config.Config{Data: name, DataDir: dir})
			if err != nil {
				return err
			}
			if isTable {
				return verifyTable(c, path, schema)
			}
			return verifyOwn(c, name, form, path, own)
		},
	}.New()
}

func verifySet(c *cli.Call, name, dir string) error {
	l, err := layout(name)
	if err != nil {
		return err
	}
	var r *datasets.Report
	if dir == "" && l.Name == mnist.Fashion.Name {
		r, err = fashion.Verify()
	} else {
		if dir, err = needDirectory(dir, "that holds the files"); err != nil {
			return err
		}
		r, err = datasets.Verify(dir, l)
	}
	if err != nil {
		return err
	}
	v := verification{Set: r.Set, OK: r.OK(), Structure: message(r.Structure)}
	for _, f := range r.Files {
		v.Files = append(v.Files, fileInfo{f.Name, f.Path, f.Present, message(f.Structure), string(f.Digest)})
	}
	if err := c.Show(v, func(w io.Writer) { describeReport(w, l, r) }); err != nil {
		return err
	}
	if !r.OK() {
		return fmt.Errorf("the files of %s are missing or damaged: the report names them; mend them, or run `privgrad data fetch %[1]s`", l.Name)
	}
	return nil
}

// ownVerification is the JSON form of a check of image folders or arrays.
type ownVerification struct {
	Data      string   `json:"data_set"`
	OK        bool     `json:"ok"`
	Shape     *[3]int  `json:"shape"` // channels, height, width, as declared; null if refused
	Classes   []string `json:"classes"`
	Tested    bool     `json:"has_test_split"`
	Structure *string  `json:"structure"` // why training refuses the files, else null
}

func verifyOwn(c *cli.Call, name string, form *datasets.Form, path string, d datasets.Declared) error {
	r, err := form.Verify(path, d)
	if err != nil {
		return err
	}
	v := ownVerification{Data: name, OK: r.Structure == nil, Structure: message(r.Structure)}
	if r.Set != nil {
		v.Shape, v.Classes, v.Tested = &r.Set.Train.Shape, r.Set.ClassNames, r.Set.Test.Shape != [3]int{}
	}
	if err := c.Show(v, func(w io.Writer) { describeOwn(w, name, r) }); err != nil {
		return err
	}
	if len(r.Private.Faults) > 0 && !c.JSON() { // which has nothing that is private
		return fmt.Errorf("the files of %s do not match the listed classes, as the verdict says: mend the names and check again, or train if it is meant to be so", name)
	}
	return usage.Wrap(r.Structure)
}

func describeOwn(w io.Writer, name string, r *datasets.OwnReport) {
	if s := r.Set; s != nil {
		labels := fmt.Sprintf("in %d classes", s.Classes)
		if s.Classes == 0 {
			labels = "with numbers for labels"
		}
		fmt.Fprintf(w, "%s: records of %s, as declared, %s\n", name, datasets.SizeText(s.Train.Shape), labels)
		if s.Test.Shape == [3]int{} {
			fmt.Fprintln(w, "there are no test records")
		}
	}
	if r.Private.Counts == nil && r.Private.Notes == nil {
		return
	}
	private(w, func(w io.Writer) {
		if r.Private.Counts != nil {
			fmt.Fprintln(w, "\ttraining\ttest")
		}
		for _, n := range r.Private.Counts {
			fmt.Fprintf(w, "%s\t%d\t%d\n", n.What, n.Train, n.Test)
		}
		for _, note := range r.Private.Notes {
			fmt.Fprintln(w, note)
		}
		switch {
		case len(r.Private.Faults) > 0:
			fmt.Fprintln(w, "\nverdict: the classes do not match: "+strings.Join(r.Private.Faults, "; "))
		case r.Structure != nil:
			fmt.Fprintln(w, "\nverdict: training refuses these files")
		default:
			fmt.Fprintln(w, "\nverdict: each listed class has records, and no folder is left out")
		}
	})
}

func message(err error) *string {
	if err == nil {
		return nil
	}
	return new(err.Error())
}

func describeReport(w io.Writer, l *datasets.Layout, r *datasets.Report) {
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "file\tstructure\tdigest")
		for _, f := range r.Files {
			structure, digest := "sound", string(f.Digest)
			switch {
			case !f.Present:
				structure, digest = "missing", "–"
			case f.Structure != nil:
				structure = "broken"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Path, structure, digest)
		}
	})
	for _, f := range r.Files {
		if f.Structure != nil {
			fmt.Fprintf(w, "\n%v\n", f.Structure)
		}
	}
	if r.Structure != nil {
		fmt.Fprintf(w, "\n%v\n", r.Structure)
	}
	if r.Private == nil {
		return
	}
	private(w, func(w io.Writer) {
		fmt.Fprintln(w, "\ttraining\ttest")
		row := func(name string, of func(datasets.RecordReport) int) {
			fmt.Fprintf(w, "%s\t%d\t%d\n", name, of(r.Private.Train), of(r.Private.Test))
		}
		row("records", func(r datasets.RecordReport) int { return r.Records })
		row("labels that are no class", func(r datasets.RecordReport) int { return r.OutOfRange })
		for class, name := range l.ClassNames {
			row("class "+name, func(r datasets.RecordReport) int { return r.PerClass[class] })
		}
	})
}

func verifyTable(c *cli.Call, path, schema string) error {
	r, err := tabular.Verify(path, schema)
	if err != nil {
		return usage.Wrap(err)
	}
	err = c.Show(tableVerification{path, r.Schema, true, r.Features, r.Classes}, func(w io.Writer) {
		fmt.Fprintf(w, "%s is a table by schema %s: %d features a record\n", path, r.Schema, r.Features)
		private(w, func(w io.Writer) {
			for _, f := range r.Private.Files {
				fmt.Fprint(w, "\t", f.Name)
			}
			fmt.Fprintln(w)
			row := func(name string, of func(*tabular.Records) int) {
				fmt.Fprint(w, name)
				for _, f := range r.Private.Files {
					fmt.Fprint(w, "\t", of(f.Records))
				}
				fmt.Fprintln(w)
			}
			fmt.Fprint(w, "separator")
			for _, f := range r.Private.Files {
				fmt.Fprintf(w, "\t%q", f.Separator)
			}
			fmt.Fprintln(w)
			row("records", func(r *tabular.Records) int { return r.Records })
			row("malformed records", func(r *tabular.Records) int { return r.Malformed.Count })
			row("missing numbers and dates", (*tabular.Records).Missing)
			row("unreadable numbers and dates", (*tabular.Records).Unreadable)
			row("numbers and dates out of bounds", (*tabular.Records).Clamped)
			row("unknown categories", (*tabular.Records).Unknown)
			row("bad labels", (*tabular.Records).BadLabels)
			if p := r.Private.Published; p != nil {
				fmt.Fprintf(w, "the published records\t%v\n", *p)
			}
			for class, name := range r.Classes {
				row("class "+name, func(r *tabular.Records) int { return r.PerClass[class] })
			}
			for _, f := range r.Private.Files {
				places(w, f)
			}
			fmt.Fprintln(w, "\n"+verdict(r.Private.Faults))
		})
	})
	if err == nil && len(r.Private.Faults) > 0 && !c.JSON() { // which has nothing that is private
		err = fmt.Errorf("table %s does not match its schema, as the verdict says: correct one of them and check again", path)
	}
	return err
}

// places says where the faults of each column begin.
func places(w io.Writer, f tabular.FileRecords) {
	say := func(fault tabular.Fault, what, advice string) {
		if advice != "" {
			advice = " (" + advice + ")"
		}
		if fault.Count > 0 {
			fmt.Fprintf(w, "%s: %s: %d, first in line %d%s\n", f.Name, what, fault.Count, fault.Line, advice)
		}
	}
	say(f.Malformed, "records with too few or too many fields", "")
	for _, c := range append(slices.Clone(f.Columns), f.Label) {
		kind := "values that are no category"
		if c.Name == f.Label.Name {
			kind = "labels that are no class"
		}
		say(c.Missing, "column "+c.Name+", values that are missing", "")
		say(c.Unreadable, "column "+c.Name+", values that are no "+cmp.Or(c.What, "number"), c.Advice.String())
		say(c.Clamped, "column "+c.Name+", values out of bounds", "")
		say(c.Unknown, "column "+c.Name+", "+kind, c.Words.String())
	}
}

// verdict is the last line about a table.
func verdict(faults []string) string {
	if len(faults) == 0 {
		return "verdict: most values of each column are what the schema describes"
	}
	return "verdict: table and schema do not match: " + strings.Join(faults, "; ")
}

// private shows a table of what is computed from records, between banners.
func private(w io.Writer, rows func(io.Writer)) {
	fmt.Fprint(w, "\n*** PRIVATE: computed from the records, for their owner only ***\n\n")
	cli.Table(w, 0, rows)
	fmt.Fprint(w, "\n*** end of PRIVATE ***\n")
}
