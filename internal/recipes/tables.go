package recipes

import (
	"math"
	"strconv"
)

// A Table is what is public of a table.
type Table struct{ Records, Features, Classes int } // Classes is 0 for a regression

const (
	tableSteps    = 100     // of all records, where there are not too many
	tableMomentum = 0.9     // so that so few steps go far without ever being large
	mostRecords   = 1 << 16 // a step uses on average
	mostNumbers   = 1 << 26 // in the records that it uses
)

// ForTable gives the settings for a linear model of a table, at any ε above 0.
//
// All steps together are allowed a length that is proportional to r = N·ε/√parameters: the noise in
// all parameters together is then of the same norm everywhere. With less noise a model goes farther.
func ForTable(t Table, epsilon float64) Recipe {
	n, d := float64(max(t.Records, 1)), float64(max(t.Features, 1))
	outputs := 1.0
	if t.Classes > 2 {
		outputs = float64(t.Classes)
	}
	r := n * epsilon / math.Sqrt(d*outputs)
	// The rows of wide tables are longer, and so are their gradients.
	model, clip, reach := "logistic", clamp(math.Sqrt(d)/3, 1, 3), clamp(r, 3, 3000)
	if t.Classes == 0 { // whose errors are below 1, and most far below
		model, clip, reach = "huber-regression", 0.2, clamp(r/10, 2, 100)
	}
	q := min(1, max(1024, min(mostRecords, mostNumbers/d))/n)
	return Recipe{Data: tablesData, Records: t.Records, Epsilon: epsilon, Settings: Settings{
		Optimizer: "dp-sgd", Model: model, LRSchedule: "constant",
		LR: digits(reach / clip * (1 - tableMomentum) / tableSteps), Momentum: tableMomentum, Clip: digits(clip),
		SamplingRate: digits(q), Epochs: digits(digits(q) * tableSteps),
	}}
}

// tablesData is where the constants were chosen.
const tablesData = "Adult, credit card and wine"

func clamp(x, least, most float64) float64 { return min(max(x, least), most) }

// digits rounds to three digits, so that a configuration reads well.
func digits(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return rounded
}
