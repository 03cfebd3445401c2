// Package l2p is learned privacy protection: private training whose noise is
// scheduled, and whose steps are made, by small LSTMs that were trained on public
// tasks (Hong et al. 2021, of which the appendix fixes the noise range, the
// coordinate-wise LSTM, the augmented Lagrangian and its batch form; what it leaves
// open is taken from Andrychowicz et al. 2016). Package meta trains them.
//
// A Protector has two parts. Its scheduler chooses the noise of each step from public
// settings and released values, never from a batch, so that a step's price is known
// before the batch is drawn; its projector turns the noised gradient into an update,
// which is post-processing. Noise multipliers are σ/C as everywhere.
package l2p
