package trained

import (
	"cmp"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

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
	// NotPrivate says why the model's ε is none, if it is not.
	NotPrivate string `json:"not_private,omitempty"`
}

// Evaluate runs the model on the test data of the run's data set, which must be public.
func (m *Model) Evaluate() (*Evaluation, error) {
	c := m.config
	set, _, err := plan.OpenData(&c, m.options.Sources)
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
	d, err := devices.Open(cmp.Or(m.options.Device, c.Device), m.options.Threads)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	data, err := m.reader().Load(d, set.Test)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	got, err := m.score(d, data)
	if err != nil {
		return nil, err
	}
	e := &Evaluation{
		Run: m.dir, Dataset: c.Data, Model: c.Model, Average: m.options.Average, Examples: got.Count,
		Classes: set.ClassNames, Confusion: got.Confusion, NotPrivate: c.Label(),
	}
	e.Loss, e.Accuracy = plan.Means(got)
	return e, nil
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
