package train

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/cifar"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/nn"
)

// A Source opens one data set; dir is empty for what is built in.
type Source struct {
	Open    func(dir string) (*datasets.Set, error)
	BuiltIn bool
}

// Sources are the data sets that are read from files.
func Sources() map[string]Source {
	return map[string]Source{
		"mnist":   {Open: mnist.Open},
		"cifar10": {Open: cifar.Open},
	}
}

// DataDirVariable names the environment variable that stands in for --data-dir
// where a data set is read from files.
const DataDirVariable = "PRIVGRAD_DATA"

// openData reads a configuration's data set and keeps the classes it asks for.
func openData(c *Config, sources map[string]Source) (*datasets.Set, error) {
	source, ok := sources[c.Data]
	if !ok {
		return nil, usage("unknown data set %q: choose one of %s", c.Data, strings.Join(slices.Sorted(maps.Keys(sources)), ", "))
	}
	dir := c.DataDir
	if dir == "" && !source.BuiltIn {
		dir = os.Getenv(DataDirVariable)
	}
	if dir == "" && !source.BuiltIn {
		return nil, usage("data set %s is read from files: give their directory by --data-dir or %s (privgrad data fetch gets them)", c.Data, DataDirVariable)
	}
	set, err := source.Open(dir)
	if err != nil {
		return nil, asUsage(err)
	}
	if len(c.Classes) > 0 {
		if set, err = set.Keep(c.Classes); err != nil {
			return nil, asUsage(err)
		}
	}
	return set, nil
}

// table says how a device reads images: bytes become x/127.5 − 1, a public
// map. A label outside the classes becomes a target that no loss accepts, so
// that the record counts as zero.
func table(im datasets.Split, loss plan.Loss, classes int) device.Rows {
	r := device.Rows{
		Count: len(im.Labels), Width: plan.Size(im.Shape[:]),
		Scale: 1 / 127.5, Offset: -1,
		Targets: make([]float32, len(im.Labels)),
	}
	for i, l := range im.Labels {
		switch {
		case int(l) >= classes:
			r.Targets[i] = float32(math.NaN())
		case loss == plan.SoftmaxCrossEntropy:
			r.Targets[i] = float32(l)
		default:
			r.Targets[i] = 2*float32(l) - 1 // the two classes are −1 and +1
		}
	}
	return r
}

// Load puts images onto a device as a table for a loss over classes.
func Load(d device.Device, im datasets.Split, loss plan.Loss, classes int) (device.Data, error) {
	data, err := d.Load(table(im, loss, classes), im.Features)
	if err != nil {
		return nil, fmt.Errorf("loading the data onto device %s: %w", d.Info().Name, err)
	}
	return data, nil
}

// Model describes a named model; Input is the shape of Fashion-MNIST where
// the model takes any.
func Model(name string) (nn.Info, error) {
	for _, m := range nn.Names() {
		if m.Name == name {
			if m.Input == [3]int{} {
				m.Input = [3]int{1, 28, 28}
			}
			return m, nil
		}
	}
	_, err := nn.Build(name, nn.Options{})
	return nn.Info{}, asUsage(err)
}
