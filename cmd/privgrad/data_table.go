package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

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
}

func tableInfos() ([]tableInfo, error) {
	var all []tableInfo
	for _, k := range tabular.Schemas() {
		s, err := k.Schema()
		if err != nil {
			return nil, err
		}
		all = append(all, tableInfo{k.Name, k.File, k.Records, s.Test, s.TestShare, s.Features(), s.ClassNames(), k.Note})
	}
	return all, nil
}

func describeTables(w io.Writer, tables []tableInfo) {
	fmt.Fprintf(w, "tables, by --data %sPATH:\n", train.TablePrefix)
	table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "  schema\tfile, also as .gz\tpublic N\tfeatures\tlabel\ttest")
		for _, t := range tables {
			label, test := fmt.Sprintf("%d classes", len(t.Classes)), t.Test
			if t.Classes == nil {
				label = "a number"
			}
			if test == "" {
				test = fmt.Sprintf("%g %% of it", 100*t.Share)
			}
			fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%s\t%s\n", t.Name, t.File, t.Records, len(t.Columns), label, test)
		}
	})
	for _, t := range tables {
		fmt.Fprintf(w, "  note on %s: %s\n", t.Name, t.Note)
	}
}

// tableVerification is the JSON form of data verify of a table: nothing that was
// found out about records.
type tableVerification struct {
	Table    string   `json:"table"`
	Schema   string   `json:"schema"`
	OK       bool     `json:"ok"`
	Features int      `json:"features"`
	Classes  []string `json:"classes"`
}

func verifyTable(cmd *cobra.Command, asJSON bool, path, schema string) error {
	r, err := tabular.Verify(path, schema)
	if err != nil {
		return usage.Wrap(err)
	}
	return show(cmd, asJSON, tableVerification{path, r.Schema, true, r.Features, r.Classes}, func(w io.Writer) {
		fmt.Fprintf(w, "%s is a table by schema %s: %d features a record\n", path, r.Schema, r.Features)
		private(w, func(w io.Writer) {
			fmt.Fprintln(w, "\ttable\ttest file")
			row := func(name string, of func(*tabular.Records) int) {
				fmt.Fprintf(w, "%s\t%d", name, of(r.Private.Table))
				if r.Private.Test != nil {
					fmt.Fprintf(w, "\t%d", of(r.Private.Test))
				}
				fmt.Fprintln(w)
			}
			row("records", func(r *tabular.Records) int { return r.Records })
			row("malformed records", func(r *tabular.Records) int { return r.Malformed })
			row("unreadable numbers", func(r *tabular.Records) int { return r.Unreadable })
			row("numbers out of bounds", func(r *tabular.Records) int { return r.Clamped })
			row("unknown categories", func(r *tabular.Records) int { return r.Unknown })
			row("bad labels", func(r *tabular.Records) int { return r.BadLabels })
			fmt.Fprintf(w, "the published records\t%v\n", r.Private.Published)
			for class, name := range r.Classes {
				row("class "+name, func(r *tabular.Records) int { return r.PerClass[class] })
			}
		})
	})
}
