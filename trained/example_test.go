package trained_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/train"
	"github.com/privgrad/privgrad/trained"
)

// A model predicts as often as one likes: it is released already.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "privgrad-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run := filepath.Join(dir, "run")
	if err := trainSigns(run); err != nil {
		log.Fatal(err)
	}

	model, err := trained.Open(run, trained.Options{})
	if err != nil {
		log.Fatal(err)
	}
	predictions, err := model.Predict(features.Images{Bytes: []uint8{0, 0, 50, 50, 200, 200, 50, 50}})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range predictions {
		fmt.Println(p.Class)
	}
	// Output:
	// stop
	// go
}

// trainSigns trains on images of 2×2 pixels.
func trainSigns(out string) error {
	split := datasets.Split{Shape: [3]int{1, 2, 2}}
	for i := range 1000 {
		label := uint8(i % 2)
		split.Features = append(split.Features, 200*label, 200*label, 50, 50)
		split.Labels = append(split.Labels, label)
	}
	signs := train.Source{Open: func(string) (*datasets.Set, error) {
		return &datasets.Set{Name: "signs", Classes: 2, ClassNames: []string{"stop", "go"}, Train: split, Test: split}, nil
	}}
	epsilon, delta, batch, steps, n := 1.0, 1e-5, 100.0, 50, 1000
	c := train.Default()
	c.Data, c.DataDir, c.Model, c.PublicN = "signs", filepath.Dir(out), "logistic", &n
	c.Epsilon, c.Delta, c.Batch, c.Steps = &epsilon, &delta, &batch, &steps
	_, err := train.Run(context.Background(), c, train.Options{Out: out, Sources: map[string]train.Source{"signs": signs}})
	return err
}
