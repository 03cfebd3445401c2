package kernels

import "github.com/privgrad/privgrad/internal/ir"

// A score in device memory: ScoreBytes of it, zeroed before the first chunk of a table.
const (
	ScoreLoss      = 0  // float64
	ScoreCount     = 8  // int32
	ScoreCorrect   = 12 // int32
	ScoreConfusion = 16 // int32 [truth][predicted], Classes of each
)

// Classes is how many classes a confusion matrix of a loss has; 0 for none.
func Classes(loss ir.Loss, outputs int) int {
	if loss == ir.Huber {
		return 0
	}
	return max(outputs, 2)
}

// ScoreBytes is the size of a score.
func ScoreBytes(loss ir.Loss, outputs int) int {
	n := Classes(loss, outputs)
	return ScoreConfusion + 4*n*n
}

// Score adds the live rows of a chunk of a public table to a score, as host.Tally does:
// losses (float64) and predicted (int32) are of Losses. Rows with a target that
// the loss does not accept are left out. Losses are added in float64: blocks of
// ExampleBlock rows each in order, the blocks in order, then the score's.
func Score(b Batch, loss ir.Loss, outputs int, targets, losses, predicted, score Ptr) Launch {
	return line("score", "score", 1, sumThreads, b.args(I(int(loss)), I(outputs), I(Classes(loss, outputs)), targets, losses, predicted, score)...)
}
