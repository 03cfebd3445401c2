package data

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/train"
)

// fetched is the JSON form of data fetch.
type fetched struct {
	Set        string `json:"data_set"`
	Directory  string `json:"data_dir"`
	Downloaded bool   `json:"downloaded"` // false if all files were there
}

func fetch() *cobra.Command {
	var dir string
	return cli.Command{
		Use:   "fetch NAME",
		Short: "Download a data set",
		Long: `fetch downloads the missing files of a data set from their publisher and checks their
SHA-256. After an interruption, the same command continues where the download stopped. It
never overwrites a file.`,
		Example: "  privgrad data fetch mnist --data-dir data/mnist\n  privgrad train --data mnist --data-dir data/mnist --published-set --epsilon 3",
		Args:    cli.OneArg("the name of a data set"),
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&dir, "data-dir", "", "directory to fetch into (or "+config.DataDirVariable+")")
		},
		Progress: true,
		Run: func(c *cli.Call) error {
			l, err := layout(c.Arguments[0])
			if err != nil {
				return err
			}
			dir, err := needDirectory(dir, "to fetch into")
			if err != nil {
				return err
			}
			started, err := download(c, l, dir)
			if err != nil {
				return err
			}
			what := "fetched and checked"
			if !started {
				what = "already there"
			}
			return c.Show(fetched{l.Name, dir, started}, func(w io.Writer) {
				fmt.Fprintf(w, "%s is %s, in %s\n\nNext:\n  privgrad train --data %[1]s --data-dir %[4]s --published-set --epsilon 3\n", l.Name, what, dir, cli.Quote(dir))
			})
		},
	}.New()
}

// download fetches what is missing, and says whether anything was.
func download(c *cli.Call, l *datasets.Layout, dir string) (started bool, err error) {
	ctx, con, err := c.Interruptible("stopping the download")
	if err != nil {
		return false, err
	}
	defer con.Release()
	err = datasets.Fetch(ctx, l, dir, func(done, total int64) {
		if !started {
			con.StartBytes(int(total))
			started = true
		}
		con.Update(int(done), l.Name)
	})
	con.Finish()
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: the same command goes on from here", train.ErrInterrupted)
	}
	return started, err
}
