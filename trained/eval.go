// Package trained opens what a run of package train left, and uses its model.
package trained

import (
	"os"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/tables"
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

// Eval loads the model of a run directory and evaluates it on the test data of
// the run's data set, which must be public. The overrides dataDir, deviceName
// and threads replace the run's own where they are not zero. With average it is
// the average of the parameters that is evaluated, of a run that kept one.
func Eval(dir string, sources map[string]plan.Source, dataDir, deviceName string, threads int, average bool) (*Evaluation, error) {
	var c plan.Config
	if _, err := os.Stat(rundir.Dir(dir).Path(rundir.Config)); err != nil {
		return nil, usage.Errorf("%s is no run directory: %w: give a directory that train wrote", dir, err)
	}
	if err := plan.ReadConfig(rundir.Dir(dir).Path(rundir.Config), &c); err != nil {
		return nil, err
	}
	if dataDir != "" {
		c.DataDir = dataDir
	}
	if deviceName == "" {
		deviceName = c.Device
	}
	set, _, err := plan.OpenData(&c, sources)
	if err != nil {
		return nil, err
	}
	if !set.TestIsPublic {
		return nil, usage.Errorf("the test data of %s were not declared public when %s was trained: evaluating on them would be charged; train with --published-set or --test-is-public where they are", c.Data, dir)
	}
	input := set.Test.Shape
	var front *features.Front
	var digest string
	if c.Features != "" {
		if front, digest, err = rundir.Dir(dir).ReadFront(c.FrontSpec(input)); err != nil {
			return nil, err
		}
		input = front.Out()
	}
	network, err := plan.BuildNetwork(c.Model, input, set.Classes, c.Activation, c.Seed)
	if err != nil {
		return nil, err
	}
	model := rundir.Model
	if average {
		if model = rundir.Average; c.Average == 0 {
			return nil, usage.Errorf("%s kept no average of its parameters: leave out --average, or train with one", dir)
		}
	}
	params, err := rundir.Dir(dir).ReadModelBehind(digest, model, network.Program)
	if err != nil {
		return nil, err
	}
	d, err := devices.Open(deviceName, threads)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	s, err := perexample.Plain(network.Program)
	if err != nil {
		return nil, err
	}
	net, err := d.Compile(s, device.Options{Capacity: perexample.Together(s, perexample.Options{Batch: 256})})
	if err != nil {
		return nil, err
	}
	defer net.Close()
	if err := net.Write(net.Params(), params); err != nil {
		return nil, err
	}
	read := tables.Reader{Front: front, Loss: network.Program.Loss, Classes: set.Classes, Threads: threads}
	data, err := read.Load(d, set.Test)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	score, err := engine.Scorer(net, net.Params(), data)
	if err != nil {
		return nil, err
	}
	got, err := score()
	if err != nil {
		return nil, err
	}
	e := &Evaluation{Run: dir, Dataset: c.Data, Model: c.Model, Average: average, Examples: got.Count, Classes: set.ClassNames, Confusion: got.Confusion, NotPrivate: c.Label()}
	e.Loss, e.Accuracy = plan.Means(got)
	return e, nil
}
