package report_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

// A run with a report attached leaves a page and a model card, and its files agree.
func ExampleAttach() {
	dir, err := os.MkdirTemp("", "privgrad-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	split := datasets.Split{Shape: [3]int{1, 2, 2}}
	for i := range 1000 {
		label := uint8(i % 2)
		split.Features = append(split.Features, 200*label, 200*label, 50, 50)
		split.Labels = append(split.Labels, label)
	}
	o := train.Options{Out: filepath.Join(dir, "run"), Sources: map[string]train.Source{"signs": {
		Open: func(string) (*datasets.Set, error) {
			return &datasets.Set{Name: "signs", Classes: 2, Train: split, Test: split}, nil
		},
	}}}

	epsilon, delta, batch, steps, n := 1.0, 1e-5, 100.0, 50, 1000
	c := train.Default()
	c.Data, c.DataDir, c.Model, c.PublicN = "signs", dir, "logistic", &n
	c.Epsilon, c.Delta, c.Batch, c.Steps = &epsilon, &delta, &batch, &steps
	report.Attach(c, &o)
	if _, err := train.Run(context.Background(), c, o); err != nil {
		log.Fatal(err)
	}

	for _, name := range []string{report.PageFile, report.CardFile} {
		_, err := os.Stat(filepath.Join(o.Out, name))
		fmt.Println(name, err == nil)
	}
	v, err := report.Verify(o.Out)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("files agree:", v.OK)
	// Output:
	// report.html true
	// model-card.md true
	// files agree: true
}
