package train_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/train"
)

// A data set of one's own is a Source. Its size is declared by a public number, and its
// test records are evaluated because they are declared public.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "privgrad-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	split := func(records int) datasets.Split {
		s := datasets.Split{Shape: [3]int{1, 2, 2}}
		for i := range records {
			label := uint8(i % 2)
			s.Features = append(s.Features, 200*label, 200*label, 50, 50)
			s.Labels = append(s.Labels, label)
		}
		return s
	}
	// It would read files of dir, which are private. BuiltIn is for published sets alone.
	signs := train.Source{Open: func(string) (*datasets.Set, error) {
		return &datasets.Set{Name: "signs", Classes: 2, ClassNames: []string{"stop", "go"}, Train: split(1000), Test: split(100)}, nil
	}}

	epsilon, delta, batch, steps, n := 1.0, 1e-5, 100.0, 50, 1000
	c := train.Default()
	c.Data, c.DataDir, c.Model, c.PublicN, c.TestIsPublic = "signs", dir, "logistic", &n, true
	c.Epsilon, c.Delta, c.Batch, c.Steps = &epsilon, &delta, &batch, &steps

	result, err := train.Run(context.Background(), c, train.Options{
		Out: filepath.Join(dir, "run"), Sources: map[string]train.Source{"signs": signs},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("ε = %.2f for %s, guarantee %v\n", *result.Epsilon, result.PrivacyUnit, result.Guarantee)
	fmt.Println("all test records right:", *result.TestAccuracy == 1)
	// Output:
	// ε = 1.00 for one record, guarantee true
	// all test records right: true
}
