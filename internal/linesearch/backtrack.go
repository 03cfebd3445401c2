package linesearch

import (
	"fmt"
	"math"
)

// Direction is what is known of a direction d, all of it released: ‖d‖² and,
// for the penalty λ/2·‖w‖², the product w·d.
type Direction struct {
	Norm2, Along float64
	L2           float64 // λ
	// Noise is E‖·‖² of the noise in d, which is public: dim·(σ/(qN))² for one
	// gradient.
	Noise float64
}

// penalty is how much the penalty falls by a step η.
func (d Direction) penalty(eta float64) float64 {
	return d.L2 * eta * (d.Along - eta/2*d.Norm2)
}

// Backtrack is Armijo's condition, for the candidates η₀, η₀β, η₀β², …: the
// first is taken that lowers the objective by αη‖d‖² (Armijo 1966; Chen and Lee
// 2020, algorithm 1 line 7), scaled by the batch's public expected size.
type Backtrack struct {
	Alpha  float64 // α in (0, 1)
	Beta   float64 // β in (0, 1)
	Trials int     // candidates at most, 1 or more
	Batch  float64 // qN of the batch that is searched on
	// Correct takes Direction.Noise out of ‖d‖²: of a noisy gradient ‖d‖² is
	// mostly noise, and no step lowers the objective in proportion to that. As
	// published it stays in.
	Correct bool
	// Margin is a decrease, in the sum, that is asked for beside; 0 as published.
	Margin float64
}

// leastCandidate, over the first, is still told from 0 by single precision.
const leastCandidate = 1e-20

// Validate checks the settings.
func (b Backtrack) Validate() error {
	switch {
	case !(b.Alpha > 0 && b.Alpha < 1):
		return fmt.Errorf("alpha %v of the line search: must be in (0, 1)", b.Alpha)
	case !(b.Beta > 0 && b.Beta < 1):
		return fmt.Errorf("beta %v of the line search: must be in (0, 1)", b.Beta)
	case !(math.Pow(b.Beta, float64(b.Trials)) >= leastCandidate):
		return fmt.Errorf("%d candidates of the line search with beta %v: the last would be less than %g of the first; ask for fewer or raise beta", b.Trials, b.Beta, leastCandidate)
	case b.Trials < 1:
		return fmt.Errorf("%d candidates of the line search: must be 1 or more", b.Trials)
	case !positive(b.Batch):
		return fmt.Errorf("expected batch %v of the line search: must be a finite number above 0", b.Batch)
	case math.IsNaN(b.Margin) || math.IsInf(b.Margin, 0):
		return fmt.Errorf("margin %v of the line search: must be a finite number", b.Margin)
	}
	return nil
}

// Candidate is number i, from 0; Smallest is the last.
func (b Backtrack) Candidate(start float64, i int) float64 {
	return start * math.Pow(b.Beta, float64(i))
}

func (b Backtrack) Smallest(start float64) float64 { return b.Candidate(start, b.Trials-1) }

// Bias is what the sum of the loss's decreases over the batch has to reach for
// a candidate: Armijo's share and the margin, less what the penalty gives. No sum
// reaches it where parameters have overflowed.
func (b Backtrack) Bias(eta float64, d Direction) float64 {
	slope := d.Norm2
	if b.Correct {
		slope = math.Max(slope-d.Noise, 0)
	}
	bias := b.Batch*(b.Alpha*eta*slope-d.penalty(eta)) + b.Margin
	if math.IsNaN(bias) || math.IsInf(bias, -1) {
		return math.Inf(1)
	}
	return bias
}

// Start says where a search begins. After every so many searches that found a
// step it becomes Factor times the largest of their steps (Chen and Lee 2020,
// section 4.2, "intelligent backtracking": Ω, τ, ς): never more than before
// unless it may rise. Its fields are what a checkpoint holds.
type Start struct {
	Eta     float64 `json:"eta"`     // where the next search begins
	Largest float64 `json:"largest"` // step since the start last moved
	Found   int     `json:"found"`   // searches since, that found a step
}

func (s Start) Validate() error {
	if !positive(s.Eta) || s.Largest != 0 && !positive(s.Largest) || s.Found < 0 {
		return fmt.Errorf("a search that starts at %v after %d steps of at most %v: not what a line search leaves", s.Eta, s.Found, s.Largest)
	}
	return nil
}

// StartRule moves a Start.
type StartRule struct {
	Every  int     // τ, 1 or more
	Factor float64 // ς, above 1
	Rise   bool    // our own: the start may also rise
	Least  float64 // bounds within which the start stays
	Most   float64
}

func (r StartRule) Validate() error {
	switch {
	case r.Every < 1:
		return fmt.Errorf("the start of the line search moves after every %d searches: must be 1 or more", r.Every)
	case !(r.Factor > 1) || math.IsInf(r.Factor, 0):
		return fmt.Errorf("the start of the line search is %v times the largest step: must be a finite number above 1", r.Factor)
	case !(r.Least > 0 && r.Least <= r.Most) || math.IsInf(r.Most, 0):
		return fmt.Errorf("the start of the line search stays in [%v, %v]: must be finite numbers above 0 in order", r.Least, r.Most)
	}
	return nil
}

// Chose tells the start of a step that a search found.
func (r StartRule) Chose(s *Start, eta float64) {
	s.Largest = math.Max(s.Largest, eta)
	if s.Found++; s.Found < r.Every {
		return
	}
	next := r.Factor * s.Largest
	if !r.Rise {
		next = math.Min(next, s.Eta)
	}
	*s = Start{Eta: math.Min(math.Max(next, r.Least), r.Most)}
}

// Smooth is the moving average of step sizes, of their logarithms, with a weight
// in (0, 1] of the one found last: a search by noisy comparisons is right on the
// average (our own; 1 is the published form).
func Smooth(present, found, weight float64) float64 {
	return math.Exp((1-weight)*math.Log(present) + weight*math.Log(found))
}

// Group is how many candidates are evaluated together, which costs time and
// decides nothing. Its field is what a checkpoint holds.
type Group struct {
	Recent float64 `json:"recent"` // moving average of the candidates that searches needed
}

// Size is the power of two that covers the recent number of candidates, at most
// most.
func (g Group) Size(most int) int {
	n := 1
	for float64(n) < g.Recent && 2*n <= most {
		n *= 2
	}
	return n
}

// Needed tells the group how many candidates a search went through.
func (g *Group) Needed(n int) {
	const weight = 0.3
	if g.Recent == 0 {
		g.Recent = float64(n)
		return
	}
	g.Recent += weight * (float64(n) - g.Recent)
}
