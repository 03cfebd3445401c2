package l2p

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/usage"
)

// A metaTask is a kind of tasks, with its settings where no flag changes them.
type metaTask struct {
	name, about string
	images      bool
	defaults    map[string]string
}

var metaTasks = []metaTask{
	{"quadratic", "sums of 60 random quadratics of two parameters", false, map[string]string{"records": "60", "sampling-rate": "1"}},
	{"logistic", "logistic regression between two random Gaussians", false, nil},
	{"svm", "linear support vector machines on the same", false, nil},
	{"mlp", "networks with one hidden layer of sigmoids on the same", false, networks},
	{"mnist", "such networks on pairs of digits (--data-dir)", true, networks},
	{"fmnist", "such networks on pairs of articles of clothing", true, networks},
	{tableTasks, "linear models or networks (--task-model) on records of public tables (--tables)", false, nil},
}

const tableTasks = "csv"

func taskNames() (names []string) {
	for _, t := range metaTasks {
		names = append(names, t.name)
	}
	return names
}

// networks are longer runs than the rest, of fewer and costlier updates.
var networks = map[string]string{"odd": "true", "curvature": "true", "steps": "60", "batches": "6", "lr": "0.002", "gamma": "4", "validation": "16"}

// taskList is what the help shows.
func taskList() string {
	var b strings.Builder
	cli.Table(&b, 0, func(w io.Writer) {
		for _, t := range metaTasks {
			fmt.Fprintf(w, "  %s\t%s\n", t.name, t.about)
		}
	})
	return b.String()
}

// family gives the tasks, the published data among them, and a line about them.
func (o *settings) family(images bool) (meta.Family, []l2p.Public, string, error) {
	public, about := []l2p.Public{}, ""
	if o.records < 4 || o.units < 1 {
		return nil, nil, "", fmt.Errorf("--records %d and --units %d: at least 4 and 1 are needed", o.records, o.units)
	}
	if o.tasks != tableTasks && len(o.tables) > 0 {
		return nil, nil, "", fmt.Errorf("--tables is for --tasks %s; leave it out, or choose these", tableTasks)
	}
	const judged = 500
	model := meta.Classifiers{Source: meta.Gaussians{Width: 20, Train: o.records, Judged: judged}, Model: o.tasks, Hidden: o.units}
	switch {
	case o.tasks == "quadratic":
		if o.start != "ones" && o.start != "normal" {
			return nil, nil, "", usage.Unknown("--start", o.start, []string{"ones", "normal"})
		}
		about = fmt.Sprintf("sums of %d random quadratics of two parameters, started at %s", o.records, map[string]string{"ones": "(1, 1)", "normal": "random"}[o.start])
		return meta.Quadratics{Records: o.records, Random: o.start == "normal"}, public, about, nil
	case o.tasks == tableTasks:
		source, public, about, err := o.fromTables(judged)
		if model.Source, model.Model = source, o.model; !slices.Contains(models, o.model) {
			err = usage.Unknown("--task-model", o.model, models)
		}
		return model, public, about, err
	case !images:
		about = fmt.Sprintf("two random Gaussians of 20 columns, %d records", o.records)
		return model, public, about, nil
	}
	source, about, err := o.images(judged)
	if err != nil {
		return nil, nil, "", err
	}
	model.Source, model.Model = source, meta.MLP
	return model, append(public, l2p.Public{Data: o.tasks, Classes: o.classes}), about, nil
}

// models are those of tasks from tables.
var models = []string{meta.Logistic, meta.SVM, meta.MLP}

// fromTables gives the tables that tasks are made of, and a line about them.
func (o *settings) fromTables(judged int) (source *meta.Tables, public []l2p.Public, about string, err error) {
	var all []*meta.Records
	var names []string
	for _, path := range o.tables {
		path = strings.TrimPrefix(path, l2p.TablePrefix)
		set, err := tabular.Open(path, tabular.Options{Schema: o.schema})
		if err != nil {
			return nil, nil, "", err
		}
		if set.Classes != 2 {
			return nil, nil, "", fmt.Errorf("--tables %s: its schema has %d classes, and a task needs two; name another table", path, set.Classes)
		}
		of := l2p.PublicTable(path)
		all, public, names = append(all, labeled(&set.Train)), append(public, of), append(names, strings.TrimPrefix(of.Data, l2p.TablePrefix))
	}
	if len(all) == 0 {
		return nil, nil, "", errors.New("--tasks csv needs --tables PATH: name public tables with two classes, each with a schema")
	}
	source, err = meta.NewTables(all, o.records, judged)
	return source, public, fmt.Sprintf("%s on %d records of %s", o.model, o.records, strings.Join(names, ", ")), err
}

// labeled gives the records of a table whose label is a class.
func labeled(m *datasets.Split) *meta.Records {
	width := m.Shape[0] * m.Shape[1] * m.Shape[2]
	out := &meta.Records{Width: width}
	for i, label := range m.Labels {
		if label > 1 {
			continue
		}
		out.Labels = append(out.Labels, int(label))
		for j := i * width; j < (i+1)*width; j++ {
			if m.Values != nil {
				out.Features = append(out.Features, float64(m.Values[j]))
			} else {
				out.Features = append(out.Features, float64(m.Features[j])/255)
			}
		}
	}
	return out
}

// images gives the pairs of classes that tasks are made of, and a line about them.
func (o *settings) images(judged int) (meta.Source, string, error) {
	source := data.Sources()[o.tasks]
	if o.data != "" && source.BuiltIn {
		return nil, "", fmt.Errorf("--data-dir %s: %s is built in; leave it out", o.data, o.tasks)
	}
	dir := o.data
	if !source.BuiltIn {
		dir = cmp.Or(dir, os.Getenv(plan.DataDirVariable))
	}
	set, err := source.Open(dir)
	if err != nil {
		return nil, "", err
	}
	classes := slices.Clone(o.classes)
	if len(classes) == 0 {
		for k := range set.Classes {
			classes = append(classes, k)
		}
	}
	for _, k := range classes {
		if k < 0 || k >= set.Classes {
			return nil, "", fmt.Errorf("--classes names %d: %s has 0 to %d", k, o.tasks, set.Classes-1)
		}
	}
	pixels, labels := make([]float64, len(set.Train.Features)), make([]int, len(set.Train.Labels))
	for i, b := range set.Train.Features {
		pixels[i] = float64(b)/127.5 - 1 // as training does
	}
	for i, l := range set.Train.Labels {
		labels[i] = int(l)
	}
	pairs, err := meta.NewImages(pixels, labels, set.Train.Shape[1], o.pool, classes, o.records, judged)
	about := fmt.Sprintf("networks of %s on pairs of classes of %s, %d images of %d×%[4]d", cli.Plural(o.units, "sigmoid"), o.tasks, o.records, set.Train.Shape[1]/max(o.pool, 1))
	return pairs, about, err
}
