package kernels

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Logits and δ are float32 [example][outputs], targets float32 [example], as Gather
// writes them: a dead row has a target that no loss accepts.

// A warp works on one example's logits, rowThreads on those of a few; a thread on one example's losses, sumThreads on one sum.
const (
	rowThreads  = 128
	lossThreads = 32
	sumThreads  = 128
)

func rowBlocks(rows int) int { return ceil(rows, rowThreads/warp) }

// LossGrad sets δ, the gradient of each live example's loss at its logits, as
// host.Loss does: computed in float64, rounded to float32 at the end. δ may lie where the
// logits do. A row with a target that the loss does not accept gets zeros; dead
// rows stay as they are.
//
// The sum under a softmax runs over lanes of 32 (class c in lane c mod 32, in
// order), and the lanes in a tree of halves.
func LossGrad(b Batch, loss ir.Loss, outputs int, logits, targets, delta Ptr) Launch {
	return line("loss", "loss_grad", rowBlocks(b.Capacity), rowThreads, b.args(I(int(loss)), I(outputs), logits, targets, delta)...)
}

// LossGradBehind is a DenseForward, of a layer with few outputs, that also does LossGrad of what it gives; false of any other launch.
func LossGradBehind(l Launch, loss ir.Loss, outputs int, logits, targets, delta Ptr) (Launch, bool) {
	const y, out, act = 6, 8, 9 // arguments of dense_forward_few
	if l.Name != "dense_forward_few" || l.Args[y] != logits || l.Args[out] != I(outputs) || l.Args[act] != I(int(noActivation)) {
		return l, false
	}
	l.Name = "dense_forward_loss"
	l.Args = append(l.Args[:act:act], I(int(loss)), targets, delta)
	return l, true
}

// Losses writes each live example's loss, float64, to losses[example], and the
// class that its logits name (host.Predict), int32, to predicted[example] unless
// predicted is 0. The bits of a loss depend on the example's logits and target alone. A row with a
// target that the loss does not accept gets a loss of 0 and class 0, which LossShares and
// Score leave out; dead rows stay as they are.
func Losses(b Batch, loss ir.Loss, outputs int, logits, targets, losses, predicted Ptr) Launch {
	return line("loss", "losses", rowBlocks(b.Capacity), rowThreads, b.args(I(int(loss)), I(outputs), logits, targets, losses, predicted)...)
}

// LossShares turns losses into what each live example adds to the k values of a
// query (device.LossQuery), as host.Query.Add does, with the run's Clip.
//
// losses is float64 [row][example], b.Capacity examples a row, and is
// overwritten. For LossSum row i is candidate i; for the other forms row 0 is the loss at
// At and row 1+i candidate i. FirstShare is the row where the k rows of shares
// begin. An example with a target that the loss does not accept has shares of 0.
// Shares are truncated to multiples of the run's NoiseStep; for a step of 0 they are not.
func LossShares(b Batch, form device.LossForm, k int, losses Ptr, loss ir.Loss, outputs int, targets Ptr) Launch {
	return line("loss", "loss_shares", ceil(b.Capacity, lossThreads), lossThreads, b.args(I(int(form)), I(k), losses, I(int(loss)), I(outputs), targets)...)
}

// FirstShare is the row of the losses of a query at which its candidates begin.
func FirstShare(form device.LossForm) int {
	if form == device.LossSum {
		return 0
	}
	return 1
}

// LossSums adds the shares of the live examples: dst[i] += Σ shares[i][example]
// for i < k, b.Capacity examples a row, all float64. Blocks of ExampleBlock
// examples are added each in order, then the blocks in order, then dst; of shares on a grid no addition rounds.
func LossSums(b Batch, shares Ptr, k int, dst Ptr) Launch {
	return line("loss", "loss_sums", k, sumThreads, b.args(shares, dst)...)
}
