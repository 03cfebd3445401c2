// Package rundir reads and writes the files of a run directory.
package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// The files of a run directory.
const (
	Config      = "config.yaml"
	Ledger      = "ledger.db"
	Metrics     = "metrics.jsonl"
	Result      = "result.json"
	Model       = "model.safetensors"
	Average     = "model-average.safetensors"
	Features    = "features.safetensors"
	Processes   = "processes.jsonl"
	Slices      = "slices.jsonl" // of a run: its slices
	Slice       = "slice.jsonl"  // of a slice's folder: what becomes of it
	Budget      = "budget.json"  // which budget file has paid for the run
	Tuning      = "tuning.json"  // of a tuned run: what was tuned, and what it costs
	Charged     = "tuning.db"    // of a tuned run: that the whole price was charged
	Checkpoints = "checkpoint"
	Begun       = "checkpoint/config.yaml" // the settings with which the run began

	state       = "state.safetensors"
	diagnostics = "diagnostics.jsonl"
	cost        = "cost.json"
	private     = ".private"
)

// Dir is a run directory.
type Dir string

// Path is that of a file.
func (d Dir) Path(name string) string { return filepath.Join(d.place(), name) }

// place is where the directory is, however it was named: missing/../run is run, for all uses of it.
func (d Dir) place() string { return written.Path(string(d)) }

// State is the path of the checkpoint.
func (d Dir) State() string { return d.Path(StateFile) }

// Find says whether the directory holds a run, and whether it holds anything. One with other things is refused. One without
// a name is not there yet.
func (d Dir) Find() (run, anything bool, err error) {
	if d == "" {
		return false, false, nil
	}
	entries, err := os.ReadDir(d.place())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, usage.Errorf("run directory %s cannot be read (%w): choose another --out", d, usage.Cause(err))
	}
	_, err = os.Stat(d.Path(Config))
	return !errors.Is(err, fs.ErrNotExist), len(entries) > 0, nil
}

// Foreign refuses a directory without settings that holds more than a run killed before it
// wrote them leaves: a ledger, which says itself whose it is, what its budget has paid, and a temporary file.
func (d Dir) Foreign() error {
	if d == "" {
		return nil
	}
	entries, err := os.ReadDir(d.place())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() != Ledger && e.Name() != Budget && !strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".tmp") {
			return usage.Errorf("%s holds no run to resume, for it has no %s: choose another --out", d, Config)
		}
	}
	return nil
}

// Complete refuses a run of which a file is gone without which going on would spend
// unknown budget, or overwrite a model that nothing brings back.
func (d Dir) Complete() error {
	for _, part := range []struct {
		path, why string
		released  []string
	}{
		{d.Path(Ledger), "no ledger, so what was spent is unknown", []string{d.State(), d.Path(Model), d.Path(Metrics)}},
		{d.State(), "no checkpoint to go on from, and a run from the beginning would overwrite it", []string{d.Path(Model), d.Path(Average)}},
	} {
		if holds(part.path) {
			continue
		}
		if i := slices.IndexFunc(part.released, holds); i >= 0 {
			return usage.Errorf("%s has %s but %s: restore %s, or start a new run in another directory", d, filepath.Base(part.released[i]), part.why, part.path)
		}
	}
	return nil
}

// holds reports whether there is something in a file.
func holds(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Size() > 0
}

// Has reports whether there is a file, as far as one may look: who reads it then says why that fails.
func (d Dir) Has(name string) bool {
	for _, path := range []string{d.Path(name), d.indexOf(name)} {
		if _, err := os.Stat(path); err == nil || errors.Is(err, fs.ErrPermission) {
			return true
		}
	}
	return false
}

// IsFile reports whether there is a file, and not something else of the name.
func (d Dir) IsFile(name string) bool {
	i, err := os.Lstat(d.Path(name))
	return err == nil && i.Mode().IsRegular()
}

// KeepBegun keeps the settings with which a run began, once.
func (d Dir) KeepBegun(text []byte) error {
	if d.Has(Begun) {
		return nil
	}
	if err := Dir(d.Path(Checkpoints)).Make(); err != nil {
		return err
	}
	return d.Write(Begun, text)
}

// New makes a directory of a name, or of the name with -2, -3, … behind it where others were
// quicker.
func New(name string) (string, error) {
	if err := Dir(filepath.Dir(name)).Make(); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		dir := name
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", name, n)
		}
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			return dir, nil
		case !errors.Is(err, fs.ErrExist):
			return "", usage.Errorf("run directory %s cannot be made (%w): choose an --out that can be written", dir, usage.Cause(err))
		}
	}
}

func (d Dir) Make() error {
	if err := os.MkdirAll(d.place(), 0o755); err != nil {
		return usage.Errorf("run directory %s cannot be made (%w): choose an --out that can be written", d, usage.Cause(err))
	}
	return nil
}

// Sweep removes what writes that a crash cut short have left. Only the run itself may call it.
func (d Dir) Sweep() error {
	if err := errors.Join(durable.Sweep(d.place()), durable.Sweep(filepath.Dir(d.State()))); err != nil {
		return fmt.Errorf("run directory %s: %w", d, err)
	}
	return nil
}

// Write replaces a file as a whole.
func (d Dir) Write(name string, b []byte) error {
	return d.WriteTo(name, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// WriteTo replaces a file as a whole by what a function writes.
func (d Dir) WriteTo(name string, write func(io.Writer) error) error {
	if d.parted(name) {
		return d.writeParts(name, write)
	}
	return durable.WriteFile(d.Path(name), write)
}

// Digests are the SHA-256, in hex, of the files that a result goes with. The ledger has a checksum
// of its own, and its bytes tell how often a run was interrupted.
func (d Dir) Digests() (map[string]string, error) {
	all := map[string]string{}
	for _, name := range []string{Config, Metrics, Model, Average, Features, Network, Frozen, Tuning} {
		digest, err := d.Digest(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[name] = digest
	}
	return all, nil
}

// Digest is the SHA-256 of a file, in hex.
func (d Dir) Digest(name string) (string, error) {
	f, err := d.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// WriteResult marks the run as done.
func (d Dir) WriteResult(result any) error {
	b, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return d.Write(Result, append(b, '\n'))
}

// released finds the list of the released files in a result that WriteResult wrote. What it is within is not read, as another version may have other keys.
var released = regexp.MustCompile(`(?s)"released": (\[[^\]]*\])`)

// Release adds names to the released files of the result, where they are not there yet.
func (d Dir) Release(names []string) error {
	b, err := os.ReadFile(d.Path(Result))
	if err != nil {
		return err
	}
	at := released.FindSubmatchIndex(b)
	if at == nil {
		return nil
	}
	var listed []string
	if err := json.Unmarshal(b[at[2]:at[3]], &listed); err != nil {
		return fmt.Errorf("%s: %w", d.Path(Result), err)
	}
	all := listed
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) == len(listed) {
		return nil
	}
	list, err := json.MarshalIndent(all, "  ", "  ")
	if err != nil {
		return err
	}
	return d.Write(Result, slices.Concat(b[:at[2]], list, b[at[3]:]))
}

// ReadResult reports whether the run has finished, and reads its result.
func (d Dir) ReadResult(into any) (bool, error) {
	path := d.Path(Result)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, usage.Errorf("%s cannot be read: %w; restore it, or start a new run in another directory", path, err)
	}
	return true, nil
}

// ReadMetrics reads the metrics' lines, and leaves out those that are none.
func ReadMetrics[M any](d Dir) (all []M, err error) {
	b, err := os.ReadFile(d.Path(Metrics))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var m M
		if json.Unmarshal(line, &m) == nil {
			all = append(all, m)
		}
	}
	return all, nil
}

// Log is a file of lines of JSON.
type Log struct{ log *durable.Log }

// OpenMetrics opens the metrics, and leaves of them the lines that keep takes.
func (d Dir) OpenMetrics(keep func(line []byte) bool) (*Log, error) {
	return openLog(d.Path(Metrics), keep)
}

func openLog(path string, keep func(line []byte) bool) (*Log, error) {
	l, err := durable.OpenLog(path)
	if err != nil {
		return nil, err
	}
	return &Log{l}, l.Rewrite(keep)
}

// Append adds a line.
func (l *Log) Append(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.log.Append(b)
}

// Close is for a nil log, too.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.log.Close()
}

// Private makes RUN.private, beside the run directory and for its owner's eyes only.
func (d Dir) Private() (Dir, error) {
	out, err := filepath.Abs(d.place())
	if err != nil {
		return "", fmt.Errorf("private files: %w", err)
	}
	if filepath.Dir(out) == out {
		return "", usage.Errorf("private files need a run directory with a name, --out is %s", out)
	}
	dir := out + private
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return "", usage.Errorf("private files go to %s, which is no folder but a file or a link: move it away", dir)
	}
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = errors.Join(os.Chmod(dir, 0o700), durable.Sweep(dir))
	}
	if err != nil {
		return "", fmt.Errorf("private files: %w", err)
	}
	return Dir(dir), nil
}

// OpenDiagnostics opens the log in RUN.private.
func (d Dir) OpenDiagnostics(keep func(line []byte) bool) (*Log, error) {
	dir, err := d.Private()
	if err != nil {
		return nil, err
	}
	return openLog(dir.Path(diagnostics), keep)
}

// A Diagnostic is a line of that log: computed from training records without noise, for their owner's eyes only.
type Diagnostic struct {
	Private       bool     `json:"private"`
	Step          int      `json:"step"`
	RealisedBatch int      `json:"realised_batch"`
	TrainLoss     *float64 `json:"train_loss"`
	TrainAccuracy *float64 `json:"train_accuracy"`
}

// A Cost is what the last process of a run took in all, with the reading of records.
type Cost struct {
	Private bool    `json:"private"`
	Seconds float64 `json:"seconds"`
	PeakRSS int64   `json:"peak_rss_bytes"`
}

// WriteCost writes into RUN.private what a process took.
func (d Dir) WriteCost(v Cost) error {
	dir, err := d.Private()
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return dir.Write(cost, append(b, '\n'))
}
