// Package statement says in plain words what a finished run promises, for someone who answers for personal data and
// trains no models. The same sentences make a text, a page and a JSON object.
//
// It reads files of the run, and the budget that has paid for it, where that is at hand. It opens no data set.
package statement

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// SchemaVersion is that of the JSON form. Keys and names of sections are added to it, and none is renamed.
const SchemaVersion = 1

// A Statement is what a run promises. Its figures are those of the run's files. Where there is no guarantee, those that would
// be read as a promise are null.
type Statement struct {
	SchemaVersion int      `json:"schema_version"`
	Run           string   `json:"run"` // the directory's name
	Guarantee     bool     `json:"guarantee"`
	NoGuarantee   []string `json:"not_a_guarantee_because"`

	Epsilon      *float64         `json:"epsilon"`
	Delta        *float64         `json:"delta"`
	Accountant   *string          `json:"accountant"`
	Neighbouring *string          `json:"neighbouring"`
	PrivacyUnit  string           `json:"privacy_unit"`
	Risk         *accountant.Risk `json:"risk"`
	Assumptions  []string         `json:"assumptions"`

	TuningCharged bool              `json:"tuning_charged"`
	DefaultsFrom  string            `json:"defaults_chosen_on"`
	Version       string            `json:"privgrad_version"`
	Digests       map[string]string `json:"sha256"`
	Sections      []Section         `json:"sections"`
}

// A Section is some sentences under a heading, then a list or facts.
type Section struct {
	Name      string   `json:"name"` // for programs: it stays when the title changes
	Title     string   `json:"title"`
	Sentences []string `json:"sentences"`
	List      []string `json:"list"`
	Facts     []Fact   `json:"facts"`
}

// A Fact is a value with its name.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// run is what the files of a run say.
type run struct {
	train.Result
	config  config.Config
	version string
	unit    unit
	paid    paid
}

// Read makes the statement of a finished run. It refuses one whose files are missing or do not go together.
func Read(dir string) (*Statement, error) {
	r, err := open(rundir.Dir(dir))
	if err != nil {
		return nil, err
	}
	s := &Statement{
		SchemaVersion: SchemaVersion, Run: r.name(), Guarantee: r.Guarantee, NoGuarantee: r.NoGuarantee, PrivacyUnit: r.PrivacyUnit,
		Assumptions: append([]string{}, r.Assumptions...), TuningCharged: r.TuningCharged, DefaultsFrom: r.DefaultsFrom, Version: r.version,
		Digests: r.Digests, Sections: r.sections(),
	}
	if r.Guarantee {
		s.NoGuarantee = []string{}
		s.Epsilon, s.Delta, s.Accountant, s.Neighbouring, s.Risk = r.Bound(), r.Delta, r.Accountant, r.Neighbouring, r.Risk
	}
	return s, nil
}

// open reads the files.
func open(d rundir.Dir) (*run, error) {
	if !d.Has(rundir.Config) {
		return nil, usage.Errorf("%s is no run directory, for it has no %s: give a directory that train wrote", string(d), rundir.Config)
	}
	r := &run{}
	finished, err := d.ReadResult(&r.Result)
	switch {
	case err != nil:
		return nil, err
	case !finished:
		return nil, d.Unfinished(rundir.Result)
	case !r.Sound() || r.Guarantee != (len(r.NoGuarantee) == 0) || r.PrivacyUnit == "" || r.TuningCharged != (r.Tuning != nil):
		return nil, usage.Errorf("%s is not what a run writes: restore it", d.Path(rundir.Result))
	}
	if err := config.Read(d.Path(rundir.Config), &r.config); err != nil {
		return nil, err
	}
	if err := r.whole(d); err != nil {
		return nil, err
	}
	if r.paid, err = readPaid(d, r.config.Budget); err != nil {
		return nil, err
	}
	facts, err := rundir.ReadFacts(d.Path(rundir.Model))
	r.version = facts["privgrad_version"]
	if r.Asked, r.unit = r.config.Epsilon, unitOf(r.PrivacyUnit); r.Tuning != nil {
		r.Asked = &r.Tuning.Asked
	}
	return r, err
}

// whole refuses a run of which a file is gone or is another one than the result says, and adds the ledger's digest, which the
// result has not.
func (r *run) whole(d rundir.Dir) error {
	for _, name := range []string{rundir.Config, rundir.Model} {
		if r.Digests[name] == "" {
			return usage.Errorf("%s has no digest of %s: restore it", d.Path(rundir.Result), name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Digests)) {
		digest, err := d.Digest(name)
		if err != nil {
			return usage.Errorf("%s cannot be read (%w): restore it; a statement is about a whole run", d.Path(name), usage.Cause(err))
		}
		if digest != r.Digests[name] {
			return usage.Errorf("%s is not the file of which %s speaks: restore it; `privgrad verify %s` lists all that differs", d.Path(name), rundir.Result, string(d))
		}
	}
	if _, _, err := ledger.Read(d.Path(rundir.Ledger)); err != nil {
		return err
	}
	digest, err := d.Digest(rundir.Ledger)
	if err != nil {
		return usage.Errorf("%s cannot be read: %w", d.Path(rundir.Ledger), usage.Cause(err))
	}
	r.Digests[rundir.Ledger] = digest
	return nil
}

// name tells the run from others.
func (r *run) name() string { return filepath.Base(filepath.Clean(r.Run)) }

// data names the data set, of a path by its end.
func (r *run) data() string {
	name := r.Dataset
	if r.DatasetSource != "" {
		name = r.DatasetSource
	}
	if kind, path, isPath := strings.Cut(name, ":"); isPath {
		return kind + ":" + filepath.Base(filepath.Clean(path))
	}
	return name
}
