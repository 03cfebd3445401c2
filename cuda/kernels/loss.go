package kernels

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// LossGrad sets δ, the gradient of each live example's loss at its logits, as
// host.Loss does: computed in float64, rounded to float32 at the end. Logits and δ are
// float32 [example][outputs], rows logitStride and deltaStride elements apart;
// they may be the same memory. targets are float32 [example]. A row with a target that the
// loss does not accept gets zeros; dead rows stay as they are.
//
// The sum under a softmax runs over lanes of 32 (class c in lane c mod 32, in
// order), and the lanes in a tree of halves.
func LossGrad(run Ptr, loss plan.Loss, outputs int, logits Ptr, logitStride int, targets, delta Ptr, deltaStride, capacity int) Launch {
	return Launch{
		Module: "loss", Name: "loss_grad", Grid: line(capacity), Block: line(32),
		Args: []uint64{run, I(int(loss)), I(outputs), logits, I(logitStride), targets, delta, I(deltaStride)},
	}
}

// Losses writes each live example's loss, float64, to losses[example], and the
// class that its logits name (host.Predict), int32, to predicted[example] unless
// predicted is 0. The bits of a loss depend on the example's logits and target alone. A row with a
// target that the loss does not accept gets a loss of 0 and class 0, which LossShares and
// Score leave out; dead rows stay as they are.
func Losses(run Ptr, loss plan.Loss, outputs int, logits Ptr, logitStride int, targets, losses, predicted Ptr, capacity int) Launch {
	return Launch{
		Module: "loss", Name: "losses", Grid: line(capacity), Block: line(32),
		Args: []uint64{run, I(int(loss)), I(outputs), logits, I(logitStride), targets, losses, predicted},
	}
}

// LossShares turns losses into what each live example adds to the k values of a
// query (device.LossQuery), as host.Query.Add does, with the run's Clip.
//
// losses is float64 [row][example], rows stride elements apart, and is
// overwritten. For LossSum row i is candidate i; for the other forms row 0 is the loss at
// At and row 1+i candidate i. FirstShare(form) is the row where the k rows of shares
// begin. An example with a target that the loss does not accept has shares of 0.
// On a grid (exact nets, never LossCurve) a share is truncated to a multiple of
// host.Grid.Step; it stays a float64.
func LossShares(run Ptr, form device.LossForm, k int, losses Ptr, stride int, loss plan.Loss, outputs int, targets Ptr, grid bool, capacity int) Launch {
	return Launch{
		Module: "loss", Name: "loss_shares", Grid: line(blocks(capacity, 64)), Block: line(64),
		Args: []uint64{run, I(int(form)), I(k), losses, I(stride), I(int(loss)), I(outputs), targets, I(flag(grid))},
	}
}

// FirstShare is the row of the losses of a query at which its candidates begin.
func FirstShare(form device.LossForm) int {
	if form == device.LossSum {
		return 0
	}
	return 1
}

// LossSums adds the shares of the live examples: dst[i] += Σ shares[i][example]
// for i < k. shares is float64, rows stride elements apart, dst float64. Every
// addition is in float64: blocks of 32 examples each in order, then the blocks
// in order, then dst.
func LossSums(run, shares Ptr, stride, k int, dst Ptr) Launch {
	return Launch{
		Module: "loss", Name: "loss_sums", Grid: line(k), Block: line(128),
		Args: []uint64{run, shares, I(stride), dst},
	}
}

// GridLossSums is LossSums for shares on the grid of the run's Clip. dst is
// int64, in grid steps; no addition rounds.
func GridLossSums(run, shares Ptr, stride, k int, dst Ptr) Launch {
	return Launch{
		Module: "loss", Name: "grid_loss_sums", Grid: line(k), Block: line(128),
		Args: []uint64{run, shares, I(stride), dst},
	}
}
