package datasets_test

import (
	"fmt"

	"github.com/privgrad/privgrad/datasets"
)

// A data set of one's own is images as bytes, labels, and a public size. The split may
// hold more or fewer records: how many is private.
func ExampleSet() {
	set := &datasets.Set{
		Name: "signs", Classes: 2, ClassNames: []string{"stop", "go"}, PublicN: 1000,
		Train: datasets.Split{Shape: [3]int{1, 2, 2}, Features: []uint8{0, 255, 255, 0, 255, 0, 0, 255}, Labels: []uint8{0, 1}},
	}
	fmt.Println(set.Name, "has", set.Classes, "classes of images of shape", set.Train.Shape)
	// Output:
	// signs has 2 classes of images of shape [1 2 2]
}
