package nn

// cnnMNIST is a LeNet-5 with dense layers of 256 and 128.
func cnnMNIST(k kit) []Layer {
	return []Layer{
		k.conv("conv1", 6, 5, 1, 0), k.act, MaxPool(2, 2),
		k.conv("conv2", 16, 5, 1, 0), k.act, MaxPool(2, 2),
		Flatten,
		k.dense("fc1", 256), k.act,
		k.dense("fc2", 128), k.act,
		k.dense("fc3", k.classes),
	}
}

// mnistTF is the network of TensorFlow Privacy's MNIST tutorial; its pools
// overlap.
func mnistTF(k kit) []Layer {
	return []Layer{
		k.conv("conv1", 16, 8, 2, 3), k.act, MaxPool(2, 1),
		k.conv("conv2", 32, 4, 2, 0), k.act, MaxPool(2, 1),
		Flatten,
		k.dense("fc1", 32), k.act,
		k.dense("fc2", k.classes),
	}
}
