package data

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// sharded is the JSON form of data shard.
type sharded struct {
	Data      string `json:"data_set"` // as train reads it
	Directory string `json:"out"`
	Shards    int    `json:"shards"`
}

func shard() *cobra.Command {
	var c config.Config
	var out string
	var number, publicN int
	return cli.Command{
		Use:   "shard SET",
		Short: "Write a data set as shards: for tables beyond memory, and for several machines",
		Long: `shard writes a data set as files that training reads where they lie on disk. A table is
read piece by piece, so it may be larger than memory. Train with --data shards:DIR.

The set is what --data of train takes, such as csv:PATH. The folder gets one index and so
many shard files, which hold the training records in their order. Each file gets the same
part of the public number of records, and the last one gets the rest. Give --public-n if
no size of the set was published.

The index, index.json, has names and public sizes only. The shard files are as private as
the records, and so are their lengths. Only their owner can read them.

Malformed records stay in the shards and count as zero, as in the files they come from.`,
		Example:  "  privgrad data shard csv:mine.csv --public-n 5000000 --shards 8 --out mine.shards\n  privgrad train --data shards:mine.shards --public-n 5000000 --delta 1e-8 --epsilon 1\n  privgrad data shard fmnist --shards 4 --out fmnist.shards",
		Args:     cli.OneArg("a data set"),
		Required: []string{"out", "shards"},
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&out, "out", "", "folder to write, which must be new or empty")
			f.IntVar(&number, "shards", 0, "number of shard files, at least one for each process that will train")
			f.IntVar(&publicN, "public-n", 0, "public number of records, as for train (default: the published one)")
			f.StringVar(&c.DataDir, "data-dir", "", cli.Help("data_dir"))
			f.StringSliceVar(&c.ClassNames, "class-names", nil, cli.Help("class_names"))
			f.StringVar(&c.ImageSize, "image-size", "", cli.Help("image_size"))
			f.StringVar(&c.Schema, "schema", "", cli.Help("schema"))
			f.BoolVar(&c.DropFirst, "drop-first", false, cli.Help("drop_first"))
		},
		Run: func(call *cli.Call) error {
			if call.Given("public-n") && publicN < 1 {
				return usage.Errorf("public-n %d: give a public number of records, at least 1", publicN)
			}
			c.Data = call.Arguments[0]
			if err := writeShards(&c, out, publicN, number); err != nil {
				return err
			}
			data := shards.Form.Prefix + out
			return call.Show(sharded{data, out, number}, func(w io.Writer) {
				fmt.Fprintf(w, "%s is in %s, as %d shards\n\nNext:\n  privgrad train --data %s …\n", c.Data, out, number, cli.Quote(data))
			})
		},
	}.New()
}

// writeShards writes the records of a configuration's data set. Those of a table pass through memory a
// few at a time.
func writeShards(c *config.Config, out string, publicN, number int) error {
	isTable := strings.HasPrefix(c.Data, source.TablePrefix)
	set, err := source.OpenFiles(c, Sources(), isTable)
	if err != nil {
		return err
	}
	if published := set.PublicN; Sources()[c.Data].BuiltIn && publicN != 0 && publicN != published {
		return usage.Errorf("public-n %d: data set %s has %d training records, a published number: leave --public-n out", publicN, c.Data, published)
	}
	switch {
	case publicN == 0:
		publicN = set.PublicN
	case set.Share > 0:
		publicN = max(tabular.Scaled(publicN, set.Share), 1)
	}
	if publicN == 0 {
		return usage.Errorf("data set %s: no size of it was published: give --public-n, a number that is not counted from private records", c.Data)
	}
	set.Moves = set.Moves || isTable                             // empty lines take no place
	set.Source = cmp.Or(set.Source, datasets.PublicName(c.Data)) // shards of shards have the first one's
	w, err := shards.Create(written.Path(out), set, publicN, number)
	if err != nil {
		return usage.Wrap(err)
	}
	defer w.Abort()
	take := func(training, test datasets.Split) error {
		if err := w.Train(training); err != nil {
			return err
		}
		return w.Test(test)
	}
	if isTable {
		var path string
		if path, err = source.Path(c); err == nil {
			err = tabular.Each(path, tabular.Options{Schema: c.Schema, DropFirst: c.DropFirst}, take)
		}
	} else {
		err = take(set.Train, set.Test)
	}
	if err != nil {
		return err
	}
	return w.Close()
}
