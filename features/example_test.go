package features_test

import (
	"fmt"
	"log"

	"github.com/privgrad/privgrad/features"
)

func ExampleNew() {
	front, err := features.New(features.Spec{Kind: "scatter", Whiten: features.Leaves, Mirror: true, Shape: [3]int{1, 28, 28}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	images := make([]uint8, 2*28*28)
	rows := front.Rows(features.Images{Bytes: images}, 2, nil) // halves, front.Width() to an image
	fmt.Println(front.Out(), front.Width(), len(rows))
	// Output: [81 7 4] 2268 4536
}

func ExampleOwn() {
	front, err := features.Own("edges", [3]int{1, 28, 28}, [3]int{1, 28, 27}, func(dst, image []float32) {
		for i := range dst {
			y, x := i/27, i%27
			dst[i] = image[y*28+x+1] - image[y*28+x]
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(front.Out(), front.Width())

	count := float32(0)
	_, err = features.Own("counter", [3]int{1, 2, 2}, [3]int{1, 1, 1}, func(dst, image []float32) {
		count++
		dst[0] = image[0] + count
	})
	fmt.Println(err)
	// Output:
	// [1 28 27] 756
	// features counter of synthetic image 0 differ from call to call; they must depend on that image alone, or one record would see another: keep no state, and write all of dst
}
