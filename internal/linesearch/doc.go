// Package linesearch decides step sizes, and the budgets of the releases that
// they rest on, from released values alone: nothing here sees a record, a sum
// or a device. What it asks of the private data goes through an interface whose
// answers a mechanism has noised and an accountant has charged.
//
// [Backtrack] and [Curve] are two forms of a search, [Rule] is the paper's algorithms 2
// and 3 (Chen and Lee 2020). Beside the paper there are, of this project's own, a
// correction for the noise's share of ‖d‖², a margin, and [Curve].
//
// Step sizes multiply the direction d = g̃/(qN) + λw: the released gradient sum
// over the public expected batch, and the gradient of the penalty λ/2·‖w‖²,
// which is outside the clipping.
package linesearch
