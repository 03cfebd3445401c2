package accountant

import (
	"cmp"
	"fmt"

	"github.com/privgrad/privgrad/internal/btls"
)

// BTLSNoise is the noise of a line search by sparse vector.
type BTLSNoise string

const (
	BTLSGaussian BTLSNoise = "gaussian"
	BTLSLaplace  BTLSNoise = "laplace"
)

// What the queries of a line search have in common.
const (
	SharedBaseline = "shared-baseline" // one private term, as a line search's f(w)
	Generic        = "generic"         // nothing
)

// NoisyBTLS asks queries in turn and stops at the first above a noisy
// threshold (Chen and Lee 2020, algorithm 1). Scales are in units of one
// query's sensitivity: standard deviations for Gaussian noise, b for Laplace.
// Package btls derives what it costs.
type NoisyBTLS struct {
	Noise          BTLSNoise `json:"-"`
	ThresholdScale float64   `json:"threshold_scale"`
	QueryScale     float64   `json:"query_scale"`
	MaxTrials      int       `json:"max_trials,omitempty"` // 0: no cap
	Queries        string    `json:"queries"`              // SharedBaseline or Generic
}

var _ = register(NoisyBTLS{Noise: BTLSGaussian, Queries: Generic}, NoisyBTLS{Noise: BTLSLaplace, Queries: Generic})

// mostTrials is where the bounds still take no time.
const mostTrials = 1_000_000_000

// Name is "noisy-btls-gaussian" or "noisy-btls-laplace".
func (m NoisyBTLS) Name() string { return "noisy-btls-" + string(m.Noise) }

func (m NoisyBTLS) validate() error {
	if m.Noise != BTLSGaussian && m.Noise != BTLSLaplace {
		return fmt.Errorf("noise %q: choose %s or %s", m.Noise, BTLSGaussian, BTLSLaplace)
	}
	if err := cmp.Or(positive("threshold_scale", m.ThresholdScale), positive("query_scale", m.QueryScale)); err != nil {
		return err
	}
	if m.MaxTrials < 0 || m.MaxTrials > mostTrials {
		return fmt.Errorf("max_trials %d: must be in [1, %d], or 0 for no cap", m.MaxTrials, mostTrials)
	}
	if m.Queries != SharedBaseline && m.Queries != Generic {
		return fmt.Errorf("queries %q: choose %s or %s", m.Queries, SharedBaseline, Generic)
	}
	return nil
}

func (m NoisyBTLS) search() btls.Search {
	return btls.Search{
		Threshold: m.ThresholdScale, Query: m.QueryScale, Trials: m.MaxTrials, Shared: m.Queries == SharedBaseline,
	}
}

func (m NoisyBTLS) bound(distance float64) (bound, error) {
	s := m.search().Scaled(distance)
	if m.Noise == BTLSLaplace {
		epsilon := s.LaplacePure()
		return bound{pure: epsilon, rdp: func(order float64) (float64, error) {
			return min(rdpPure(epsilon, order), s.LaplaceRDP(order)), nil
		}}, nil
	}
	mu, err := s.Mu()
	return bound{mu: mu, rdp: s.GaussianRDP}, err
}
