// Package meta trains the LSTMs of package l2p on public tasks: it simulates private
// training, with the noise that a budget asks for, and descends the final loss through
// the unrolled simulation. Everything is float64 on the CPU, and follows from a seed;
// nothing here is private, and no noise of it protects anyone.
//
// From Hong et al. 2021, appendices B and C: the quadratics, the noise range, the stop
// weights I_t and the objective's gradient (equation 19), the augmented Lagrangian and
// its batch form, incremental pre-training. From Andrychowicz et al. 2016: the
// coordinate-wise LSTM and dropping second derivatives of the tasks, ∂∇_t/∂θ = 0.
// Choices of this package are marked as such.
package meta
