package banco

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/internal/reproduce"
)

var excess = reproduce.Quantity{Name: "excess risk", Of: reproduce.Objective, Scale: 1, Text: reproduce.Estimate.Number}

// A cell is a world at one ε, with what was found in it.
type cell struct {
	rs      reproduce.Records
	panel   panel
	length  float64
	reports int
}

func (c cell) at(series string) map[int]float64 {
	return c.rs.Last(c.panel.String(), series, c.length, excess.Of)
}

func (c cell) mean(series string) float64 { return reproduce.Mean(c.at(series)).Mean }

func (c cell) behind(series string) reproduce.Cell {
	return reproduce.Cell{Panel: c.panel.String(), Series: series, X: c.length}
}

func (c cell) zero() float64 {
	return world{loss: c.panel.loss, dim: c.panel.dim, length: c.length}.excess(make([]float64, c.panel.dim))
}

// bound is theorem 2's.
func (c cell) bound() float64 {
	p, err := banco.New(c.panel.epsilon, 1, c.panel.dim)
	if err != nil {
		return math.NaN()
	}
	return p.Excess(c.length, c.reports)
}

// best is the series of the least mean.
func (c cell) best(named func(factor float64) string) (series string) {
	series = named(factors[0])
	for _, f := range factors[1:] {
		if c.mean(named(f)) < c.mean(series) {
			series = named(f)
		}
	}
	return series
}

// less counts a comparison: is BANCO's excess less than another's?
func (c cell) less(t *reproduce.Tally, other string) { c.compare(t, ours, other) }

func (c cell) compare(t *reproduce.Tally, one, other string) {
	d := reproduce.Difference(c.at(other), c.at(one))
	if t.Add(d); d.Open(0) {
		t.Open = append(t.Open, c.behind(one), c.behind(other))
	}
}

func cellsOf(e *reproduce.Env, rs reproduce.Records) (all []cell) {
	for _, p := range panels {
		for _, length := range lengths {
			if c := (cell{rs, p, length, e.Steps(reports)}); len(c.at(ours)) > 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

func show(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	cells := cellsOf(e, rs)
	p := reproduce.Page{How: how(e)}
	var rising, falling []reproduce.Chart
	for _, s := range slopes {
		if h := (hardest{rs, s, rs.Steps(s.long(), ours)}); len(h.steps) > 0 {
			p.Claims, p.Tables = append(p.Claims, h.claim()), append(p.Tables, h.table())
			rising = append(rising, h.chart())
		}
	}
	p.Claims = append(p.Claims, proportional(cells)...)
	p.Claims = append(p.Claims, within(cells), parity(cells))
	p.Claims = append(p.Claims, rivals(cells)...)
	p.Claims = append(p.Claims, sameLaw(cells)...)
	for chunk := range slices.Chunk(cells, len(lengths)) {
		p.Tables = append(p.Tables, table(chunk))
		if s := chunk[0].panel; s == panels[2] || s == panels[6] || s == panels[8] {
			falling = append(falling, byLength(chunk))
		}
	}
	p.Charts = reproduce.Rows(append(rising, falling...))
	if series := rs.Series(adult); len(series) > 0 {
		xs := rs.Xs(adult)
		_, accuracy := rs.Against(adult, series, xs, reproduce.TestAccuracy)
		_, risk := rs.Against(adult, series, xs, reproduce.TrainObjective)
		accuracy.Title, risk.Title = adult+", one pass: test accuracy, %", adult+", one pass: mean loss (at w = 0 it is ln 2 = 0.6931)"
		p.Tables = append(p.Tables, risk, accuracy)
		p.Claims = append(p.Claims, onCensus(rs, series, xs))
	}
	return p
}

// A hardest is the largest mean excess over what share of labels is flipped, by the number of reports: theorem 2
// is about the worst case, and one that is learned at once shows nothing of it.
type hardest struct {
	rs    reproduce.Records
	panel panel
	steps []int
}

func (h hardest) all() (series []string) {
	series = []string{ours}
	for _, s := range signals {
		series = append(series, noisy(s))
	}
	return series
}

// at gives the largest after a number of reports, and of what series, over the seeds but one.
func (h hardest) at(step, without int) (most reproduce.Estimate, of string) {
	for _, series := range h.all() {
		found := h.rs.At(h.panel.long(), series, step, excess.Of)
		delete(found, without)
		if m := reproduce.Mean(found); of == "" || m.Mean > most.Mean {
			most, of = m, series
		}
	}
	return most, of
}

func (h hardest) slope(without int) float64 {
	var x, y []float64
	for _, step := range h.steps {
		m, _ := h.at(step, without)
		x, y = append(x, math.Log(float64(step))), append(y, math.Log(m.Mean))
	}
	return gradient(x, y)
}

// claim judges the rate of 1/√T, by the jackknife: each seed counts by what the slope is without it.
func (h hardest) claim() reproduce.Claim {
	seeds := slices.Collect(maps.Keys(h.rs.At(h.panel.long(), noisy(signals[0]), h.steps[0], excess.Of)))
	n, all, found := float64(len(seeds)), h.slope(0), map[int]float64{}
	for _, seed := range seeds {
		found[seed] = n*all - (n-1)*h.slope(seed)
	}
	d := reproduce.Mean(found)
	apart, half := math.Abs(d.Mean+0.5), d.Half()
	c := d.Claim(fmt.Sprintf("at the hardest label noise, excess falls as 1/√T: its logarithm has a slope of −½ ± 0.1, for T from %d to %d (%s)", h.steps[0], h.steps[len(h.steps)-1], h.panel),
		d.Number(), apart+half <= 0.1, apart-half > 0.1)
	if d.Open(0.1) {
		for _, series := range h.all() {
			c.Open = append(c.Open, reproduce.Cell{Panel: h.panel.long(), Series: series})
		}
	}
	return c
}

func (h hardest) table() reproduce.Table {
	t := reproduce.Table{Title: h.panel.String() + ", ‖w*‖ = 1: excess risk by the number of reports", Head: []string{"method"}}
	for _, step := range h.steps {
		t.Head = append(t.Head, fmt.Sprint(step))
	}
	for _, series := range h.rs.Series(h.panel.long()) {
		row := []string{series}
		for _, step := range h.steps {
			row = append(row, reproduce.Mean(h.rs.At(h.panel.long(), series, step, excess.Of)).Number())
		}
		t.Rows = append(t.Rows, row)
	}
	worst, bound := []string{"largest of banco"}, []string{"theorem 2"}
	for _, step := range h.steps {
		m, _ := h.at(step, 0)
		worst = append(worst, fmt.Sprintf("%.4g", m.Mean))
		bound = append(bound, fmt.Sprintf("%.4g", cell{panel: h.panel, length: 1, reports: step}.bound()))
	}
	t.Rows = append(t.Rows, worst, bound)
	return t
}

func (h hardest) chart() reproduce.Chart {
	c := reproduce.Chart{Title: h.panel.String() + ", ‖w*‖ = 1", X: "reports", Y: excess.Name, Log: true, LogY: true}
	line := func(name string, of func(step int) reproduce.Estimate) {
		l := reproduce.Line{Name: name}
		for _, step := range h.steps {
			l.Add(float64(step), of(step), 1)
		}
		c.Lines = append(c.Lines, l)
	}
	for _, l := range append(slices.Clone(betting), tuned) {
		line(l.series, func(step int) reproduce.Estimate {
			return reproduce.Mean(h.rs.At(h.panel.long(), l.series, step, excess.Of))
		})
	}
	line("banco, hardest label noise", func(step int) reproduce.Estimate { m, _ := h.at(step, 0); return m })
	line("theorem 2", func(step int) reproduce.Estimate {
		return reproduce.Estimate{Mean: cell{panel: h.panel, length: 1, reports: step}.bound(), N: 2}
	})
	c.Lines[len(c.Lines)-1].Dashed = true
	return c
}

// gradient is that of the line of least squares.
func gradient(x, y []float64) float64 {
	mx, my, xy, xx := 0.0, 0.0, 0.0, 0.0
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(x))
	}
	for i := range x {
		xy, xx = xy+(x[i]-mx)*(y[i]-my), xx+(x[i]-mx)*(x[i]-mx)
	}
	return xy / xx
}

// proportional judges the dependence on ‖w*‖, between the two largest.
func proportional(cells []cell) (claims []reproduce.Claim) {
	for chunk := range slices.Chunk(cells, len(lengths)) {
		small, large := chunk[len(chunk)-2], chunk[len(chunk)-1]
		if small.panel.dim != 5 {
			continue
		}
		found := map[int]float64{}
		for seed, x := range small.at(ours) {
			if y, ok := large.at(ours)[seed]; ok {
				found[seed] = math.Log10(y / x)
			}
		}
		d := reproduce.Mean(found)
		apart, how := d.Mean-1, "at most linearly in ‖w*‖, from %g to %g: by a power of 1.1 or less (%s)"
		if small.panel.loss == absolute { // a logistic loss bends
			apart, how = math.Abs(apart), "linearly in ‖w*‖, from %g to %g: by a power of 1 ± 0.1 (%s)"
		}
		h := d.Half()
		c := d.Claim(fmt.Sprintf("excess grows "+how, small.length, large.length, small.panel), d.Number(), apart+h <= 0.1, apart-h > 0.1)
		if d.Open(0.1) {
			c.Open = []reproduce.Cell{small.behind(ours), large.behind(ours)}
		}
		claims = append(claims, c)
	}
	return claims
}

// within judges theorem 2, with its constants.
func within(cells []cell) reproduce.Claim {
	most, above, inside := 0.0, 0, 0
	for _, c := range cells {
		m := reproduce.Mean(c.at(ours))
		lower, upper := m.Bounds()
		if upper <= c.bound() {
			inside++
		}
		if lower > c.bound() {
			above++
		}
		most = max(most, m.Mean/c.bound())
	}
	return reproduce.Claim{
		Claim: "excess over w* is within theorem 2, with its constants", Found: fmt.Sprintf("at %d of %d, by 95%% bounds; at most %.2g of the bound", inside, len(cells), most),
		Verdict: reproduce.Verdict(len(cells) > 0, inside == len(cells), above > 0),
	}
}

// parity judges "as good as SGD that was tuned, up to logarithms", of which there is one here.
func parity(cells []cell) reproduce.Claim {
	least, most, above, below := math.Inf(1), 0.0, 0, 0
	var open []reproduce.Cell
	for _, c := range cells {
		rate, log := c.best(rated), math.Log(float64(c.reports))
		d := map[int]float64{}
		for seed, x := range c.at(ours) {
			if y, ok := c.at(rate)[seed]; ok {
				d[seed] = x - log*y
			}
		}
		m := reproduce.Mean(d)
		switch h := m.Half(); {
		case m.Mean+h < 0:
			below++
		case m.Mean-h > 0:
			above++
		default:
			open = append(open, c.behind(ours), c.behind(rate))
		}
		ratio := c.mean(ours) / c.mean(rate)
		least, most = min(least, ratio), max(most, ratio)
	}
	return reproduce.Claim{
		Claim:   "excess is that of SGD at the best rate, up to a factor of ln T (the factor is ours)",
		Found:   fmt.Sprintf("%.3g to %.3g times as large; clearly within ln T at %d of %d, clearly beyond at %d", least, most, below, len(cells), above),
		Verdict: reproduce.Verdict(len(cells) > 0, below == len(cells), above > 0), Open: open,
	}
}

// rivals judges BANCO against what needs a rate, and against doing nothing.
func rivals(cells []cell) (claims []reproduce.Claim) {
	for _, f := range factors {
		if f == 1 {
			continue
		}
		var t reproduce.Tally
		for _, c := range cells {
			c.less(&t, rated(f))
		}
		claims = append(claims, t.Claim(fmt.Sprintf("BANCO has a lower excess than SGD at %g times the oracle's rate, in most cases", f)))
	}
	var tuning, nothing, ball, sigma reproduce.Tally
	var ratios []string
	for _, c := range cells {
		c.less(&tuning, c.best(split))
		c.compare(&ball, onBall, ours)
		c.less(&sigma, printed)
		gained := map[int]float64{}
		for seed, x := range c.at(ours) {
			gained[seed] = c.zero() - x
		}
		d := reproduce.Mean(gained)
		if nothing.Add(d); d.Open(0) {
			nothing.Open = append(nothing.Open, c.behind(ours))
		}
		if c.length == 1 && c.panel.loss == absolute && c.panel.epsilon == 2 {
			ratios = append(ratios, fmt.Sprintf("÷%.3g at d = %d", c.mean(ours)/c.mean(onBall), c.panel.dim))
		}
	}
	sphere := ball.Claim("ours, not the paper's: reports on a sphere have a lower excess than the paper's noise, in most cases")
	sphere.Found += "; " + strings.Join(ratios, ", ")
	return append(claims,
		tuning.Claim(fmt.Sprintf("BANCO has a lower excess than SGD that divides ε among %d rates, the best of them chosen in hindsight, in most cases", len(factors))),
		nothing.Claim("BANCO has a lower excess than w = 0, in most cases (our question)"),
		sigma.Claim("ours, not the paper's: the variance along the direction gives a lower excess than the paper's, in most cases"),
		sphere,
	)
}

// sameLaw compares fast noise with the clients'.
func sameLaw(cells []cell) (claims []reproduce.Claim) {
	for _, c := range cells {
		if d := reproduce.Difference(c.at(byExact), c.at(ours)); d.N > 0 {
			near, apart, h := c.mean(ours)/4, math.Abs(d.Mean), d.Half()
			claim := d.Claim("noise in integers, as clients draw it, gives the same excess as fast noise, within a quarter of it", d.Number()+" apart, of "+reproduce.Mean(c.at(ours)).Number(), apart+h < near, apart-h > near)
			if d.Open(near) {
				claim.Open = []reproduce.Cell{c.behind(ours), c.behind(byExact)}
			}
			claims = append(claims, claim)
		}
	}
	return claims
}

// onCensus judges one pass over a table.
func onCensus(rs reproduce.Records, series []string, xs []float64) reproduce.Claim {
	var t reproduce.Tally
	for _, s := range series {
		for _, x := range xs {
			gained := map[int]float64{}
			for seed, f := range rs.Last(adult, s, x, excess.Of) {
				gained[seed] = math.Ln2 - f
			}
			d := reproduce.Mean(gained)
			if t.Add(d); d.Open(0) {
				t.Open = append(t.Open, reproduce.Cell{Panel: adult, Series: s, X: x})
			}
		}
	}
	return t.Claim("on Adult, one pass has a lower loss than w = 0, in most cases (our question)")
}

func table(cells []cell) reproduce.Table {
	h := reproduce.Table{Title: cells[0].panel.String() + ": excess risk", Head: []string{"method"}}
	row := func(name string, of func(c cell) string) {
		texts := []string{name}
		for _, c := range cells {
			texts = append(texts, of(c))
		}
		h.Rows = append(h.Rows, texts)
	}
	for _, c := range cells {
		h.Head = append(h.Head, fmt.Sprintf("‖w*‖ = %g", c.length))
	}
	for _, series := range cells[0].rs.Series(cells[0].panel.String()) {
		row(series, func(c cell) string { return reproduce.Mean(c.at(series)).Number() })
	}
	row(atZero, func(c cell) string { return fmt.Sprintf("%.4g", c.zero()) })
	row("theorem 2", func(c cell) string { return fmt.Sprintf("%.4g", c.bound()) })
	return h
}

func byLength(cells []cell) reproduce.Chart {
	s := cells[0].panel
	c := reproduce.Chart{Title: s.String(), X: "‖w*‖", Y: excess.Name, Log: true, LogY: true}
	for _, series := range cells[0].rs.Series(s.String()) {
		if series == byExact || strings.HasPrefix(series, "sgd, ε/") {
			continue
		}
		c.Lines = append(c.Lines, cells[0].rs.Line(s.String(), series, lengths, excess))
	}
	nothing := reproduce.Line{Name: atZero, Dashed: true}
	for _, each := range cells {
		nothing.Add(each.length, reproduce.Estimate{Mean: each.zero(), N: 2}, 1)
	}
	c.Lines = append(c.Lines, nothing)
	return c
}

func how(e *reproduce.Env) []string {
	return []string{
		"The paper has no experiment. This one puts its statements to the test.",
		"Records are drawn anew: x is uniform on the unit sphere of d dimensions. Absolute loss is |⟨w, x⟩ − ⟨w*, x⟩|. Logistic loss has labels that follow w*. The excess risk is F(w) − F(w*), an integral that is computed, so that no test set adds noise to it.",
		fmt.Sprintf("Tables have %d reports, one of each record, and the average of all points. ε is that of a report, and is local. \"Theorem 2\" is its bound with constants, as `privgrad schedule banco` prints it.", e.Steps(reports)),
		"Theorem 2 is about the worst case. Without label noise, absolute loss has a sharp minimum, and all methods reach it faster than 1/√T. So the rate is judged where it is hardest to learn: a share of the labels is that of −w*. Near ½ there is little to learn and little to lose, and \"the hardest\" is the largest mean over nine shares, at each number of reports. Its interval is by the jackknife over seeds.",
		"SGD has the same reports, plain steps, and the average of all points. The oracle's rate is ‖w*‖/√(T·E‖ĝ‖²), which nobody knows beforehand; by the number of reports, T is a million.",
		fmt.Sprintf("\"sgd, ε/%d\" is what tuning costs: every record reports once for each of %[1]d rates, so that a report has a share of ε. The best rate is chosen in hindsight, and that choice costs nothing here.", len(factors)),
		"\"banco\" has the variance along the direction, σ₁D², in its bets; the paper prints a larger one. \"hemisphere\" has reports on a sphere (Duchi, Jordan and Wainwright 2018) in the place of the paper's noise.",
		"Noise is drawn fast, in floating point and from ordinary pseudo-random numbers, so that a million reports take seconds. One line has the noise that clients draw, in integers. A test compares the two laws.",
	}
}
