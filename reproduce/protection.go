package reproduce

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/usage"
)

// hong is the paper of the figures of learned protection.
const hong = "Hong et al. 2021, Learning to protect (L2P)"

// A protection is the protector of a figure.
type protection struct {
	*l2p.Protector
	digest string
}

func findProtection(given, own string) (*protection, error) {
	if given == "" {
		given = own
	}
	p, err := l2p.Find(given)
	if err != nil {
		var u *usage.Error
		if errors.As(err, &u) {
			return nil, err
		}
		return nil, usage.Errorf("%w; another is chosen by --protector", err)
	}
	return newProtection(p), nil
}

func newProtection(p *l2p.Protector) *protection {
	h := sha256.Sum256(fmt.Appendf(nil, "%+v %v %v", p.Card, p.Projector, p.Scheduler))
	return &protection{p, hex.EncodeToString(h[:8])}
}

// unscheduled is the same projector with the same noise in every step.
func (p *protection) unscheduled() *protection {
	q := *p.Protector
	q.Card.Scheduler, q.Scheduler = l2p.Part{Kind: l2p.Constant}, nil
	return newProtection(&q)
}

// descent is gradient descent as a protector.
func descent(rate float64) *l2p.Protector {
	return &l2p.Protector{Card: l2p.Card{
		Projector: l2p.Part{Kind: l2p.Identity}, Scheduler: l2p.Part{Kind: l2p.Constant}, Scale: rate,
	}}
}

// how says what the protector is, and at which ε it is a stranger.
func (p *protection) how(epsilons []float64) []string {
	c := &p.Card
	lines := []string{fmt.Sprintf("Protector `%s` (digest %s): %s; trained for ε from %g to %g at δ = %g under %s, %d steps, by `%s`.",
		c.Name, p.digest, c.Summary, c.EpsilonRange[0], c.EpsilonRange[1], c.Delta, c.Neighbouring, c.Steps, c.Recipe)}
	for _, e := range epsilons {
		if e < c.EpsilonRange[0] || e > c.EpsilonRange[1] {
			lines = append(lines, fmt.Sprintf("ε = %g is outside the range that it was trained for.", e))
		}
	}
	if !p.Adapts() {
		lines = append(lines, "It has no scheduler: with it and with its projector alone, the noise is the same in every step.")
	}
	return lines
}

// The lines of these figures.
const (
	learnedLine   = "l2p"
	projectorLine = "l2p, projector alone"
	tunedLine     = "dp-sgd, tuned"
	agdLine       = "dp-agd"
)

// l2pEpsilons are the budgets of figure 6.
var l2pEpsilons, l2pQuick = []float64{0.05, 0.1, 0.2, 0.4, 0.8, 1.6}, []float64{0.05, 0.2, 0.8}

// spending is what these figures' runs are priced by, so that a fixed noise is not
// priced better than one that is scheduled.
const spending = accountant.RDP
