package report

import (
	"io"

	"github.com/privgrad/privgrad/internal/usage"
)

// Together writes one page of several runs that have finished, and says what those on one
// data set cost together.
func Together(w io.Writer, dirs ...string) ([]Composition, error) {
	var runs []*run
	for _, dir := range dirs {
		r, err := open(dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, usage.Errorf("a report is about runs: name a directory that train wrote")
	}
	return compose(runs), writePage(w, runs)
}
