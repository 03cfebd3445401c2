// Package accountant says what a list of noisy releases costs in (ε, δ).
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
