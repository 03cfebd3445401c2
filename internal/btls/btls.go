package btls

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Search is one run of the mechanism. Scales are in units of the sensitivity Δ
// of one query under add-remove: standard deviations of Gaussian noise, or b of
// Laplace noise.
type Search struct {
	Threshold float64 // scale of the noise on the threshold, above 0
	Query     float64 // scale of the noise on each query, above 0
	Trials    int     // K, the most queries that are asked; 0: no cap
	// Shared says that all queries share one private baseline, as a line
	// search's f(w) − f(w−η_i·g) with f clipped to [0,Δ] do. Queries that clip
	// the difference itself to [−Δ,Δ] do not, and are generic.
	Shared bool
}

// Scaled is the search in units of a sensitivity f times as large. Under
// replace-one the search costs what Scaled(2) costs under add-remove, whatever the
// noise and the queries.
func (s Search) Scaled(f float64) Search {
	s.Threshold /= f
	s.Query /= f
	return s
}

// reach is the most by which one record moves a query against the threshold
// once that has moved along, in units of Δ: the s of the package comment.
func (s Search) reach() float64 {
	if s.Shared {
		return 1
	}
	return 2
}

// up is one plus what a result is raised by, relative to itself, so that
// rounding cannot take it below the bound: the closed forms here are fewer
// than twenty operations on positive numbers, each within two units of 2⁻⁵³.
const up = 1 + 1e-14

func (s Search) validate() error {
	if err := cmp.Or(positive("threshold scale", s.Threshold), positive("query scale", s.Query)); err != nil {
		return err
	}
	if s.Trials < 0 {
		return fmt.Errorf("trials %d: must be 1 or more, or 0 for no cap", s.Trials)
	}
	return nil
}

func positive(name string, x float64) error {
	if !(x > 0) || math.IsInf(x, 1) {
		return fmt.Errorf("%s %v: must be a finite number above 0", name, x)
	}
	return nil
}

// Mu is the μ of Gaussian differential privacy of the search with Gaussian
// noise, under add-remove. It is rounded up, by less than 1e-13 of itself.
func (s Search) Mu() (float64, error) {
	if err := s.validate(); err != nil {
		return 0, err
	}
	if s.Trials == 0 {
		return 0, errors.New("trials 0: a search with Gaussian noise has no bound without a cap on its trials; set one, or use Laplace noise")
	}
	r := s.Query / s.Threshold
	return math.Sqrt(squaredShift(r*r, float64(s.Trials), s.Shared)) / s.Query * up, nil
}

// squaredShift is s₂²·μ² for r = s₂²/s₁²: the largest of |d|² − κ(Σd_i)²,
// κ = 1/(r+K), over what a record can do to the K queries.
func squaredShift(r, k float64, shared bool) float64 {
	if !shared {
		// d ∈ {−1,1}^K: as many up as down, or one more.
		if math.Mod(k, 2) == 0 {
			return k
		}
		return (k*r + (k-1)*(k+1)) / (r + k) // K−κ
	}
	// d ∈ {0,1}^K with m ones: m − κm² = m(r+K−m)/(r+K), a parabola with its
	// top at (r+K)/2. The neighbors are there for a top that was rounded.
	top, best := math.Round(math.Min((r+k)/2, k)), 0.0
	for m := math.Max(top-1, 1); m <= math.Min(top+1, k); m++ {
		best = math.Max(best, m*((r+(k-m))/(r+k)))
	}
	return best
}

// genericRatio is s₂²/s₁² of a calibrated search with generic queries. For K
// even μ² is K/s₂² whatever the threshold's noise, for K odd that noise makes
// up for less than it adds: none at all would be best, but an event has some.
// This much adds a millionth to the variance of a comparison.
const genericRatio = 1 << 20

// Calibrate is the search with Gaussian noise whose Mu is mu or below it by
// less than 1e-9 of itself. The ratio of its scales makes the variance s₁²+s₂²
// of one comparison least: s₂²/s₁² = √K for a shared baseline, where
// s₁²+s₂² = (1+√K)²/(4μ²) at most; for generic queries s₁ is next to nothing.
func Calibrate(mu float64, trials int, shared bool) (Search, error) {
	if err := positive("mu", mu); err != nil {
		return Search{}, err
	}
	if trials < 1 {
		return Search{}, fmt.Errorf("trials %d: a search with Gaussian noise needs a cap of 1 or more", trials)
	}
	r := float64(genericRatio)
	if shared {
		r = math.Sqrt(float64(trials))
	}
	// 1e-12 leaves room for the rounding up of Mu.
	query := math.Sqrt(squaredShift(r, float64(trials), shared)) / mu * (1 + 1e-12)
	s := Search{Threshold: query / math.Sqrt(r), Query: query, Trials: trials, Shared: shared}
	if err := s.validate(); err != nil {
		return Search{}, fmt.Errorf("mu %v over %d trials is out of range: %w", mu, trials, err)
	}
	return s, nil
}
