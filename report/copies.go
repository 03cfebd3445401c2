package report

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Twin is a directory that holds the run of another one, which was named before it.
type Twin struct {
	Run string `json:"run"`
	Of  string `json:"of"`
	// Differs is what tells a fork from a copy: files that are not the same, or that show nothing as they are gone.
	Differs []string `json:"differs,omitempty"`

	run, of *run
}

// Fork says what it means that two directories of one run differ.
func (t Twin) Fork() string {
	return fmt.Sprintf("STEPS WERE RUN TWICE: %s and %s are copies of one run, and differ in %s. Both went on, or a file was changed by hand. "+
		"Each states the ε of its own steps; someone who sees both sees more", t.Run, t.Of, strings.Join(t.Differs, ", "))
}

// other says to whoever looks at one of the two what it has to do with the other.
func (t Twin) other(r *run) string {
	other := t.Of
	if t.of == r {
		other = t.Run
	}
	return fmt.Sprintf("steps were run twice: %s is a copy of the same run, and differs in %s", other, strings.Join(t.Differs, ", "))
}

// Copy says what it means that they do not.
func (t Twin) Copy() string {
	return fmt.Sprintf("%s is %s or a copy of it, and costs nothing more", t.Run, t.Of)
}

// A trace is what shows whether two directories hold one run, and the same releases of it.
type trace struct {
	path     string // as it was given
	dir      fs.FileInfo
	identity string            // of the run; "" where nothing says it any more
	files    map[string]string // their digests
	finished string            // where the run finished, as it says itself
	claims   string            // what it says that it cost
}

// traced are files that no two runs leave alike but copies do. Those that must be there to show that nothing else was released
// come first: the other ones only tell a copy from a fork.
var traced = []string{rundir.Ledger, rundir.Model, rundir.Processes, rundir.Dir("").State(), rundir.Average, rundir.Metrics, rundir.Features, rundir.Network, rundir.Frozen}

const required = 3

// traceOf reads what there is to see of a directory; a file that cannot be read shows nothing.
func traceOf(dir string) trace {
	d := rundir.Dir(dir)
	t := trace{path: dir, files: map[string]string{}, identity: identity(d)}
	t.dir, _ = os.Stat(dir)
	for _, name := range traced {
		if digest, err := d.Digest(name); err == nil {
			t.files[name] = digest
		}
	}
	return t
}

// identity is what the ledger says it is, or else the checkpoint.
func identity(d rundir.Dir) string {
	if _, header, err := ledger.Read(d.Path(rundir.Ledger)); err == nil {
		return header.RunID
	}
	_, facts, err := rundir.ReadTensors(d.State())
	if err != nil {
		return ""
	}
	return facts["run"]
}

// same says whether two are one directory.
func (t *trace) same(u *trace) bool { return t.dir != nil && u.dir != nil && os.SameFile(t.dir, u.dir) }

// differs names what does not show that two directories of one run have the same releases.
func (t *trace) differs(u *trace) (all []string) {
	for i, name := range traced {
		a, here := t.files[name]
		b, there := u.files[name]
		switch {
		case here && there && a != b:
			all = append(all, filepath.ToSlash(name))
		case here && there || i >= required:
		case name == rundir.Processes && !here && !there: // of an earlier version
			if t.finished != u.finished {
				all = append(all, "the directory where the run finished")
			}
		default:
			all = append(all, name+", which is not in both")
		}
	}
	if t.claims != u.claims {
		all = append(all, "the releases or the ε of "+rundir.Result)
	}
	return all
}

// twins finds copies and forks, and the runs to be counted: a run and its copies count once. Copies agree with each other, all
// with all: where a file is gone, two that are like a third may be unlike.
func twins(all []*run) (counted []*run, copies, forks []Twin) {
	var alike [][]*run // each that is counted, and its copies
	for i, r := range all {
		copied := slices.IndexFunc(alike, func(class []*run) bool {
			return !slices.ContainsFunc(class, func(other *run) bool { return !r.copies(other) })
		})
		if copied >= 0 {
			copies = append(copies, Twin{Run: r.path, Of: alike[copied][0].path, run: r, of: alike[copied][0]})
			alike[copied] = append(alike[copied], r)
			continue
		}
		counted, alike = append(counted, r), append(alike, []*run{r})
		for _, other := range all[:i] {
			if r.identity != "" && r.identity == other.identity && !r.copies(other) {
				forks = append(forks, Twin{Run: r.path, Of: other.path, Differs: r.differs(&other.trace), run: r, of: other})
				break
			}
		}
	}
	return counted, copies, forks
}

// copies says whether two directories hold the same releases of one run.
func (r *run) copies(other *run) bool {
	return r.same(&other.trace) || r.identity != "" && r.identity == other.identity && len(r.differs(&other.trace)) == 0
}

// openAll opens runs that have finished, with what tells copies from forks.
func openAll(dirs []string) (all []*run, err error) {
	if len(dirs) > 1 {
		if err := refuseUnfinished(dirs); err != nil {
			return nil, err
		}
	}
	for _, dir := range dirs {
		r, err := open(dir)
		if err != nil {
			return nil, err
		}
		r.trace = traceOf(dir)
		r.finished = r.Run
		claims, err := json.Marshal([]any{r.Guarantee, r.Epsilon, r.Delta, r.Neighbouring, r.Events})
		if err != nil {
			return nil, err
		}
		r.claims = string(claims)
		all = append(all, r)
	}
	return all, nil
}

// refuseUnfinished says of runs that go on, among several, what they cost already and what is to be done. One that goes on
// beside its own copy must not be resumed.
func refuseUnfinished(dirs []string) error {
	for _, dir := range dirs {
		if rundir.Dir(dir).IsSlice() { // no second run
			return usage.Errorf("%s is a slice of a run, whose ledger charges all of its steps: take it back by `privgrad slice in RUN %[1]s`, and leave it out here", dir)
		}
	}
	for _, dir := range dirs {
		d := rundir.Dir(dir)
		if !d.Has(rundir.Config) || d.Has(rundir.Result) {
			continue
		}
		if _, stopped, _ := d.Progress(); stopped != "" {
			return usage.Errorf("the run in %s has ended before it finished, so leave it out, and add what it cost yourself: %s", dir, stopped)
		}
		t := trace{identity: identity(d)}
		t.dir, _ = os.Stat(dir)
		for _, other := range dirs {
			u := trace{identity: identity(rundir.Dir(other))}
			u.dir, _ = os.Stat(other)
			if t.identity != "" && t.identity == u.identity && !t.same(&u) {
				return usage.Errorf("the run in %s has not finished%s, and %s holds a copy of it. Do not resume both: steps would run twice. "+
					"Leave %[1]s out only if it made no step after it was copied; otherwise what it released counts, too", dir, charged(d), other)
			}
		}
		return usage.Errorf("the run in %s has not finished%s, so it cannot be added up yet: continue it by `privgrad resume %[1]s`, or leave it out and count what it has charged yourself", dir, charged(d))
	}
	return nil
}

// charged is how much a run has spent, as its ledger has it.
func charged(d rundir.Dir) string {
	state, _, err := ledger.Read(d.Path(rundir.Ledger))
	if err != nil || state.Committed == 0 {
		return ""
	}
	return fmt.Sprintf(", though its ledger charges %.3g%% of what it may spend", 100*float64(state.Reserved)/float64(state.Committed))
}
