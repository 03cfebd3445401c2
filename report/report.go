// Package report writes a page, a model card, a picture and TensorBoard events about a run, and
// verifies the files of a run against each other.
//
//	c, options := train.Default(), train.Options{Out: "runs/first"}
//	report.Attach(c, &options) // the run writes its report when it has finished
//
// It reads released files alone: result.json, config.yaml, metrics.jsonl and, to check
// them, the ledger and the digests of the others. It opens no data set.
package report

import (
	"bytes"
	"errors"
	"io"

	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/train"
)

// The files that a report adds to a run directory.
const (
	PageFile    = "report.html"
	CardFile    = "model-card.md"
	PictureFile = "accuracy.png"
	EventsFile  = "events.out.tfevents.0.privgrad"
)

// Attach has a run write its report when it has finished, and events for TensorBoard as
// it goes, where the configuration asks for these.
func Attach(c train.Config, to *train.Options) {
	r := &reporter{}
	if c.TensorBoard {
		r.events = &events{}
		to.Watch = append(to.Watch, r.events)
	}
	to.Report = r
}

// reporter is a train.Reporter.
type reporter struct {
	events *events // nil: none are asked for
}

// Files names what Write writes.
func (r *reporter) Files(result *train.Result) []string {
	files := []string{PageFile, CardFile}
	if result.TestAccuracy != nil {
		files = append(files, PictureFile)
	}
	if r.events != nil {
		files = append(files, EventsFile)
	}
	return files
}

// Write writes the report of a run directory. The run lists it as released.
func (r *reporter) Write(dir string) error {
	_, err := write(dir)
	if r.events != nil {
		err = errors.Join(err, r.events.err)
	}
	return err
}

// Write writes page, model card and picture into the directory of a run that has
// finished, anew where they are there, names them, and lists them as released.
func Write(dir string) (files []string, err error) {
	if files, err = write(dir); len(files) > 0 {
		err = errors.Join(err, rundir.Dir(dir).Release(files))
	}
	return files, err
}

// write writes what it can, and names it.
func write(dir string) (files []string, err error) {
	r, err := open(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{PictureFile, r.draw},
		{CardFile, func(w io.Writer) error { return card.Execute(w, r) }},
		{PageFile, func(w io.Writer) error { return writePage(w, []*run{r}, &Comparison{}) }},
	} {
		// The page alone shows the errors of a regression.
		if c := r.chart(); f.name == PictureFile && (c == nil || c.Y != accuracy) {
			continue
		}
		var b bytes.Buffer
		failed := f.write(&b)
		if failed == nil {
			failed = rundir.Dir(dir).Write(f.name, b.Bytes())
		}
		if failed == nil {
			files = append(files, f.name)
		}
		err = errors.Join(err, failed)
	}
	return files, err
}
