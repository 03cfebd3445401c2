package accountant

import (
	"fmt"
	"math"
	"slices"
)

// Neighbouring names the relation under which a guarantee is stated.
type Neighbouring string

// The neighbouring relations.
const (
	AddRemove  Neighbouring = "add-remove"
	ReplaceOne Neighbouring = "replace-one"
)

func (n Neighbouring) validate() error {
	if n != AddRemove && n != ReplaceOne {
		return fmt.Errorf("neighbouring %q is unknown: use %q or %q", string(n), AddRemove, ReplaceOne)
	}
	return nil
}

// Sampling says which records a mechanism was asked about.
type Sampling int

// The kinds of sampling.
const (
	FullData  Sampling = iota // every record
	Poisson                   // each record independently with the event's rate
	FixedSize                 // a uniform subset holding the event's rate of the records
)

func (s Sampling) String() string {
	switch s {
	case Poisson:
		return "Poisson sampling"
	case FixedSize:
		return "fixed-size sampling"
	default:
		return "no sampling"
	}
}

// Mechanism is one noisy query. The implementations are comparable values:
// Gaussian and NoisyBTLS.
type Mechanism interface {
	// Name is the mechanism's name in an events file.
	Name() string
	validate() error
}

// Gaussian adds N(0, (NoiseMultiplier·C)²) to every coordinate of a sum whose
// per-record contribution has L2 norm at most C. A multiplier of 0 is valid and
// means no privacy.
type Gaussian struct {
	NoiseMultiplier float64
}

// Name implements Mechanism.
func (Gaussian) Name() string { return "gaussian" }

func (g Gaussian) validate() error {
	if !finite(g.NoiseMultiplier) || g.NoiseMultiplier < 0 {
		return fmt.Errorf("noise_multiplier is %v: it must be finite and at least 0", g.NoiseMultiplier)
	}
	return nil
}

// Noise is the distribution of a NoisyBTLS mechanism's noise.
type Noise string

// The noise distributions.
const (
	GaussianNoise Noise = "gaussian"
	LaplaceNoise  Noise = "laplace"
)

// Queries says what is known about the queries of a NoisyBTLS mechanism.
type Queries string

// The kinds of queries.
const (
	// GenericQueries move independently of one another, each by at most the
	// per-record bound in either direction.
	GenericQueries Queries = "generic"
	// SharedBaseline queries are candidate losses minus one common loss, so one
	// record moves all of them inside a single interval as wide as the bound.
	SharedBaseline Queries = "shared-baseline"
)

// NoisyBTLS is the sparse-vector line search: the index of the first candidate
// whose noisy query passes a noisy threshold. Scales are in units of the bound
// on one record's clipped loss.
type NoisyBTLS struct {
	Noise          Noise
	ThresholdScale float64
	QueryScale     float64
	MaxTrials      int // candidates tried at most; optional (0) for Laplace noise
	Queries        Queries
}

// Name implements Mechanism.
func (b NoisyBTLS) Name() string { return "noisy-btls-" + string(b.Noise) }

func (b NoisyBTLS) validate() error {
	if b.Noise != GaussianNoise && b.Noise != LaplaceNoise {
		return fmt.Errorf("noise %q is unknown: use %q or %q", string(b.Noise), GaussianNoise, LaplaceNoise)
	}
	if !finite(b.ThresholdScale) || b.ThresholdScale <= 0 {
		return fmt.Errorf("threshold_scale is %v: it must be finite and above 0", b.ThresholdScale)
	}
	if !finite(b.QueryScale) || b.QueryScale <= 0 {
		return fmt.Errorf("query_scale is %v: it must be finite and above 0", b.QueryScale)
	}
	if b.MaxTrials < 0 || b.MaxTrials == 0 && b.Noise == GaussianNoise {
		return fmt.Errorf("max_trials is %d: it must be at least 1", b.MaxTrials)
	}
	if b.Queries != GenericQueries && b.Queries != SharedBaseline {
		return fmt.Errorf("queries %q is unknown: use %q or %q", string(b.Queries), SharedBaseline, GenericQueries)
	}
	return nil
}

// Event is what one or several identical accesses to the private data cost. It
// is immutable and, except for its zero value, valid.
type Event struct {
	sampling     Sampling
	rate         float64
	mechanisms   []Mechanism
	count        int
	neighbouring Neighbouring
}

// OnFullData returns the event of asking m of all records, count times.
func OnFullData(count int, m Mechanism) (Event, error) {
	return newEvent(FullData, 1, count, []Mechanism{m})
}

// OnPoissonBatch returns the event of drawing a Poisson batch at rate in (0, 1]
// and asking all the mechanisms of it, count times over.
func OnPoissonBatch(rate float64, count int, mechanisms ...Mechanism) (Event, error) {
	return newEvent(Poisson, rate, count, mechanisms)
}

// OnFixedSizeBatch returns the event of drawing a uniform subset that holds the
// fraction rate of the records and asking all the mechanisms of it, count times
// over.
func OnFixedSizeBatch(rate float64, count int, mechanisms ...Mechanism) (Event, error) {
	return newEvent(FixedSize, rate, count, mechanisms)
}

func newEvent(s Sampling, rate float64, count int, mechanisms []Mechanism) (Event, error) {
	if !(rate > 0 && rate <= 1) {
		return Event{}, fmt.Errorf("sampling rate is %v: it must be above 0 and at most 1", rate)
	}
	if count < 1 {
		return Event{}, fmt.Errorf("count is %d: it must be at least 1", count)
	}
	if len(mechanisms) == 0 {
		return Event{}, fmt.Errorf("a batch needs at least one mechanism")
	}
	for i, m := range mechanisms {
		if m == nil {
			return Event{}, fmt.Errorf("mechanism %d is nil", i+1)
		}
		if err := m.validate(); err != nil {
			return Event{}, fmt.Errorf("mechanism %d (%s): %w", i+1, m.Name(), err)
		}
	}
	return Event{sampling: s, rate: rate, mechanisms: slices.Clone(mechanisms), count: count}, nil
}

// WithCount returns the same event, happening count times.
func (e Event) WithCount(count int) (Event, error) {
	if count < 1 {
		return Event{}, fmt.Errorf("count is %d: it must be at least 1", count)
	}
	e.count = count
	return e, nil
}

// WithNeighbouring returns the same event, bound to one neighbouring relation.
func (e Event) WithNeighbouring(n Neighbouring) (Event, error) {
	if err := n.validate(); err != nil {
		return Event{}, err
	}
	e.neighbouring = n
	return e, nil
}

// Sampling says how the event's batch is drawn.
func (e Event) Sampling() Sampling { return e.sampling }

// Rate is the sampling rate, 1 on full data.
func (e Event) Rate() float64 { return e.rate }

// Mechanisms returns a copy of what is asked of the one batch.
func (e Event) Mechanisms() []Mechanism { return slices.Clone(e.mechanisms) }

// Count is how many times the event happens, each time on a fresh batch.
func (e Event) Count() int { return e.count }

// Neighbouring is the relation the event is bound to, empty if it is not.
func (e Event) Neighbouring() Neighbouring { return e.neighbouring }

// Equal reports whether both events cost the same for the same reason.
func (e Event) Equal(o Event) bool {
	return e.sampling == o.sampling && e.rate == o.rate && e.count == o.count &&
		e.neighbouring == o.neighbouring && slices.Equal(e.mechanisms, o.mechanisms)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
