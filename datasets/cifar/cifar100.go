package cifar

import (
	"slices"

	"github.com/privgrad/privgrad/datasets"
)

// Layout100 is CIFAR-100: pictures of 100 kinds of things, animals and people, 50,000 and 10,000. A
// record has two labels, of its group of five classes and of its class. The class counts, and the
// group is not looked at: the same records under another name would be another set to whoever adds
// up what was spent on them.
var Layout100 = datasets.Layout{
	Name: "cifar100",
	ClassNames: []string{
		"apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
		"bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
		"chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur",
		"dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard",
		"lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain",
		"mouse", "mushroom", "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree",
		"plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket",
		"rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider",
		"squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor",
		"train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman", "worm",
	},
	PerClass: slices.Repeat([]int{500}, 100),
	Shape:    [3]int{3, 32, 32},
	Note:     "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009; its 100 fine labels",
	Subdir:   "cifar-100-binary", // as the published archive unpacks
	Train:    []datasets.Part{{File: "train.bin", Decode: decode100}},
	Test:     []datasets.Part{{File: "test.bin", Decode: decode100}},
}

var decode100 = labeled(2)
