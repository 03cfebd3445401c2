// Package cifar reads CIFAR-10 and CIFAR-100 in their binary layouts: records of label bytes
// and 32×32 pixels in red, green and blue planes.
package cifar

import (
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/datasets"
)

// Layout is CIFAR-10: pictures of things and animals, 50,000 and 10,000.
var Layout = datasets.Layout{
	Name: "cifar10",
	ClassNames: []string{
		"airplane", "automobile", "bird", "cat", "deer",
		"dog", "frog", "horse", "ship", "truck",
	},
	PerClass: []int{5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000},
	Shape:    [3]int{3, 32, 32},
	Note:     "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
	Subdir:   "cifar-10-batches-bin", // as the published archive unpacks
	Train: []datasets.Part{
		{File: "data_batch_1.bin", Decode: decode},
		{File: "data_batch_2.bin", Decode: decode},
		{File: "data_batch_3.bin", Decode: decode},
		{File: "data_batch_4.bin", Decode: decode},
		{File: "data_batch_5.bin", Decode: decode},
	},
	Test: []datasets.Part{{File: "test_batch.bin", Decode: decode}},
}

// decode is for records of one label.
var decode = labeled(1)

// labeled decodes records that begin with so many label bytes, of which the last is the class:
// it splits labels from pixels, moving the pixels together in place. The layout has no header,
// so a whole number of records is all its structure.
func labeled(bytes int) datasets.Decoder {
	return func(data []byte, shape [3]int) (pixels, labels []byte, err error) {
		image := shape[0] * shape[1] * shape[2]
		record := bytes + image
		if len(data) == 0 {
			return nil, nil, errors.New("the file is empty: fetch it again")
		}
		if len(data)%record != 0 {
			return nil, nil, fmt.Errorf("the size is no whole number of %d-byte records: the file is cut off, has bytes appended or is not the binary version", record)
		}
		n := len(data) / record
		labels = make([]byte, n)
		for i := range n {
			labels[i] = data[i*record+bytes-1]
			copy(data[i*image:], data[i*record+bytes:(i+1)*record])
		}
		return data[:n*image], labels, nil
	}
}
