package batches

import "github.com/privgrad/privgrad/accountant"

// Full takes every record, which is Poisson sampling at rate 1.
var Full = &Kind{
	Name:  "full",
	Drawn: "all records", Each: "per step", Called: "all records",
	Rate:  wholeTable,
	Event: accountant.PoissonBatch,
	open:  Poisson.open,
}

func wholeTable(int) float64 { return 1 }
