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
	r := t.r(epsilon)
	if t.Classes == 0 { // The errors are below 1, and most are far below.
		return t.recipe("huber-regression", 0.1, clamp(r/10, 2, 100), epsilon)
	}
	return t.recipe("logistic", 1.5, clamp(r, 3, 5000), epsilon)
}

// NetworkForTable gives the settings for a network of one hidden layer, at any ε above 0. They are those of the linear model but
// for the clip norm and the reach.
func NetworkForTable(t Table, epsilon float64) Recipe {
	r := t.r(epsilon)
	if t.Classes == 0 {
		return t.recipe("mlp-regression", 0.1, clamp(r/20, 1, 50), epsilon)
	}
	return t.recipe("mlp-table", 3, clamp(r, 3, 5000), epsilon)
}

func (t Table) records() float64  { return float64(max(t.Records, 1)) }
func (t Table) features() float64 { return float64(max(t.Features, 1)) }

// r is how much of a linear model stands out of the noise.
func (t Table) r(epsilon float64) float64 {
	outputs := 1.0
	if t.Classes > 2 {
		outputs = float64(t.Classes)
	}
	return t.records() * epsilon / math.Sqrt(t.features()*outputs)
}

// recipe takes a model so far in steps over all records, or over as many as they may be.
func (t Table) recipe(model string, clip, reach, epsilon float64) Recipe {
	n, d := t.records(), t.features()
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
