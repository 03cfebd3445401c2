package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Exponential tells one of some candidates, and nothing else: candidate i with a probability in
// proportion to exp(ε·u_i/2Δ) (McSherry and Talwar 2007), where the presence of one record moves each utility u_i
// by at most Δ, up or down. Its privacy losses lie in an interval of length ε (accountant.BoundedRange);
// docs/proofs/exponential-mechanism.md has the proof.
//
// The draw is exact. A candidate is proposed, each with the same probability, and accepted with
// probability exp(−ε(M−u_i)/2Δ), M being the largest utility: where an exponential variable is at
// least as large, compared as real numbers (exact.Reals). Then comes the next proposal. Proposals
// with replacement give the exponential mechanism; without, they would give permute-and-flip,
// whose losses have a larger range.
type Exponential struct {
	epsilon, scale float64
	stream         *stream.Stream
	noise          *exact.Reals
}

// MostUtility bounds utilities in magnitude, so that float64 has their differences. A larger one counts as
// that, which moves no utility by more than the record does.
const MostUtility = 1 << 52

// mostCandidates are so few that one is accepted before the draws of a position end.
const mostCandidates = 1 << 22

// NewExponential checks ε and Δ, both above 0. The tensor must be no other mechanism's.
func NewExponential(epsilon float64, sensitivity int64, s *stream.Stream, tensor uint32) (*Exponential, error) {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return nil, fmt.Errorf("epsilon %v of an exponential mechanism: must be a finite number above 0", epsilon)
	}
	if sensitivity < 1 || sensitivity > MostUtility {
		return nil, fmt.Errorf("sensitivity %d of an exponential mechanism: must be in [1, %d]", sensitivity, int64(MostUtility))
	}
	if s == nil {
		return nil, fmt.Errorf("an exponential mechanism needs a noise stream")
	}
	noise, err := exact.NewReals(exact.Laplace, s, tensor)
	if err != nil {
		return nil, fmt.Errorf("an exponential mechanism: %w", err)
	}
	return &Exponential{epsilon, math.Nextafter(2*float64(sensitivity)/epsilon, math.Inf(1)), s, noise}, nil
}

// Select draws at a noise position that nothing has used, and gives the index of a candidate.
func (m *Exponential) Select(utilities []int64, draw uint64) (int, error) {
	if len(utilities) == 0 || len(utilities) > mostCandidates {
		return 0, fmt.Errorf("a choice of %d candidates: must be 1 to %d", len(utilities), mostCandidates)
	}
	if err := claim(m.stream, draw, "an exponential mechanism"); err != nil {
		return 0, err
	}
	bounded := func(u int64) float64 { return float64(max(-MostUtility, min(u, MostUtility))) }
	most, best := math.Inf(-1), 0
	for i, u := range utilities {
		if x := bounded(u); x > most {
			most, best = x, i
		}
	}
	// Of n candidates the best is accepted once in n proposals: the end is reached with a probability below
	// (1−1/n)^(2²⁹) < 2⁻¹⁵⁰.
	for k := 0; uint64(k) < exact.Draws(m.stream.Cipher())-1; k += 2 {
		i := m.noise.Index(draw, k, len(utilities))
		if i >= 0 && m.noise.AtLeastZero(draw, []float64{bounded(utilities[i]), -most}, exact.Term{Scale: m.scale, Draw: k + 1, Magnitude: true}) {
			return i, nil
		}
	}
	return best, nil
}
