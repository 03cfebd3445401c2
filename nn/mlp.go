package nn

// mlpMNIST is 784-1000-10.
func mlpMNIST(k kit) []Layer {
	return []Layer{
		Flatten,
		k.dense("fc1", 1000), k.act,
		k.dense("fc2", k.classes),
	}
}

// mlpSmall is 784-20-10: with two classes and sigmoids the network of Hong et al. 2021,
// appendix C.3.
func mlpSmall(k kit) []Layer {
	return []Layer{
		Flatten,
		k.dense("fc1", 20), k.act,
		k.dense("fc2", k.classes),
	}
}

// mlpFMNIST is 784-256-256-10.
func mlpFMNIST(k kit) []Layer {
	return []Layer{
		Flatten,
		k.dense("fc1", 256), k.act,
		k.dense("fc2", 256), k.act,
		k.dense("fc3", k.classes),
	}
}
