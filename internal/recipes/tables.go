package recipes

import (
	"math"
	"strconv"
)

// A Table is what is public of a table.
type Table struct{ Records, Features, Classes int } // Classes is 0 for a regression

const (
	tableSteps    = 100     // over all records, of all but large tables
	tableMomentum = 0.9     // goes far in so few steps, without a large one
	tableNorm     = 4       // of rows that may be longer; the longest rows bound the rate
	mostRecords   = 1 << 16 // that a step uses on average
	mostNumbers   = 1 << 26 // in these records
)

// ForTable gives the settings for a linear model of a table, at any ε above 0.
//
// The noise that all steps add up to has a norm of about 4·reach/r, at r = N·ε/√parameters and a reach of
// rate·clip·steps/(1−momentum), the farthest that a model can go. So the reach is a multiple of r: with less noise, a model
// goes farther.
func ForTable(t Table, epsilon float64) Recipe {
	n, d := float64(max(t.Records, 1)), float64(max(t.Features, 1))
	outputs := 1.0
	if t.Classes > 2 {
		outputs = float64(t.Classes)
	}
	r := n * epsilon / math.Sqrt(d*outputs)
	model, clip, reach := "logistic", 1.5, clamp(r, 3, 5000)
	if t.Classes == 0 { // The errors are below 1, and most are far below.
		model, clip, reach = "huber-regression", 0.1, clamp(r/10, 2, 100)
	}
	q := digits(min(1, max(1024, min(mostRecords, mostNumbers/d))/n))
	s := Settings{
		Optimizer: "dp-sgd", Model: model, Momentum: tableMomentum, Clip: clip, LRSchedule: "constant",
		LR:           digits(reach / clip * (1 - tableMomentum) / tableSteps),
		SamplingRate: q, Epochs: digits(q * tableSteps),
	}
	if d > tableNorm*tableNorm {
		s.FeatureNorm = tableNorm
	}
	return Recipe{Data: tablesData, Records: t.Records, Epsilon: epsilon, Settings: s}
}

// tablesData is where the constants were chosen.
const tablesData = "Adult, credit card and wine"

func clamp(x, least, most float64) float64 { return min(max(x, least), most) }

// digits rounds to three digits, so that a configuration reads well.
func digits(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return rounded
}
