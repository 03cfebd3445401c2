// Package accountant turns a list of privacy events into an (ε, δ) guarantee
// and solves the inverse problems: how much noise, how many steps or which
// sampling rate a target ε allows.
//
// # Units
//
// NoiseMultiplier is σ/C under both neighbouring relations: σ is the standard
// deviation of the Gaussian noise added to a sum and C the bound on the L2 norm
// of one record's contribution to that sum. Callers never fold the relation
// into the noise; the accountant does.
//
// # Neighbouring relations
//
//   - AddRemove: data sets that differ by the presence of one record. The sum
//     moves by at most C, and the Poisson-subsampled Gaussian at rate q is
//     governed by (1−q)N(0,σ²)+qN(1,σ²) against N(0,σ²) in units of C.
//   - ReplaceOne: data sets that differ by the value of one record. The sum
//     moves by at most 2C, and the pair becomes (1−q)N(0,σ²)+qN(1,σ²) against
//     (1−q)N(0,σ²)+qN(−1,σ²), in the same units.
//
// # Batches
//
// Sampling belongs to a batch and not to a query. Everything asked of one batch
// stands in one Event: its mechanisms are composed first and amplified once.
// Charging them as separate subsampled events would under-report.
//
// # Accountants
//
//   - "rdp": Rényi differential privacy over DefaultOrders, converted by
//     Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential
//     Privacy" (NeurIPS 2020), Proposition 12.
//   - "paper": the same curve converted by Mironov, "Rényi Differential
//     Privacy" (CSF 2017), Proposition 3. It reproduces published figures and
//     is never reported as a guarantee.
//
// The Rényi curve of the subsampled Gaussian follows Mironov, Talwar and Zhang,
// "Rényi Differential Privacy of the Sampled Gaussian Mechanism" (2019), with
// numerical integration in place of their series at fractional orders.
package accountant
