// Package l2p has the figures of Hong et al. 2021, whose method is L2P: learned
// protection.
package l2p

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/l2p/memory"
)

const hong = "Hong et al. 2021, Learning to protect (L2P)"

// Figures lists those of the paper.
func Figures() []reproduce.Figure {
	return []reproduce.Figure{fig3, fig4, fig6, fig7, fig8, images, mnist35, memory.Table(hong)}
}

const (
	learnedLine   = "l2p"
	projectorLine = "l2p, projector alone"
	tunedLine     = "dp-sgd, tuned"
	agdLine       = "dp-agd"
	objpertLine   = "objpert"
	outpertLine   = "outpert-gd"
	advancedLine  = "sgd, advanced composition"
	noiseFreeLine = "descent without noise"
	priorLine     = "no data: the law's mean solution"
)

// spending is what these figures' runs are priced by, so that a fixed noise is not
// priced better than one that is scheduled.
const spending = accountant.RDP

// unscheduled is the same projector with the same noise in every step.
func unscheduled(p *reproduce.Protection) *reproduce.Protection {
	q := *p.Protector
	q.Card.Scheduler, q.Scheduler = l2p.Part{Kind: l2p.Constant}, nil
	return reproduce.NewProtection(&q)
}

// howLearned says what the protector is, and at which ε it is a stranger.
func howLearned(p *reproduce.Protection, epsilons []float64) []string {
	c := &p.Card
	lines := []string{fmt.Sprintf("The protector is `%s` (digest %s): %s. It was trained for ε from %g to %g at δ = %g under %s, with %d steps, by `%s`.",
		c.Name, p.Digest, c.Summary, c.EpsilonRange[0], c.EpsilonRange[1], c.Delta, c.Neighbouring, c.Steps, c.Recipe)}
	for _, e := range epsilons {
		if e < c.EpsilonRange[0] || e > c.EpsilonRange[1] {
			lines = append(lines, fmt.Sprintf("ε = %g is outside the range that the protector was trained for.", e))
		}
	}
	if !p.Adapts() {
		lines = append(lines, "The protector has no scheduler: the noise is the same in every step, with it and with its projector alone.")
	}
	return lines
}
