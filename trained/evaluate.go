package trained

import (
	"cmp"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/outputs"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// Figures are Errors, those of a regression on public test records in the units of its label: RMSE, MAE and R2; and
// TwoClasses: AUC and BalancedAccuracy. They are nil of other models.
type Figures = outputs.Figures

// Evaluation is a saved model's showing on its public test data.
type Evaluation struct {
	Run       string   `json:"run"`
	Dataset   string   `json:"dataset"`
	Model     string   `json:"model"`
	Average   bool     `json:"average"` // of the parameters
	Examples  int      `json:"examples"`
	Loss      *float64 `json:"test_loss"`
	Accuracy  *float64 `json:"test_accuracy"`
	Classes   []string `json:"classes"`
	Confusion [][]int  `json:"confusion"` // rows: true class, columns: predicted
	Figures
	// NotPrivate says why the model's ε is none, if it is not.
	NotPrivate string `json:"not_private,omitempty"`
	// Unfinished says that the run had steps to go when it was evaluated.
	Unfinished bool `json:"unfinished,omitempty"`
	// Warnings are what is odd about data that EvaluateOn reads.
	Warnings []string `json:"-"`
}

// Evaluate runs the model on the test data of the run's data set, which must be public.
func (m *Model) Evaluate() (*Evaluation, error) {
	c := m.config
	c.PrivacyUnit = config.PrivacyUnit{} // whose the training records are matters to training alone
	set, _, err := source.OpenData(&c, m.options.Sources)
	if err != nil {
		return nil, err
	}
	if set.Test.Shape == [3]int{} {
		return nil, usage.Errorf("%s has no test records to evaluate %s on: add some to the data and train with --test-is-public where they are public", c.Data, m.dir)
	}
	if !set.TestIsPublic {
		return nil, usage.Errorf("the test data of %s were not declared public when %s was trained: evaluating on them would be charged; train with --published-set or --test-is-public where they are", c.Data, m.dir)
	}
	if set.Test.Shape != m.shape || set.Classes != len(m.classes) {
		return nil, usage.Errorf("the data set %s is another one than %s was trained on: the model reads records of shape %v and tells %d classes apart; give the data that it was trained on", c.Data, m.dir, m.shape, len(m.classes))
	}
	return m.evaluate(set, c.Data)
}

// EvaluateOn runs the model on the labelled records of other data, of which the caller declares that they are public:
// accuracy and loss are computed without noise. The data are named as in a configuration, and are read as those that
// the model was trained on: by its classes, its size of images, its schema. A path without a prefix is of the kind of
// those. Records to train on are not read: of dir:PATH they are the images in PATH/test/CLASS or, where there are no folders
// train and test, in PATH/CLASS, of npz:PATH x_test and y_test, and of csv:PATH all records. Nothing is written.
func (m *Model) EvaluateOn(data string) (*Evaluation, error) {
	c := m.config
	c.DataDir = m.dataDir
	if c.ImageSize == "" {
		c.ImageSize = datasets.SizeText(m.shape)
	}
	set, warnings, err := source.OpenLabeled(c, data, m.options.DataDir, m.options.Sources)
	if err != nil {
		return nil, err
	}
	switch classes := set.Names(); {
	case set.Test.Len() == 0:
		return nil, usage.Errorf("%s has no test records: add some", data)
	case set.Test.Shape != m.shape:
		return nil, usage.Errorf("%s has records of %s, the model of %s reads %s: give records of that shape", data, datasets.SizeText(set.Test.Shape), m.dir, datasets.SizeText(m.shape))
	case !slices.Equal(classes, m.classes):
		return nil, usage.Errorf("%s has the classes %s, the model of %s knows %s: give records of those classes, in that order", data, listed(classes), m.dir, listed(m.classes))
	case set.Bounds != m.bounds:
		return nil, usage.Errorf("%s has labels within the bounds %v, the model of %s was trained on labels within %v: give records whose schema has the model's bounds", data, set.Bounds, m.dir, m.bounds)
	case plan.Reading(set.Test, m.front != nil || m.file != nil) != m.reading:
		return nil, usage.Errorf("%s holds values of another type than those that the model of %s was trained on, which reads them as %s: give bytes for bytes, and float32 for float32", data, m.dir, m.reading)
	}
	e, err := m.evaluate(set, data)
	if err == nil {
		e.Warnings = warnings
	}
	return e, err
}

// listed are the names of some classes.
func listed(classes []string) string {
	if len(classes) == 0 {
		return "none, but numbers"
	}
	return strings.Join(classes, ", ")
}

// evaluate scores the test records of a set, whose name is data.
func (m *Model) evaluate(set *datasets.Set, data string) (*Evaluation, error) {
	c := &m.config
	d, err := devices.Open(cmp.Or(m.options.Device, c.Device), m.options.Threads)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	records, err := m.reader().Records(d, set.Test)
	if err != nil {
		return nil, err
	}
	defer records.Data.Close()
	got, err := m.score(d, records.Data)
	if err != nil {
		return nil, err
	}
	e := &Evaluation{
		Run: m.dir, Dataset: data, Model: c.Model, Average: m.options.Average, Examples: got.Count,
		Classes: set.ClassNames, Confusion: got.Confusion, NotPrivate: plan.Label(c), Unfinished: m.Unfinished() != "",
	}
	e.Loss, e.Accuracy = plan.Means(got)
	e.Figures, err = outputs.Measure(outputs.New(m.network.Program, m.params), records, m.bounds, m.options.Threads)
	e.BalancedAccuracy = outputs.Balanced(got.Confusion)
	return e, err
}

// score runs the model on a device.
func (m *Model) score(d device.Device, data device.Data) (device.Score, error) {
	s, err := perexample.Plain(m.network.Program)
	if err != nil {
		return device.Score{}, err
	}
	net, err := d.Compile(s, device.Options{Capacity: perexample.Together(s, perexample.Options{Batch: 256})})
	if err != nil {
		return device.Score{}, err
	}
	defer net.Close()
	if err := net.Write(net.Params(), m.params); err != nil {
		return device.Score{}, err
	}
	score, err := engine.Scorer(net, net.Params(), data)
	if err != nil {
		return device.Score{}, err
	}
	return score()
}
