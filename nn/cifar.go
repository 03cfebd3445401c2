package nn

// cifarSmall has three pairs of 3×3 convolutions and 0.55 million parameters.
func cifarSmall(k kit) []Layer {
	return []Layer{
		k.conv("conv1", 32, 3, 1, 1), k.act,
		k.conv("conv2", 32, 3, 1, 1), k.act, MaxPool(2, 2),
		k.conv("conv3", 64, 3, 1, 1), k.act,
		k.conv("conv4", 64, 3, 1, 1), k.act, MaxPool(2, 2),
		k.conv("conv5", 128, 3, 1, 1), k.act,
		k.conv("conv6", 128, 3, 1, 1), k.act, MaxPool(2, 2),
		Flatten,
		k.dense("fc1", 128), k.act,
		k.dense("fc2", k.classes),
	}
}

// cifarPaper is the network of DP-BLSGD's CIFAR-10 experiments (section 5.7).
func cifarPaper(k kit) []Layer {
	return []Layer{
		k.conv("conv1", 32, 3, 1, 1), k.act,
		k.conv("conv2", 64, 3, 1, 1), k.act, MaxPool(2, 2),
		k.conv("conv3", 128, 3, 1, 1), k.act,
		k.conv("conv4", 128, 3, 1, 1), k.act, MaxPool(2, 2),
		k.conv("conv5", 256, 3, 1, 1), k.act,
		k.conv("conv6", 256, 3, 1, 1), k.act, MaxPool(2, 2),
		Flatten,
		k.dense("fc1", 1024), k.act,
		k.dense("fc2", 512), k.act,
		k.dense("fc3", k.classes),
	}
}
