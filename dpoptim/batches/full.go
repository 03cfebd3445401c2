package batches

import "github.com/privgrad/privgrad/accountant"

// Full takes every record, which is Poisson sampling at rate 1.
var Full = &Kind{
	Name:  "full",
	Drawn: "all records", Each: "per step", Called: "all records",
	Fit:   wholeTable,
	Event: accountant.PoissonBatch,
	open:  Poisson.open,
}

func wholeTable(n int, _ float64) (rate, expected float64, err error) { return 1, float64(n), nil }
