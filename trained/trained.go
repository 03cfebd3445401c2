// Package trained opens the model of a run and uses it: it evaluates, predicts and exports.
//
//	model, err := trained.Open("runs/first", trained.Options{})
//	predictions, err := model.Predict(features.Images{Bytes: images})
//
// Using a model costs no privacy, since the model was released already.
package trained

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/imported"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Source opens one data set; see package train.
type Source = source.Source

// A Tensor has one value for each index of Shape, the last index varying fastest.
type Tensor = safetensors.Tensor

// Options say how to open a run. Their zero value is the run's own settings.
type Options struct {
	Sources map[string]Source // data sets for Evaluate, by name; nil: those that are read from files
	DataDir string            // of the data set's files; empty: the run's own
	Device  string            // for Evaluate; empty: the run's own
	Threads int               // of the processor; 0: all
	Average bool              // the average of the parameters, in place of the last ones

	// Warn hears what Read finds odd about the records of a table: which values could not be read, and what they count as.
	Warn func(text string)

	// Network is the graph of a run that was trained with one of the user's own; its nodes are given the
	// trained parameters. A network that is registered (nn.Register) needs none.
	Network *nn.Network
	// Features are those of a run that was trained with a function of the user's own.
	Features *features.Front
}

// mostRecord is more values than any record has.
const mostRecord = 1 << 28

// Model is the trained model of a run. Goroutines may share it.
type Model struct {
	dir     string
	options Options
	config  config.Config
	dataDir string // of the run, wherever its files are now
	facts   map[string]string
	tensors []Tensor
	shape   [3]int
	classes []string        // empty of a regression
	bounds  datasets.Bounds // of a regression's labels
	reading string          // rundir.Input
	front   *features.Front
	network *nn.Network
	file    *imported.Network // that the network came from; nil: it is a named one, or the program's
	params  []float32
}

// Open reads the model of a run directory. It needs the data set of the run only if an
// earlier version trained it.
func Open(dir string, o Options) (*Model, error) {
	if o.Sources == nil {
		o.Sources = source.Sources()
	}
	m := &Model{dir: dir, options: o}
	files := rundir.Dir(dir)
	if _, err := os.Stat(files.Path(rundir.Config)); err != nil {
		return nil, usage.Errorf("%s is no run directory, for its %s cannot be read (%w): give a directory that train wrote", dir, rundir.Config, usage.Cause(err))
	}
	if err := config.Read(files.Path(rundir.Config), &m.config); err != nil {
		return nil, err
	}
	m.config.OfRun()
	m.dataDir = m.config.DataDir
	m.config.DataDir = cmp.Or(o.DataDir, m.config.DataDir)
	file := rundir.Model
	if o.Average {
		if file = rundir.Average; m.config.Average == 0 {
			return nil, usage.Errorf("%s kept no average of its parameters: leave out --average, or train with one", dir)
		}
	}
	var err error
	if m.tensors, m.facts, err = rundir.ReadTensors(files.Path(file)); err != nil {
		return nil, err
	}
	m.config.SchemaText = m.facts[rundir.Schema]
	if err := m.describe(); err != nil {
		return nil, err
	}
	if err := m.openFront(file); err != nil {
		return nil, err
	}
	if err := m.openNetwork(); err != nil {
		return nil, err
	}
	if m.params, err = rundir.Flat(files.Path(file), m.tensors, m.network.Program); err != nil {
		return nil, err
	}
	return m, m.network.SetParams(m.params)
}

// describe finds out what the model reads, from its file or, if that is of an earlier version, from the data.
func (m *Model) describe() error {
	if m.facts[rundir.Shape] == "" {
		set, _, err := source.OpenData(&m.config, m.options.Sources)
		if err != nil {
			return err
		}
		m.shape, m.reading = set.Test.Shape, plan.Reading(set.Test, m.config.Features != "")
		m.classes, m.bounds = set.Names(), set.Bounds
		return nil
	}
	if err := m.readBounds(); err != nil {
		return err
	}
	m.reading = m.facts[rundir.Input]
	if got := m.facts[rundir.Normalize]; m.config.Network != "" && got != m.config.NormalizeText() {
		return usage.Errorf("%s: the model's file says normalize %.32q, and %s says %s: restore the one that was changed", m.dir, got, rundir.Config, m.config.NormalizeText())
	}
	if got := cmp.Or(m.facts[rundir.FeatureNorm], "none"); got != m.config.NormText() {
		return usage.Errorf("%s: the model's file says feature_norm %.32q, and %s says %s: restore the one that was changed", m.dir, got, rundir.Config, m.config.NormText())
	}
	s := &m.shape
	_, err := fmt.Sscanf(m.facts[rundir.Shape], "%dx%dx%d", &s[0], &s[1], &s[2])
	ok := err == nil && m.facts[rundir.Shape] == fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2])
	for i, size := 0, 1; ok && i < len(s); i++ {
		if ok = s[i] > 0 && s[i] <= mostRecord/size; ok {
			size *= s[i]
		}
	}
	ok = ok && slices.Contains([]string{rundir.Symmetric, rundir.Fraction, rundir.AsIs}, m.reading) && !(m.reading == rundir.Symmetric && m.config.Features != "")
	if err := json.Unmarshal([]byte(m.facts[rundir.Classes]), &m.classes); err != nil || !ok {
		return usage.Errorf("%s: the model's file says of what it reads: shape %.32q, input %.32q, classes %.64q, which is nothing that train writes: restore the file", m.dir, m.facts[rundir.Shape], m.reading, m.facts[rundir.Classes])
	}
	return nil
}

// readBounds finds the bounds of a regression's labels in the model's file. A file of an earlier version does not have them: then
// they are those of the schema. Labels of a program's own data may have none.
func (m *Model) readBounds() error {
	text, ok := m.facts[rundir.LabelBounds]
	if !ok && m.facts[rundir.Classes] == "null" {
		c := m.config
		if set, err := source.OpenFiles(&c, m.options.Sources, true); err == nil {
			m.bounds = set.Bounds
		}
	}
	if !ok {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &m.bounds); err != nil || !m.bounds.Sound() {
		return usage.Errorf("%s: the model's file says label_bounds %.64q, which is nothing that train writes: restore the file", m.dir, text)
	}
	return nil
}

// openFront reads the front end, which must be the one that the model was trained behind.
func (m *Model) openFront(file string) (err error) {
	digest := ""
	switch own := m.options.Features; {
	case own != nil:
		m.front = own
		digest, err = own.Digest()
	case m.config.Network != "":
		if m.file, err = imported.Read(rundir.Dir(m.dir), &m.config, m.shape); err != nil {
			return err
		}
		if got, err := m.file.Digest(); err != nil || got != m.facts[rundir.NetworkDigest] {
			return usage.Errorf("%s: %s or %s is not what %s was trained with: restore it", m.dir, rundir.Network, rundir.Frozen, file)
		}
		if m.front = m.file.Front; m.front != nil {
			digest, err = m.front.Digest()
		}
	case m.config.Features != "":
		m.front, digest, err = rundir.Dir(m.dir).ReadFront(m.config.FrontSpec(m.shape))
	}
	switch {
	case err != nil:
		return err
	case m.facts[rundir.FeaturesDigest] == digest && (m.front == nil || m.front.In() == m.shape):
		return nil
	case m.options.Features != nil:
		return usage.Errorf("%s was not trained behind the features that are given: give those that it was trained with, in Options.Features", m.dir)
	}
	made := rundir.Features
	if m.config.Network != "" {
		made = rundir.Frozen
	}
	return usage.Errorf("%s: %s is not the front end that %s was trained behind: restore it", m.dir, made, file)
}

func (m *Model) openNetwork() (err error) {
	c, input := &m.config, m.shape
	if m.front != nil {
		input = m.front.Out()
	}
	switch m.network = m.options.Network; {
	case m.network != nil:
	case m.file != nil:
		if m.network, err = nn.OfProgram(m.file.Program, m.file.Params); err != nil {
			return err
		}
	default:
		if _, err := plan.Model(c.Model); err != nil {
			return usage.Errorf("%s was trained with a network of your own, %s: give it in trained.Options.Network, or register it by nn.Register in a program of your own", m.dir, c.Model)
		}
		values := 0
		for _, t := range m.tensors {
			values += len(t.Data)
		}
		// A named model has a parameter for each value that it reads: what the file says takes no more memory than it holds.
		if len(m.classes) > values || ir.Size(input[:]) > values && !nn.Registered(c.Model) {
			return usage.Errorf("%s: the model's file names records of %d values and %d classes, and holds %d parameters, too few for that: restore the file", m.dir, ir.Size(input[:]), len(m.classes), values)
		}
		if m.network, err = plan.BuildNetwork(c.Model, nn.Options{Input: input, Classes: len(m.classes), Activation: c.Activation, Seed: c.Seed, Version: c.ModelVersion}); err != nil {
			return err
		}
	}
	p, classes := m.network.Program, len(m.classes)
	fits := p.Outputs() == classes
	if p.Loss != ir.SoftmaxCrossEntropy {
		fits = classes == 2 || classes == 0 && p.Loss == ir.Huber
	}
	if !fits || ir.Size(p.Shape) != ir.Size(input[:]) {
		return usage.Errorf("%s: network %s with loss %s reads %d values and gives %d, which does not fit the %d values a record and the %d classes of the model's file: give the network that it was trained with", m.dir, p.Name, p.Loss, ir.Size(p.Shape), p.Outputs(), ir.Size(input[:]), classes)
	}
	return nil
}

// reader says how the network is given records: as they were when it was trained.
func (m *Model) reader() tables.Reader {
	return tables.Reader{
		Front: m.front, Reading: m.imported(), Norm: m.config.Norm(), Loss: m.network.Program.Loss, Classes: len(m.classes), Threads: m.options.Threads,
	}
}

// imported is what a network that came from a file reads of a value; nil of others, and behind a front end.
func (m *Model) imported() *ir.Reading {
	if m.file == nil || m.front != nil {
		return nil
	}
	return &m.file.Reading
}

// Shape is that of a record: channels, height and width of an image; 1, 1 and the number of
// columns of a table.
func (m *Model) Shape() [3]int { return m.shape }

// Classes are the names of the classes, in the order of the logits; nil for a regression.
func (m *Model) Classes() []string { return append([]string(nil), m.classes...) }

// Network is the network, with the trained parameters in the nodes of its graph.
func (m *Model) Network() *nn.Network { return m.network }

// Parameters are the tensors of the model's file, which one should not change.
func (m *Model) Parameters() []Tensor { return m.tensors }

// Metadata is what the model's file says of it; docs/reference/files.md has the keys.
func (m *Model) Metadata() map[string]string { return maps.Clone(m.facts) }

// ReadTensors reads a safetensors file of floating-point values, such as a run's model.safetensors, and what is
// said of them. It accepts nothing that the format does not allow, and takes memory only as bytes arrive.
func ReadTensors(path string) ([]Tensor, map[string]string, error) { return rundir.ReadTensors(path) }

// table reports whether the records are rows of values, as those of a table are.
func (m *Model) table() bool { return m.reading == rundir.AsIs && m.shape[0]*m.shape[1] == 1 }
