package recipes

import "math"

// Head is the name of the recipe for a linear head on rows of a public backbone.
const Head = "head"

const (
	headSteps    = 100
	headMomentum = 0.9
	headNorm     = 1   // of every row that is at least as long: a public constant, whatever the backbone's scale
	headClip     = 1   // a record's gradient has a norm of at most 2 with rows of that norm and an intercept
	headReach    = 4   // times r
	headMostLR   = 0.5 // where steps begin to swing
)

// headData is where the constants were chosen.
const headData = "rows of EfficientNet-Lite0 for CIFAR-10 and MNIST"

// ForHead gives the settings for a linear head of classes on rows of a public backbone, at any ε above 0. They follow from what is
// public, as those of ForTable: a reach that is a multiple of r = N·ε/√parameters. Rows are scaled to at most the same norm, so the
// scale of the backbone does not matter if all rows are longer than 1.
func ForHead(t Table, epsilon float64) Recipe {
	n, d := float64(max(t.Records, 1)), float64(max(t.Features, 1))
	r := n * epsilon / math.Sqrt(d*float64(max(t.Classes, 2)))
	q := digits(min(1, max(1024, min(mostRecords, mostNumbers/d))/n))
	return Recipe{Data: headData, Records: t.Records, Epsilon: epsilon, By: headFrom, Settings: Settings{
		Optimizer: "dp-sgd", Model: "logistic", Momentum: headMomentum, Clip: headClip, LRSchedule: "constant", FeatureNorm: headNorm,
		LR:           digits(min(headReach*r/headClip*(1-headMomentum)/headSteps, headMostLR)),
		SamplingRate: q, Epochs: digits(q * headSteps),
	}}
}

const headFrom = "held-out training records of " + headData + " (public benchmark data)"
