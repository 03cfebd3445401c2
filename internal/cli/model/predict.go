package model

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/trained"
)

// Predicted is a record in the output of predict.
type Predicted struct {
	Name          string    `json:"name"`
	Class         *string   `json:"class"`
	Probabilities []float64 `json:"probabilities"`   // of the classes in their order; null where the model gives none
	Value         *float64  `json:"value,omitempty"` // of a regression, in place of the two above
}

// MarshalJSON writes of a regression name and value.
func (p Predicted) MarshalJSON() ([]byte, error) {
	if p.Value == nil {
		type classified Predicted
		return json.Marshal(classified(p))
	}
	return json.Marshal(struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
	}{p.Name, *p.Value})
}

// modelFlags are those of commands that use a run's model.
type modelFlags struct {
	options trained.Options
}

func (m *modelFlags) register(f *pflag.FlagSet) {
	f.IntVar(&m.options.Threads, "threads", 0, "CPU threads; 0: all")
	f.BoolVar(&m.options.Average, "average", false, "use the moving average of the parameters")
}

// open opens the model of the run that is named first.
func (m *modelFlags) open(c *cli.Call) (*trained.Model, error) {
	if err := cli.CheckThreads(m.options.Threads); err != nil {
		return nil, err
	}
	m.options.Sources, m.options.Warn = data.Sources(), func(text string) { warn(c, text) }
	opened, err := trained.Open(c.Arguments[0], m.options)
	if err == nil {
		warnUnfinished(c, opened)
		warnLabel(c, opened)
	}
	return opened, err
}

// Predict is the command that classifies records.
func Predict() *cobra.Command {
	var flags modelFlags
	var file string
	return cli.Command{
		Use:   "predict RUN PATH...",
		Short: "Classify new records with a saved model",
		Long: `predict runs the saved model of a run on new records. Each PATH is a PNG or JPEG image, a
folder of images, also in folders inside it, such as one per class, or an array from
numpy.save (.npy, uint8 images or float32 values). The PATH - is standard input, for such
an array, or a table. It resizes images and converts their colors as --data dir: does. A
model of a table reads a table with the columns of its schema, and ignores the column of
labels. It warns of values there that it cannot read, and says what they count as. For
each record predict prints the class and its probability, or for a regression the value in the units of
the label. With --csv it writes a table instead, with a column for each class's probability
if the model gives probabilities. Using a model costs no privacy.`,
		Example: `  privgrad predict runs/first photo.png other.jpg
  privgrad predict runs/first photos --json
  privgrad predict runs/first images.npy
  privgrad predict runs/table new.csv --csv predictions.csv`,
		Args: cli.SomeArgs("a run directory", "images, folders of images, .npy files or tables"),
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&file, "csv", "", "file to write, which must not exist: name, class and the probability of each class, or a regression's value")
			flags.register(f)
		},
		Run: func(c *cli.Call) error {
			if err := cli.NewFile("csv", file); err != nil {
				return err
			}
			m, err := flags.open(c)
			if err != nil {
				return err
			}
			names, records, err := m.Read(c.Arguments[1:]...)
			if err != nil {
				return err
			}
			predictions, err := m.Predict(records)
			if err != nil {
				return err
			}
			all := make([]Predicted, len(names))
			for i, p := range predictions {
				all[i] = Predicted{Name: names[i], Class: &p.Class, Probabilities: p.Probabilities}
				if len(m.Classes()) == 0 {
					all[i].Class, all[i].Value = nil, &p.Logits[0]
				}
			}
			if file == "" {
				return cli.Show(c, all, describePredictions)
			}
			if err := durable.WriteFile(file, func(w io.Writer) error { return writePredictions(w, m.Classes(), all) }); err != nil {
				return err
			}
			return cli.Show(c, all, func(w io.Writer, all []Predicted) { fmt.Fprintf(w, "wrote %s: %d predictions\n", file, len(all)) })
		},
	}.New()
}

// writePredictions writes a table with a header: name and class, and the probabilities of all classes where the model
// gives some; of a regression, name and value.
func writePredictions(w io.Writer, classes []string, all []Predicted) error {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	header := []string{"name", "class"}
	switch {
	case len(classes) == 0:
		header[1] = "value"
	case len(all) == 0 || all[0].Probabilities != nil:
		for _, class := range classes {
			header = append(header, "p("+class+")")
		}
	}
	table := csv.NewWriter(w)
	table.Write(header)
	for _, p := range all {
		row := []string{p.Name}
		if p.Class == nil {
			row = append(row, number(*p.Value))
		} else {
			row = append(row, *p.Class)
		}
		for _, x := range p.Probabilities {
			row = append(row, number(x))
		}
		table.Write(row)
	}
	table.Flush()
	return table.Error() // the first of all
}

func describePredictions(w io.Writer, all []Predicted) {
	cli.Table(w, 0, func(w io.Writer) {
		for _, p := range all {
			switch {
			case p.Class == nil:
				fmt.Fprintf(w, "%s\t%.6g\n", p.Name, *p.Value)
			case p.Probabilities == nil:
				fmt.Fprintf(w, "%s\t%s\n", p.Name, *p.Class)
			default:
				fmt.Fprintf(w, "%s\t%s\t%.1f%%\n", p.Name, *p.Class, 100*slices.Max(p.Probabilities))
			}
		}
	})
}
