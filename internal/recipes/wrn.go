package recipes

// WRN is the name of the recipe for a wide residual network from scratch.
const WRN = "wrn"

// wrn are the settings of De et al. 2022 ("Unlocking High-Accuracy Differentially Private Image Classification through Scale",
// arXiv 2204.13650) for WRN-16-4 on CIFAR-10, as their program jax_privacy has them (cifar10_wrn_16_4_eps1): batches of 4,096, 16 views
// flipped and cropped, clip norm 1, a constant rate of 2 and an average with decay 0.9999. It makes 875 steps at ε = 1. Those at
// ε = 8 are of Sander, Stock and Sablayrolles 2023 (arXiv 2210.03403), who train the same network so. The noise follows from ε.
var wrn = []Recipe{ofWRN(1, 875), ofWRN(8, 2500)}

func ofWRN(epsilon, steps float64) Recipe {
	const records, batch = 50_000, 4096
	return Recipe{
		Data: "cifar10", Shape: [3]int{3, 32, 32}, Records: records, Epsilon: epsilon, By: "CIFAR-10 (public benchmark data), by De et al. 2022",
		Settings: Settings{
			Optimizer: "dp-sgd", Model: "wrn-16-4", LR: 2, Clip: 1, LRSchedule: "constant", Average: 0.9999,
			Views: 16, Augment: []string{"flip", "crop"}, SamplingRate: batch / float64(records), Epochs: steps * batch / records,
		},
	}
}
