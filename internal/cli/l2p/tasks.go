package l2p

import (
	"cmp"
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
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/usage"
)

// A metaTask is what tasks are made of.
type metaTask struct{ name, about string }

const (
	quadratic = "quadratic"
	gaussians = "gaussians"
	tables    = "csv"
)

var metaTasks = []metaTask{
	{quadratic, "sums of 60 random quadratics of two parameters, without a --model"},
	{gaussians, "records of two random Gaussians"},
	{"mnist", "pairs of digits (--data-dir)"},
	{"fmnist", "pairs of articles of clothing"},
	{tables, "records of public tables with two classes, as csv:PATH,csv:PATH"},
}

// models are what tasks train.
var models = []string{meta.Logistic, meta.SVM, meta.MLP}

// judged is the number of records that judge a task.
const judged = 500

// choose finds the kind of tasks and the model.
func (o *settings) choose() error {
	name := strings.Join(o.data, ",")
	if strings.HasPrefix(name, l2p.TablePrefix) {
		name = tables
	}
	var names []string
	for _, t := range metaTasks {
		if names = append(names, t.name); t.name == name {
			o.kind = t
		}
	}
	switch {
	case o.kind.name == "":
		return usage.Unknown("data", name, names)
	case o.model != "" && !slices.Contains(models, o.model):
		return usage.Unknown("model", o.model, models)
	case o.model != "" && (o.kind.name == quadratic || o.images() && !o.network()):
		return fmt.Errorf("model %s: tasks of %s have a model of their own; leave it out", o.model, name)
	case o.images():
		o.model = meta.MLP
	case o.kind.name != quadratic:
		o.model = cmp.Or(o.model, meta.Logistic)
	}
	return nil
}

// images says whether tasks are made of them.
func (o *settings) images() bool { return strings.HasSuffix(o.kind.name, "mnist") }

// defaults are of flags, where they are others than in general.
func (o *settings) defaults() map[string]string {
	switch {
	case o.kind.name == quadratic:
		return map[string]string{"public-n": "60", "sampling-rate": "1"}
	case o.network():
		return map[string]string{"epsilon": "0.8,0.2", "epochs": "1,5", "steps": "100"}
	}
	return nil
}

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
func (o *settings) family() (meta.Family, []l2p.Public, string, error) {
	if o.records < 4 {
		return nil, nil, "", fmt.Errorf("--public-n %d: at least 4 records are needed", o.records)
	}
	const units = 4
	model, public, about := meta.Classifiers{Model: o.model, Hidden: units}, []l2p.Public{}, ""
	var err error
	switch {
	case o.kind.name == quadratic:
		about = fmt.Sprintf("sums of %d random quadratics of two parameters, started at (1, 1)", o.records)
		return meta.Quadratics{Records: o.records}, public, about, nil
	case o.kind.name == gaussians:
		model.Source = meta.Gaussians{Width: 20, Train: o.records, Judged: judged}
		about = fmt.Sprintf("two random Gaussians of 20 columns, %d records", o.records)
	case o.kind.name == tables:
		model.Source, public, err = o.fromTables()
		about = fmt.Sprintf("%s on %d records of %s", o.model, o.records, strings.ReplaceAll(strings.Join(o.names(), ", "), l2p.TablePrefix, ""))
	default:
		model.Source, err = o.fromImages()
		public = []l2p.Public{{Data: o.kind.name, Classes: o.classes}}
		about = fmt.Sprintf("networks of %s on pairs of classes of %s, %d images of %d×%[4]d", cli.Plural(units, "sigmoid"), o.kind.name, o.records, 28/pool)
	}
	return model, public, about, err
}

// names are the data as a card has them: of a table its file's name.
func (o *settings) names() (all []string) {
	for _, name := range o.data {
		if o.kind.name == tables {
			name = l2p.PublicTable(strings.TrimPrefix(name, l2p.TablePrefix)).Data
		}
		all = append(all, name)
	}
	return all
}

// fromTables gives the tables that tasks are made of.
func (o *settings) fromTables() (source *meta.Tables, public []l2p.Public, err error) {
	var all []*meta.Records
	for _, name := range o.data {
		path := strings.TrimPrefix(name, l2p.TablePrefix)
		set, err := tabular.Open(path, tabular.Options{Schema: o.schema})
		if err != nil {
			return nil, nil, err
		}
		if set.Classes != 2 {
			return nil, nil, fmt.Errorf("--data %s: its schema has %d classes, and a task needs two; name another table", name, set.Classes)
		}
		all, public = append(all, labeled(&set.Train)), append(public, l2p.PublicTable(path))
	}
	source, err = meta.NewTables(all, o.records, judged)
	return source, public, err
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

// pool is the side of the squares of pixels that are averaged into one.
const pool = 2

// fromImages gives the pairs of classes that tasks are made of.
func (o *settings) fromImages() (meta.Source, error) {
	name := o.kind.name
	source := data.Sources()[name]
	if o.dir != "" && source.BuiltIn {
		return nil, fmt.Errorf("--data-dir %s: %s is built in; leave it out", o.dir, name)
	}
	dir := o.dir
	if !source.BuiltIn {
		dir = cmp.Or(dir, os.Getenv(config.DataDirVariable))
	}
	set, err := source.Open(dir)
	if err != nil {
		return nil, err
	}
	classes := slices.Clone(o.classes)
	if len(classes) == 0 {
		for k := range set.Classes {
			classes = append(classes, k)
		}
	}
	for _, k := range classes {
		if k < 0 || k >= set.Classes {
			return nil, fmt.Errorf("--classes names %d: %s has 0 to %d", k, name, set.Classes-1)
		}
	}
	pixels, labels := make([]float64, len(set.Train.Features)), make([]int, len(set.Train.Labels))
	for i, b := range set.Train.Features {
		pixels[i] = float64(b)/127.5 - 1 // as training does
	}
	for i, l := range set.Train.Labels {
		labels[i] = int(l)
	}
	return meta.NewImages(pixels, labels, set.Train.Shape[1], pool, classes, o.records, judged)
}
