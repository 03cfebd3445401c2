package report

import (
	"io"

	"github.com/privgrad/privgrad/internal/usage"
)

// Options are those of a page of several runs.
type Options struct {
	SameData bool // all runs are taken to be on one data set, whatever its names
}

// A Comparison is what several runs have to do with each other.
type Comparison struct {
	Composed []Composition
	Copies   []Twin   // each counts once, with what it is a copy of
	Forks    []Twin   // each counts as a run of its own
	Apart    []string // names of data sets whose runs were not added up with each other; nil of one
}

// Together writes one page of several runs that have finished, and says what those on one
// data set cost together.
func Together(w io.Writer, o Options, dirs ...string) (*Comparison, error) {
	if len(dirs) == 0 {
		return nil, usage.Errorf("a report is about runs: name a directory that train wrote")
	}
	runs, err := openAll(dirs)
	if err != nil {
		return nil, err
	}
	c := compared(runs, o)
	return c, writePage(w, runs, c)
}

func compared(runs []*run, o Options) *Comparison {
	var c Comparison
	var counted []*run
	counted, c.Copies, c.Forks = twins(runs)
	var names []string
	if c.Composed, names = compose(counted, o.SameData); len(names) > 1 {
		c.Apart = names
	}
	return &c
}
