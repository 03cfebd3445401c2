// Package linesearch decides step sizes, and the budgets of the releases that
// they rest on, from released values alone: nothing here sees a record, a sum
// or a device. What it asks of the private data goes through an interface whose
// answers a mechanism has noised and an accountant has charged.
//
// [Backtrack] is Armijo's condition over candidates η₀βⁱ as the sparse vector
// technique asks it (Chen and Lee 2020, algorithm 1), with two corrections of
// this project's own: the noise's share of ‖d‖², which is public, is taken out,
// and a margin in units of the search's own noise is asked for. [Curve] is
// another form, also this project's: it reads a noisy decrease at every
// candidate. [Start] says where a search begins, [Group] how many candidates
// are evaluated at a time. [Rule] is the paper's algorithms 2 and 3.
//
// Step sizes multiply the direction d = g̃/(qN) + λw: the released gradient sum
// over the public expected batch, and the gradient of the penalty λ/2·‖w‖²,
// which is outside the clipping.
package linesearch
