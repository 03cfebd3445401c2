// Package l2p is learned privacy protection: small LSTMs, trained on public tasks, choose the
// noise and make the updates of a private run. `privgrad train --optimizer l2p --protector
// mnist --epsilon 3` is the way to start. Package meta trains protectors.
//
// The method is that of Hong et al. 2021. Its appendix fixes the noise range, the
// coordinate-wise LSTM, the augmented Lagrangian and its batch form. What it leaves open
// follows Andrychowicz et al. 2016.
//
// A Protector has two parts. Its scheduler chooses the noise of each step from public
// settings and released values, never from a batch. So the privacy cost of a step is known
// before the batch is drawn. Its projector turns the noised gradient into an update, which
// is post-processing. Noise multipliers are σ/C as everywhere.
package l2p
