// Package trained opens what a run of package train left, and uses its model: on public test
// data, on images, in other programs.
//
//	model, err := trained.Open("runs/first", trained.Options{})
//	predictions, err := model.Predict(features.Images{Bytes: images})
//
// A model and all that follows from it is released already: using it costs no privacy.
package trained

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Source opens one data set; see package train.
type Source = plan.Source

// A Tensor has one value for each index of Shape, the last index varying fastest.
type Tensor = safetensors.Tensor

// Options say how to open a run. Their zero value is the run's own settings.
type Options struct {
	Sources map[string]Source // data sets for Evaluate, by name; nil: those that are read from files
	DataDir string            // of the data set's files; empty: the run's own
	Device  string            // for Evaluate; empty: the run's own
	Threads int               // of the processor; 0: all
	Average bool              // the average of the parameters, in place of the last ones

	// Network is the graph of a run that was trained with one of the user's own; its nodes are given the
	// trained parameters. A network that is registered (nn.Register) needs none.
	Network *nn.Network
	// Features are those of a run that was trained with a function of the user's own.
	Features *features.Front
}

// Model is the trained model of a run. Goroutines may share it.
type Model struct {
	dir     string
	options Options
	config  plan.Config
	facts   map[string]string
	tensors []Tensor
	shape   [3]int
	classes []string // empty of a regression
	reading string   // rundir.Input
	front   *features.Front
	network *nn.Network
	params  []float32
}

// Open reads the model of a run directory. It needs the data set of the run only if an
// earlier version trained it.
func Open(dir string, o Options) (*Model, error) {
	if o.Sources == nil {
		o.Sources = plan.Sources()
	}
	m := &Model{dir: dir, options: o}
	files := rundir.Dir(dir)
	if !files.Has(rundir.Config) {
		return nil, usage.Errorf("%s is no run directory, for it has no %s: give a directory that train wrote", dir, rundir.Config)
	}
	if err := plan.ReadConfig(files.Path(rundir.Config), &m.config); err != nil {
		return nil, err
	}
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
		set, _, err := plan.OpenData(&m.config, m.options.Sources)
		if err != nil {
			return err
		}
		m.shape, m.reading = set.Test.Shape, plan.Reading(set.Test, m.config.Features != "")
		m.classes = plan.ClassNames(set)
		return nil
	}
	m.reading = m.facts[rundir.Input]
	s := &m.shape
	_, e1 := fmt.Sscanf(m.facts[rundir.Shape], "%dx%dx%d", &s[0], &s[1], &s[2])
	e2 := json.Unmarshal([]byte(m.facts[rundir.Classes]), &m.classes)
	if e1 != nil || e2 != nil || min(s[0], s[1], s[2]) < 1 {
		return usage.Errorf("%s: the model's file says of what it reads: shape %.32q, classes %.64q, which is nothing that train writes: restore the file", m.dir, m.facts[rundir.Shape], m.facts[rundir.Classes])
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
	case m.config.Features != "":
		m.front, digest, err = rundir.Dir(m.dir).ReadFront(m.config.FrontSpec(m.shape))
	}
	switch {
	case err != nil:
		return err
	case m.facts[rundir.FeaturesDigest] == digest:
		return nil
	case m.options.Features != nil:
		return usage.Errorf("%s was not trained behind the features that are given: give those that it was trained with, in Options.Features", m.dir)
	}
	return usage.Errorf("%s: %s is not the front end that %s was trained behind: restore it", m.dir, rundir.Features, file)
}

func (m *Model) openNetwork() (err error) {
	c, input := &m.config, m.shape
	if m.network = m.options.Network; m.network != nil {
		return nil
	}
	if _, err := plan.Model(c.Model); err != nil {
		return usage.Errorf("%s was trained with a network of your own, %s: give it in trained.Options.Network, or register it by nn.Register in a program of your own", m.dir, c.Model)
	}
	if m.front != nil {
		input = m.front.Out()
	}
	m.network, err = plan.BuildNetwork(c.Model, input, len(m.classes), c.Activation, c.Seed)
	return err
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

// ReadTensors reads a safetensors file of float32 values, such as a run's model.safetensors, and what is
// said of them. It accepts nothing that the format does not allow, and takes memory only as bytes arrive.
func ReadTensors(path string) ([]Tensor, map[string]string, error) { return rundir.ReadTensors(path) }

// table reports whether the records are rows of values, as those of a table are.
func (m *Model) table() bool { return m.reading == rundir.AsIs && m.shape[0]*m.shape[1] == 1 }
