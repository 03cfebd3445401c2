package blsgd

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/internal/linesearch"
)

// Method steps along released gradients by sizes that noisy searches find.
type Method struct {
	name string
	s    Settings // as given; Complete fills in the rest

	l2      float64
	epsilon *float64
	start   float64
}

// New makes one of the methods, by name.
func New(name string, s Settings) *Method { return &Method{name: name, s: s} }

func (m *Method) Settled() dpoptim.Family { return m.s }

func (m *Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{Name: m.name, Private: true, Clip: variants[m.name].clip}
}

func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	s := m.s
	if err := s.complete(m.name, n.Layers == 1); err != nil {
		return c, dpoptim.Notes{}, err
	}
	if c.LR == nil {
		c.LR = new(sgd.DefaultRate(m.name, false, c))
		if s.Form == FormMinimum && *s.Normalise {
			c.LR = new(s.mostStart())
		}
	}
	m.s = s
	return c, dpoptim.Notes{}, m.resolve(&c)
}

// Declare is a sum of gradients and a search, in every step or in some.
func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	m.l2, m.epsilon, m.start = c.L2, c.Epsilon, *c.LR
	s := &m.s
	d := dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(c.Clip), {
		Question: map[string]dpoptim.Question{FormCurve: dpoptim.Curves, FormMinimum: dpoptim.Minima}[s.Form],
		Batch:    map[string]dpoptim.Batch{string(accountant.Shared): dpoptim.OfSum, string(accountant.PaperBatches): dpoptim.ByPapers}[s.Batches],
	}}}
	gradient, search := &d.Asks[0], &d.Asks[1]
	if search.Question == "" {
		search.Question = dpoptim.Searches
	}
	if search.Question == dpoptim.Curves {
		search.Size = *s.Points
	} else {
		search.Size = *s.Trials
	}
	if !s.adapts() {
		search.Every = *s.Every
		search.Release = m.noiseless(func(sigma float64) (dpoptim.Release, error) {
			noise, err := s.planned(sigma)
			return dpoptim.Release{Noise: noise, Bound: *s.Clip}, err
		})
		return d, nil
	}
	d.Budget = dpoptim.Adaptive
	d.Advice = "raise search.iterations, whose number first budgets are made for, or --epsilon"
	d.Unspent = "the budget was spent on searches that failed before a first step was made; a larger search.iterations divides it into more tries"
	first, gradients := m.firstBudgets(), gradient.Release
	gradient.Release = func(sigma float64) (dpoptim.Release, error) {
		if sigma == 0 {
			return gradients(0)
		}
		return m.gradientAt(first.Gradient, c.Clip), nil
	}
	search.Release = m.noiseless(func(float64) (dpoptim.Release, error) { return m.searchAt(first) })
	return d, nil
}

// noiseless is a search's release with what it is without noise.
func (m *Method) noiseless(noised func(float64) (dpoptim.Release, error)) func(float64) (dpoptim.Release, error) {
	return func(sigma float64) (dpoptim.Release, error) {
		if sigma != 0 {
			return noised(sigma)
		}
		r := dpoptim.Release{Bound: *m.s.Clip}
		if m.s.Form == FormLosses || m.s.Form == FormDifferences {
			r.Noise = accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, Queries: m.s.queries()}
		}
		return r, nil
	}
}

// firstBudgets are those of the first iteration: the run's ε over twice the
// iterations expected, for a search and, as ε²/2, for a gradient (Chen and Lee
// 2020, section 5.4).
func (m *Method) firstBudgets() linesearch.Budgets {
	epsilon := 1.0 // without noise nothing is spent
	if m.epsilon != nil {
		epsilon = *m.epsilon / (2 * float64(*m.s.Iterations))
	}
	b := linesearch.Budgets{Gradient: epsilon * epsilon / 2, Search: epsilon, Clip: 1}
	if m.s.Noise == string(accountant.BTLSGaussian) {
		b.Search = epsilon * epsilon / 2
	}
	return b
}

// multiplier is the noise multiplier of a gradient that is ρ-zCDP on its batch.
func multiplier(rho float64) float64 { return 1 / math.Sqrt(2*rho) }

// gradientAt is a gradient of a budget, with a clip norm.
func (m *Method) gradientAt(rho, clip float64) dpoptim.Release {
	return dpoptim.Release{Noise: accountant.Gaussian{NoiseMultiplier: multiplier(rho)}, Bound: clip}
}

// searchAt is the search that costs its batch a budget: ε with Laplace noise, ρ
// with Gaussian.
func (m *Method) searchAt(b linesearch.Budgets) (r dpoptim.Release, err error) {
	r.Bound = *m.s.Clip * b.Clip
	switch {
	case m.s.Form == FormMinimum:
		r.Noise = accountant.Pure{Epsilon: b.Search}
	case m.s.Noise == string(accountant.BTLSLaplace):
		r.Noise = m.s.laplace(b.Search)
	default:
		r.Noise, err = m.s.gaussian(math.Sqrt(2 * b.Search))
	}
	return r, err
}
