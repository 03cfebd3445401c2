// Package accountant computes what noisy releases cost in (ε, δ), and how much noise a
// budget needs. 1000 steps of DP-SGD, each on 1% of the records:
//
//	events := []accountant.Event{accountant.PoissonBatch(0.01, 1000, accountant.Gaussian{NoiseMultiplier: 1.1})}
//	r, err := accountant.Account(events, accountant.Options{
//		Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5,
//	})
//	// r.Epsilon is an upper bound; Schedule.Calibrate finds the noise for a given ε
//
// Units. A noise multiplier is σ/C: the standard deviation of the noise over
// the bound C on one record's share of the sum, under both neighbouring
// relations. Under add-remove, neighbouring data sets differ by one record
// added or removed, and the sum moves by at most C; under replace-one a record
// is exchanged, the sum moves by up to 2C, and the accountant doubles the
// distance itself.
//
// Sampling belongs to a batch, not to a query: everything asked of one batch
// is composed first and amplified once. Under Poisson sampling at rate q each
// record joins a batch independently with probability q.
package accountant
