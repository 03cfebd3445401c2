package recipes

import "math"

// Head is the name of the recipe for a linear head on rows of a public backbone.
const Head = "head"

const (
	headSteps    = 100 // over all records, of all but large sets; more where the largest rate would not come far enough
	headMost     = 600 // steps
	headMomentum = 0.9
	headNorm     = 1 // of every row that is at least as long: a public constant, whatever the backbone's scale
	headClip     = 1 // of gradients that are at most 2 long, with rows of that norm and an intercept
	headReach    = 12
	// The loss curves by at most ½·(1 + 1) along any direction, and momentum swings where the rate times that is above 2·(1 + 0.9) = 3.8.
	headMostLR = 2.4
)

// headData is where the constants were chosen.
const headData = "CIFAR-10 and MNIST as rows of EfficientNet-Lite0"

// ForHead gives the settings for a linear head of classes on rows of a public backbone, at any ε above 0. They follow from what is
// public, as those of ForTable: a reach that is a multiple of r = N·ε/√parameters. Rows are scaled to at most norm 1, so the backbone's
// scale does not matter if all rows are longer than that.
func ForHead(t Table, epsilon float64) Recipe {
	n, d := float64(max(t.Records, 1)), float64(max(t.Features, 1))
	r := n * epsilon / math.Sqrt(d*float64(max(t.Classes, 2)))
	q := digits(min(1, max(1024, min(mostRecords, mostNumbers/d))/n))
	way := headReach * r / headClip * (1 - headMomentum) // of all steps at once
	steps := math.Ceil(max(headSteps, min(way/headMostLR, headMost)))
	return Recipe{Data: headData, Records: t.Records, Epsilon: epsilon, By: headFrom, Settings: Settings{
		Optimizer: "dp-sgd", Model: "logistic", Momentum: headMomentum, Clip: headClip, LRSchedule: "constant", FeatureNorm: headNorm,
		LR:           digits(min(way/headSteps, headMostLR)),
		SamplingRate: q, Epochs: digits(q * steps),
	}}
}

const headFrom = "held-out training records of " + headData + " (public benchmark data)"
