package meta

// A multiplier has the two figures of an augmented Lagrangian for one constraint h = 0
// (appendix B.2).
type multiplier struct{ Z, Mu float64 }

func (m multiplier) value(h float64) float64 { return -m.Z*h + h*h/(2*m.Mu) }
func (m multiplier) slope(h float64) float64 { return -m.Z + h/m.Mu }

// update is steps 3 and 4, by what the descents before spent, so that nothing is
// unrolled for it. μ does not fall below least.
func (m *multiplier) update(h, shrink, least float64) {
	m.Z -= h / m.Mu
	m.Mu = max(m.Mu*shrink, min(m.Mu, least))
}

// Budgets are those of the blocks of a trajectory (appendix B.5).
type budgets struct {
	Block []multiplier // z_b, μ_b
	Share []float64    // r_b
	Total multiplier   // z_r, μ_r
}

func newBudgets(blocks int, mu float64) *budgets {
	b := &budgets{Total: multiplier{Mu: mu}}
	for range blocks {
		b.Block = append(b.Block, multiplier{Mu: mu})
		b.Share = append(b.Share, 1/float64(blocks))
	}
	return b
}

// update is the second pass's: given what the blocks spent, it updates the multipliers
// and minimises L(r) = Σ(ρ̂_b − r_b)²/(2μ_b) − z_r·h_r + h_r²/(2μ_r), with ρ̂_b = ρ_b − z_b·μ_b
// and h_r = Σr_b − 1. Where its derivative vanishes r_b = ρ̂_b + μ_b·(z_r − h_r/μ_r), and
// the sum of that gives h_r.
func (b *budgets) update(spent []float64, shrink, least float64) {
	m, h := 0.0, -1.0
	for i, s := range spent {
		b.Block[i].update(s-b.Share[i], shrink, least)
		b.Share[i] = s - b.Block[i].Z*b.Block[i].Mu
		m += b.Block[i].Mu
		h += b.Share[i]
	}
	h = (h + m*b.Total.Z) / (1 + m/b.Total.Mu)
	for i := range b.Share {
		b.Share[i] -= b.Block[i].Mu * b.Total.slope(h)
	}
	b.Total.update(h, shrink, least)
}
