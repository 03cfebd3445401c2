package ir

import "fmt"

// flip mirrors an image left to right in half of its views.
var flip = mapping{name: "flip", drawn: true, check: func(_ Map, shape []int) error { return checkImage(shape) }}

// Flips says whether the view of a word is mirrored.
func Flips(word uint32) bool { return word>>31 == 1 }

func checkImage(shape []int) error {
	if len(shape) != 3 {
		return fmt.Errorf("needs images of channels, rows and columns, and records have the shape %v", shape)
	}
	return nil
}
