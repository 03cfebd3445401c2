// Package mnist reads MNIST and Fashion-MNIST, which share the IDX format: four
// files, 28×28 grey images, ten classes.
package mnist

import "github.com/privgrad/privgrad/datasets"

var shape = [3]int{1, 28, 28}

var train = []datasets.Part{
	{File: "train-images-idx3-ubyte", Decode: datasets.IDXImages},
	{File: "train-labels-idx1-ubyte", Decode: datasets.IDXLabels},
}

var test = []datasets.Part{
	{File: "t10k-images-idx3-ubyte", Decode: datasets.IDXImages},
	{File: "t10k-labels-idx1-ubyte", Decode: datasets.IDXLabels},
}

// Layout is MNIST: handwritten digits, 60,000 and 10,000.
var Layout = datasets.Layout{
	Name:       "mnist",
	ClassNames: []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
	PerClass:   []int{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949},
	Shape:      shape,
	Note:       "Y. LeCun, C. Cortes, C. J. C. Burges: The MNIST database of handwritten digits",
	Train:      train,
	Test:       test,
}

// Fashion is Fashion-MNIST: pictures of clothing, 60,000 and 10,000.
var Fashion = datasets.Layout{
	Name: "fmnist",
	ClassNames: []string{
		"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
		"Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
	},
	PerClass: []int{6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000},
	Shape:    shape,
	Note:     "H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747; MIT licence, Zalando SE",
	Train:    train,
	Test:     test,
}
