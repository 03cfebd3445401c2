package accountant

// Batches says how private line search draws what it asks.
type Batches string

const (
	// Fresh draws a batch of its own for every gradient and every line search:
	// each is amplified by itself, and retries need no cap.
	Fresh Batches = "fresh"
	// Shared asks the gradient and its line search of one batch: composed first,
	// amplified once.
	Shared Batches = "shared"
	// PaperBatches asks both of one batch and amplifies each by itself, as
	// Chen and Lee 2020 do (algorithm 2, lines 7 and 11). Not a guarantee.
	PaperBatches Batches = "paper"
)

// LineSearch is what an optimizer with private line search asks of its batches
// at fixed noise: in each of Steps a gradient and a search.
type LineSearch struct {
	SamplingRate float64
	Gradient     Gaussian
	Search       Mechanism
	Steps        int
}
