package recipes

import "fmt"

// A Table is what is public of a table.
type Table struct{ Records, Features, Classes int } // Classes is 0 for a regression

// ForTable gives the settings for a table and a budget.
func ForTable(t Table, epsilon float64) Recipe {
	model, label := "logistic", fmt.Sprintf("%d classes", t.Classes)
	if t.Classes == 0 {
		model, label = "huber-regression", "a number to predict"
	}
	title := fmt.Sprintf("tables of %d records, %d values and %s", t.Records, t.Features, label)
	return Recipe{Data: title, Records: t.Records, Epsilon: epsilon, Settings: Settings{
		Optimizer: "dp-sgd", Model: model, LR: 1, Momentum: 0.9, Clip: 1, LRSchedule: "constant", SamplingRate: 1, Epochs: 100,
	}}
}
