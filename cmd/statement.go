package cmd

import (
	"bytes"
	"io"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/report/statement"
)

// state says in plain words what a run promises: as text, as JSON, or as a page where a file is named.
func state(c *cli.Call, out string, o report.Options) error {
	switch {
	case len(c.Arguments) > 1:
		return usage.Errorf("--statement is about one run, but %d were given: name one; `privgrad report` without it adds up several", len(c.Arguments))
	case o.SameData:
		return usage.Errorf("--same-data is for several runs, and --statement is about one: leave one of them out")
	}
	if out != "" {
		if err := replaceable(out); err != nil {
			return err
		}
	}
	s, err := statement.Read(c.Arguments[0])
	if err != nil {
		return err
	}
	var text, page bytes.Buffer
	if err := s.Text(&text); err != nil {
		return err
	}
	if out != "" {
		if err := s.HTML(&page); err != nil {
			return err
		}
		if err := durable.WriteFile(out, func(w io.Writer) error { _, err := w.Write(page.Bytes()); return err }); err != nil {
			return err
		}
		text = *bytes.NewBufferString("Written: " + out + "\n")
	}
	return c.Show(s, func(w io.Writer) { w.Write(text.Bytes()) })
}
