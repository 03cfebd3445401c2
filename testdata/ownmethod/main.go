package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist/fashion"
	"github.com/privgrad/privgrad/train"
)

func main() {
	c := train.Default()
	epsilon, rate, steps, batch := 1.0, 0.003, 40, 600.0
	c.Model, c.Epsilon, c.LR, c.Steps, c.Batch, c.Device = "logistic", &epsilon, &rate, &steps, &batch, "cpu"
	c.Classes = []int{0, 1}
	r, err := train.Run(context.Background(), c, train.Options{
		Method: sign{}, Out: os.Args[1],
		Sources: map[string]train.Source{"fmnist": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return fashion.Open() }}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		log.Fatal(err)
	}
}
