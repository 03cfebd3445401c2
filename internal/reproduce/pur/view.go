package pur

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/reproduce"
)

// A view is what a figure shows: its records, and the best constants of them as a line.
type view struct {
	reproduce.Records
	chosen map[reproduce.Cell]string // the constant behind best
}

// viewOf chooses, in hindsight, the constant of the least mean risk in every panel at every ε.
func viewOf(rs reproduce.Records) *view {
	v := &view{rs, map[reproduce.Cell]string{}}
	for _, panel := range rs.Panels() {
		for _, x := range rs.Xs(panel) {
			least := math.Inf(1)
			cell := reproduce.Cell{Panel: panel, Series: best, X: x}
			for _, s := range sigmas {
				if m := rs.Mean(panel, constant(s), x, reproduce.Objective); m.N > 0 && m.Mean < least {
					least, v.chosen[cell] = m.Mean, constant(s)
				}
			}
		}
	}
	for _, r := range rs {
		if r.Series == v.chosen[reproduce.Cell{Panel: r.Panel, Series: best, X: r.X}] {
			r.Setting, r.Series = r.Series, best
			v.Records = append(v.Records, r)
		}
	}
	return v
}

// at gives a line's final risks by seed. θ = 0 has ln 2 for each of the other line's.
func (v *view) at(panel, series, other string, x float64) map[int]float64 {
	if series != zero {
		return v.Last(panel, series, x, reproduce.Objective)
	}
	values := map[int]float64{}
	for seed := range v.Last(panel, other, x, reproduce.Objective) {
		values[seed] = math.Ln2
	}
	return values
}

// near is how much of what there is to gain a difference may be that counts as none. The paper says
// "as good" and "about the same"; the figure is ours.
const near = 0.05

// gain is what there is to gain on a panel: from θ = 0 to the least mean risk of any line.
func (v *view) gain(panel string) float64 {
	least := math.Inf(1)
	for _, series := range v.Series(panel) {
		for _, x := range v.Xs(panel) {
			if m := v.Mean(panel, series, x, reproduce.Objective); m.N > 0 {
				least = min(least, m.Mean)
			}
		}
	}
	return math.Ln2 - least
}

// A tally counts comparisons. Of those that are about equal, the interval is within what counts
// as no difference.
type tally struct {
	above, below, equal, total int
	open                       []reproduce.Cell
}

// compare counts, over panels and budgets, where line a has less risk than line b. effect is what
// the paper states of a comparison; nil: nothing.
func (v *view) compare(panels []string, xs []float64, a, b string, effect func(panel string, x float64) float64) (t tally) {
	for _, panel := range panels {
		none := near * v.gain(panel)
		for _, x := range xs {
			d, claimed := reproduce.Difference(v.at(panel, b, a, x), v.at(panel, a, b, x)), 0.0
			if effect != nil {
				claimed = effect(panel, x)
			}
			if d.N == 0 {
				continue
			}
			t.total++
			low, high := d.Mean-d.Half(), d.Mean+d.Half()
			switch {
			case low > -none && high < none:
				t.equal++
				continue
			case low > 0:
				t.above++
			case high < 0:
				t.below++
			}
			if d.Open(claimed) || low <= 0 && high >= 0 {
				t.open = append(t.open, v.behind(panel, a, x), v.behind(panel, b, x))
			}
		}
	}
	return t
}

func (t tally) plus(u tally) tally {
	return tally{t.above + u.above, t.below + u.below, t.equal + u.equal, t.total + u.total, append(t.open, u.open...)}
}

func (t tally) claim(claim string, shown, refuted bool) reproduce.Claim {
	c := reproduce.Claim{Claim: claim, Found: "no comparison", Verdict: reproduce.Verdict(t.total > 0, shown, refuted), Open: t.open}
	if t.total > 0 {
		c.Found = fmt.Sprintf("better at %d, about equal at %d, worse at %d, undecided at %d of %d", t.above, t.equal, t.below, t.total-t.above-t.equal-t.below, t.total)
	}
	return c
}

// most judges "better, in most cases".
func (t tally) most(claim string) reproduce.Claim {
	return t.claim(claim+", in most cases", 2*t.above > t.total, 2*(t.below+t.equal) >= t.total)
}

// behind is the cell of the runs that a line shows.
func (v *view) behind(panel, series string, x float64) reproduce.Cell {
	cell := reproduce.Cell{Panel: panel, Series: series, X: x}
	if s, ok := v.chosen[cell]; ok {
		cell.Series = s
	}
	return cell
}

// unpaid says where a budget pays for no step of a line.
func (v *view) unpaid(panels []string, xs []float64, series string) (where []string) {
	for _, panel := range panels {
		for _, x := range xs {
			if slices.ContainsFunc(v.Records, func(r reproduce.Record) bool {
				return r.Panel == panel && r.Series == series && r.X == x && r.Note != ""
			}) {
				where = append(where, fmt.Sprintf("%s at ε = %g", panel, x))
			}
		}
	}
	return where
}

// asGood judges "at least as good as the best constant".
func (v *view) asGood(panels []string, xs []float64, what string, effect func(panel string, x float64) float64) reproduce.Claim {
	t := v.compare(panels, xs, printed, best, effect)
	c := t.claim("PUR's schedule is at least as good as the best constant noise, chosen in hindsight ("+what+")", t.above+t.equal == t.total, t.below > 0)
	if none := v.unpaid(panels, xs, printed); none != nil {
		c.Found += "; the budget pays for no step of PUR: " + strings.Join(none, ", ")
	}
	return c
}

// likeOracle judges "as good as with the gradient's norm for nothing".
func (v *view) likeOracle(panels []string, xs []float64) reproduce.Claim {
	t := v.compare(panels, xs, printed, oracle, nil)
	return t.claim("the schedule that reads no data comes near the one that reads the gradient's norm", t.above+t.equal == t.total, 2*t.below > t.total)
}

// ours are claims of this program's own.
func (v *view) ours(panels []string, xs []float64, has []line) (claims []reproduce.Claim) {
	for _, c := range []struct{ claim, a, b string }{
		{"PUR as printed is better than doing nothing, θ = 0", printed, zero},
		{"ours, not the paper's: exact accounting lowers the risk of PUR", exactly, printed},
		{"ours, not the paper's: k = 2 lowers it further", balanced, exactly},
		{"ours, not the paper's: full-batch gradient descent with the same noise in every step (`noisy-gd`) is better than PUR, both under exact accounting", noisyGD, exactly},
		{"ours, not the paper's: with clipped gradients in place of clipped features, it is better still", clippedGD, noisyGD},
		{"ours, not the paper's: it is then better than θ = 0", clippedGD, zero},
	} {
		if slices.ContainsFunc(has, func(l line) bool { return l.series == c.a }) {
			claims = append(claims, v.compare(panels, xs, c.a, c.b, nil).most(c.claim))
		}
	}
	return claims
}

// risk is F.
var risk = reproduce.Quantity{Name: "risk F", Of: reproduce.Objective, Scale: 1, Text: reproduce.Estimate.Number}

// table shows a panel's risks by ε, the published ones first.
func (v *view) table(panel string, xs []float64, published map[float64][2]float64) (reproduce.Chart, reproduce.Table) {
	series := slices.DeleteFunc(v.Series(panel), func(s string) bool { return strings.HasPrefix(s, "constant ") })
	c, t := v.Against(panel, series, xs, risk)
	c.Title, t.Title = panel, panel
	for i, s := range series {
		if s == best {
			for k, x := range xs {
				if chosen := v.chosen[reproduce.Cell{Panel: panel, Series: best, X: x}]; chosen != "" {
					t.Rows[i][k+1] += " (" + strings.TrimPrefix(chosen, "constant ") + ")"
				} else {
					t.Rows[i][k+1] = "no step"
				}
			}
		}
	}
	nothing := reproduce.Line{Name: zero, X: []float64{xs[0]}, Y: []float64{math.Ln2}, Low: []float64{math.Ln2}, High: []float64{math.Ln2}, Flat: true}
	c.Lines = append(c.Lines, nothing)
	row := []string{zero}
	for range xs {
		row = append(row, fmt.Sprintf("%.4g", math.Ln2))
	}
	t.Rows = append(t.Rows, row)
	for i, name := range []string{"published: PUR", "published: best constant"} {
		row := []string{name}
		for _, x := range xs {
			if p, ok := published[x]; ok {
				row = append(row, fmt.Sprintf("%.4f", p[i]))
			}
		}
		if len(row) == len(xs)+1 {
			t.Rows = slices.Insert(t.Rows, i, row)
		}
	}
	return c, t
}
