// Package handout has what commands share that write pages for people, and the statement of a run.
package handout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
	"github.com/privgrad/privgrad/report/statement"
)

// Replaceable refuses to write over a file that is no page of this program.
func Replaceable(out string) error {
	if err := cli.Output("out", out); err != nil { // such as a pipe, which would wait for ever
		return err
	}
	f, err := os.Open(written.Path(out))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return usage.Errorf("out %s: %w", out, err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil || !bytes.Contains(head, []byte(`<meta name="generator" content="privgrad">`)) {
		return usage.Errorf("out %s exists already, and is no page of privgrad: name another file, or remove it", out)
	}
	return nil
}

// State says in plain words what a run promises: as text, as JSON, or as a page where a file is named.
func State(c *cli.Call, out string, sameData bool) error {
	switch {
	case len(c.Arguments) > 1:
		return usage.Errorf("--statement is about one run, but %d were given: name one; `privgrad report` without it adds up several", len(c.Arguments))
	case sameData:
		return usage.Errorf("--same-data is for several runs, and --statement is about one: leave one of them out")
	}
	if out != "" {
		if err := Replaceable(out); err != nil {
			return err
		}
	}
	s, err := statement.Read(c.Arguments[0])
	if err != nil {
		return err
	}
	var words bytes.Buffer
	if out == "" {
		s.Text(&words)
	} else {
		if err := durable.WriteFile(out, s.HTML); err != nil {
			return err
		}
		fmt.Fprintln(&words, "Written: "+out)
	}
	return c.Show(s, func(w io.Writer) { words.WriteTo(w) })
}
