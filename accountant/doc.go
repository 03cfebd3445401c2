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
//
// Sources: Rényi differential privacy, Mironov 2017 (arXiv 1702.07476); the
// subsampled Gaussian, Mironov, Talwar and Zhang 2019 (arXiv 1908.10530);
// conversion to (ε, δ), Canonne, Kamath and Steinke 2020 (arXiv 2004.00010),
// proposition 12.
package accountant
