package reproduce

import (
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/train"
)

// chenLee is the paper of figures 1 to 5.
const chenLee = "Chen and Lee 2020, Stochastic adaptive line search for differentially private optimization"

const delta = 1e-8 // section 5.4, of all experiments

// The two accountings of a figure's private runs.
const (
	paperAccounting = "paper" // the paper's own arithmetic, which is no guarantee
	ownAccounting   = "ours"  // a batch of its own for every search, priced by the program's accountants
)

func ptr[T any](v T) *T { return &v }

// byAccounting says in words which one it was.
var byAccounting = map[string]string{paperAccounting: "by the paper's accounting", ownAccounting: "by ours"}

// linear is a run of section 5.4 on a linear model. The paper does not say where
// its searches start, nor how many candidates they try at most: 2 and 20 here.
func (e *env) linear(optimizer, model, accounting string, epsilon float64) train.Config {
	c := train.Default()
	c.Optimizer, c.Model, c.L2 = optimizer, model, 1e-3
	c.EvalEvery = 1 << 30 // at the end
	switch optimizer {
	case "majority":
		c.Model, c.L2, c.Epsilon = "", 0, &epsilon
		return c
	case "lbfgs":
		return c
	}
	c.Epsilon, c.Delta, c.Clip = &epsilon, ptr(delta), 3
	if accounting == paperAccounting {
		c.Accountant = accountant.Paper
	}
	switch optimizer {
	case "dp-agd":
		c.Accountant = train.Default().Accountant
		c.Search = &train.Search{Batches: string(accountant.Fresh)}
		if accounting == paperAccounting {
			c.Search.Batches = string(accountant.PaperBatches)
		}
		c.LR, c.Steps = ptr(linearStart), ptr(e.steps(mostSteps))
	case "dp-blsgd", "dp-blsgd-ac", "dp-blgd":
		batches := string(accountant.Fresh)
		if accounting == paperAccounting {
			batches = string(accountant.PaperBatches)
		}
		c.Accountant = train.Default().Accountant // it follows from the batches
		c.Search = &train.Search{Batches: batches, Noise: string(accountant.BTLSLaplace)}
		c.LR, c.Steps = ptr(linearStart), ptr(e.steps(mostSteps))
		if optimizer != "dp-blgd" {
			c.SamplingRate = ptr(0.1)
		}
	case "dp-sgd":
		c.SamplingRate, c.Steps, c.LR = ptr(0.1), ptr(min(sgdSteps, e.steps(mostSteps))), ptr(sgdRate)
	}
	return c
}

const (
	linearStart = 2.0
	mostSteps   = 10_000 // of a run that its budget ends
	sgdSteps    = 100
	sgdRate     = 0.5
)

var linearHow = []string{
	"Section 5.4: q = 0.1, C_grad = 3, C_obj = 1, α = 0.5, β = 0.8, τ = 10, ς = 1.2, φ_max = 1.1, φ_min = 0.5, ψ = 0.8, ξ = 0.3, ζ = 0.05 with adaptive clipping, L2 0.001, δ = 1e-8; first budgets ε/(2·50); Laplace noise.",
	fmt.Sprintf("The paper does not say where a search starts (η₀ = %g here) nor its largest number of candidates (20 here), nor the settings of DP-SGD: q = 0.1, %d steps of size %g here.", linearStart, sgdSteps, sgdRate),
	"\"paper\": gradient and search on one batch, each amplified by itself, theorem 2 and proposition 1, which is NOT a guarantee (docs/linesearch-privacy.md). \"ours\": a batch of its own for every search, priced by this program's accountants.",
	"Tables in ten folds: seed s holds out fold s. One-hot categories, numbers scaled from public bounds to [0, 1] (docs/tabular.md); dimensions are near the paper's, not equal.",
}

var fig1 = Figure{
	Name: "fig1", Short: "Effect of the line search's settings on logistic regression", Source: chenLee + ", figure 1", seeds: 10,
	plan: planFig1, show: showFig1,
}

// A variation changes one setting of dp-blsgd.
type variation struct {
	panel  string
	values []string
	set    func(c *train.Config, i int)
}

func variations() []variation {
	numbers := func(panel string, values []float64, set func(*train.Config, float64)) variation {
		v := variation{panel: panel, set: func(c *train.Config, i int) { set(c, values[i]) }}
		for _, x := range values {
			v.values = append(v.values, fmt.Sprint(x))
		}
		return v
	}
	names := func(panel string, values []string, set func(*train.Config, string)) variation {
		return variation{panel, values, func(c *train.Config, i int) { set(c, values[i]) }}
	}
	return []variation{
		numbers("α", []float64{0.1, 0.3, 0.5, 0.7, 0.9}, func(c *train.Config, x float64) { c.Search.Alpha = &x }),
		numbers("β", []float64{0.5, 0.6, 0.7, 0.8, 0.9}, func(c *train.Config, x float64) { c.Search.Beta = &x }),
		names("noise", []string{"laplace", "gaussian"}, func(c *train.Config, s string) { c.Search.Noise = s }),
		numbers("q", []float64{0.01, 0.05, 0.1, 0.5, 1}, func(c *train.Config, x float64) { c.SamplingRate = &x }),
		names("budget", []string{"never", "always", "adaptive"}, func(c *train.Config, s string) { c.Search.Budget = s }),
		numbers("ζ", []float64{0, 0.05, 0.1, 0.2, 0.3}, func(c *train.Config, x float64) { c.Search.Shrink = &x }),
	}
}

func fig1Series(epsilon float64, accounting string) string {
	return fmt.Sprintf("ε = %g, %s", epsilon, accounting)
}

var fig1Epsilons = []float64{0.2, 0.05}

func planFig1(e *env) (jobs []job, err error) {
	for _, v := range variations() {
		for _, accounting := range []string{paperAccounting, ownAccounting} {
			for _, epsilon := range fig1Epsilons {
				for i, value := range v.values {
					if e.Quick && len(v.values) > 3 && i%2 == 1 {
						continue
					}
					for seed := 1; seed <= e.Seeds; seed++ {
						j := job{config: e.linear("dp-blsgd", "logistic", accounting, epsilon)}
						j.Seed, j.config.Seed = seed, uint64(seed)
						if !adult.open(e, &j.config, &j.Record) {
							return nil, nil
						}
						j.Panel, j.Series, j.Setting, j.X = v.panel, fig1Series(epsilon, accounting), value, float64(i)
						v.set(&j.config, i)
						jobs = append(jobs, j)
					}
				}
			}
		}
	}
	return jobs, nil
}

func showFig1(e *env, t table) page {
	var p page
	var row []chart
	for _, panel := range t.panels() {
		c := chart{title: panel, y: "test accuracy, %"}
		for _, v := range variations() {
			if v.panel == panel {
				c.names = v.values
			}
		}
		h := heading{Title: "Test accuracy, %, by " + panel, Head: []string{"series"}}
		xs := t.xs(panel)
		for _, x := range xs {
			h.Head = append(h.Head, t.setting(panel, x))
		}
		for _, series := range t.series(panel) {
			l, cells := line{name: series}, []string{series}
			for _, x := range xs {
				m := mean(t.last(panel, series, x, accuracy))
				l.add(x, m, 100)
				cells = append(cells, t.shown(panel, series, x, accuracy, estimate.percent))
			}
			c.lines, h.Rows = append(c.lines, l), append(h.Rows, cells)
		}
		p.tables = append(p.tables, h)
		if row = append(row, c); len(row) == 3 {
			p.charts, row = append(p.charts, row), nil
		}
	}
	if row != nil {
		p.charts = append(p.charts, row)
	}
	p.how = linearHow
	p.claims = append(p.claims, room(fig1Epsilons))
	for _, accounting := range []string{paperAccounting, ownAccounting} {
		high, low := fig1Series(0.2, accounting), fig1Series(0.05, accounting)
		for _, panel := range []string{"α", "β"} {
			p.claims = append(p.claims, t.flat(panel, high, accounting))
		}
		p.claims = append(p.claims,
			t.best("α", low, "0.5", accounting), t.best("β", low, "0.8", accounting),
			t.better("Laplace noise is slightly better than Gaussian", "noise", "laplace", "gaussian", high, low, accounting),
			t.flat("q", high, accounting),
			t.better("at ε = 0.05 a small sampling rate hurts: 0.1 is better than 0.01", "q", "0.1", "0.01", low, low, accounting),
			t.better("budgets that adapt by the angle are better than budgets that never grow", "budget", "adaptive", "never", high, low, accounting),
			t.better("and than budgets that always grow", "budget", "adaptive", "always", high, low, accounting),
			t.better("shrinking clip bounds (ζ = 0.05) help at ε = 0.05", "ζ", "0.05", "0", low, low, accounting),
			t.better("and do not help at ε = 0.2 (ζ = 0 is no worse)", "ζ", "0", "0.05", high, high, accounting),
		)
	}
	return p
}

// byName gives final accuracies at a named setting.
func (t table) byName(panel, series, setting string) map[int]float64 {
	for _, x := range t.xs(panel) {
		if t.setting(panel, x) == setting {
			return t.last(panel, series, x, accuracy)
		}
	}
	return nil
}

// flatWithin is how far means may lie apart where the paper calls a method robust:
// the words are its, the figure ours.
const flatWithin = 0.02

func (t table) flat(panel, series, accounting string) Claim {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range t.xs(panel) {
		if m := mean(t.last(panel, series, x, accuracy)); m.n > 0 {
			low, high = min(low, m.mean), max(high, m.mean)
		}
	}
	c := Claim{Claim: fmt.Sprintf("at ε = 0.2 accuracy hardly depends on %s (%s)", panel, byAccounting[accounting]), Verdict: unmeasured, Found: "no figures"}
	if low <= high {
		c.Found, c.Verdict = fmt.Sprintf("means from %.2f to %.2f %%", 100*low, 100*high), agrees
		if high-low > flatWithin {
			c.Verdict = contradicts
		}
	}
	return c
}

// best judges "this setting is the best": contradicted where another is clearly
// better, agreed to where it has the largest mean.
func (t table) best(panel, series, setting, accounting string) Claim {
	c := Claim{Claim: fmt.Sprintf("at ε = 0.05 the best %s is %s (%s)", panel, setting, byAccounting[accounting]), Verdict: unmeasured, Found: "no figures"}
	mine := t.byName(panel, series, setting)
	top, name, beaten := math.Inf(-1), "", false
	for _, x := range t.xs(panel) {
		other := t.last(panel, series, x, accuracy)
		if m := mean(other); m.n > 0 && m.mean > top {
			top, name = m.mean, t.setting(panel, x)
		}
		if d := difference(other, mine); d.n > 0 && d.mean-d.half() > 0 {
			beaten = true
		}
	}
	if len(mine) == 0 || name == "" {
		return c
	}
	c.Found, c.Verdict = fmt.Sprintf("%s has %.2f %%, the best is %s with %.2f %%", setting, 100*mean(mine).mean, name, 100*top), undecided
	switch {
	case beaten:
		c.Verdict = contradicts
	case name == setting:
		c.Verdict = agrees
	}
	return c
}

// better compares two settings in one or two series.
func (t table) better(claim, panel, a, b, series, also, accounting string) Claim {
	var count tally
	found := []string{}
	all := []string{series}
	if also != series {
		all = append(all, also)
	}
	for _, s := range all {
		d := difference(t.byName(panel, s, a), t.byName(panel, s, b))
		count.add(d)
		if d.n > 0 {
			found = append(found, fmt.Sprintf("%s points at %s", points(d), strings.TrimSuffix(s, ", "+accounting)))
		}
	}
	verdict := count.mostly()
	if count.above > 0 && count.below == 0 {
		verdict = agrees
	}
	if count.below > 0 && count.above == 0 {
		verdict = contradicts
	}
	return Claim{claim + " (" + byAccounting[accounting] + ")", strings.Join(found, "; "), verdict}
}

// points writes a difference of accuracies.
func points(d estimate) string {
	if math.IsInf(d.half(), 0) {
		return fmt.Sprintf("%+.2f", 100*d.mean)
	}
	return fmt.Sprintf("%+.2f ± %.2f", 100*d.mean, 100*d.half())
}

// mostReleases is how many releases of batches at rate q the paper's arithmetic
// pays for at most, were each of noise alone: proposition 1 over the orders 2 to 500
// of section 4.3, and lemma 4, whose factor 3 charges 1/(α−1)·ln(1 + 2·P(X ≥ 3)), X
// binomial of α and q, where nothing is released.
func mostReleases(epsilon, q float64) float64 {
	most := 0.0
	for a := 2.0; a <= 500; a++ {
		left := epsilon - math.Log(1/delta)/(a-1)
		few := math.Pow(1-q, a-1)*(a*q-q+1) + a*(a-1)/2*q*q*math.Pow(1-q, a-2)
		if least := math.Log(1+2*(1-few)) / (a - 1); left > 0 {
			most = max(most, left/least)
		}
	}
	return most
}

// room judges section 5.4's expectation against the paper's own arithmetic.
func room(budgets []float64) Claim {
	c := Claim{Claim: "about 50 iterations, of a gradient and a search at least, are to be expected (section 5.4, q = 0.1)", Verdict: agrees}
	var found []string
	for _, epsilon := range budgets {
		n := math.Floor(mostReleases(epsilon, 0.1))
		found = append(found, fmt.Sprintf("%.0f at ε = %g", n, epsilon))
		if n < 100 {
			c.Verdict = contradicts
		}
	}
	c.Found = "proposition 1 and lemma 4, with the orders 2 to 500 that section 4.3 gives as an example, pay for at most so many releases, however noisy: " + strings.Join(found, ", ")
	return c
}

var fig2 = Figure{
	Name: "fig2", Short: "Gradients and objectives that a run asks for, by sampling rate", Source: chenLee + ", figure 2", seeds: 10,
	plan: planFig2, show: showFig2,
}

func planFig2(e *env) (jobs []job, err error) {
	for _, accounting := range []string{paperAccounting, ownAccounting} {
		for i, q := range []float64{0.01, 0.05, 0.1, 0.5, 1} {
			for seed := 1; seed <= e.Seeds; seed++ {
				if e.Quick && i%2 == 1 {
					continue
				}
				j := job{config: e.linear("dp-blsgd", "logistic", accounting, 0.4)}
				j.Seed, j.config.Seed = seed, uint64(seed)
				if !adult.open(e, &j.config, &j.Record) {
					return nil, nil
				}
				j.config.SamplingRate = ptr(q)
				j.Series, j.Setting, j.X = byAccounting[accounting], fmt.Sprint(q), q
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, nil
}

func showFig2(e *env, t table) page {
	count := func(n func(*Record) *float64, records bool) metric {
		return func(r *Record) *float64 {
			x := n(r)
			if x == nil || !records {
				return x
			}
			return ptr(*x * r.Batch)
		}
	}
	gradients := func(r *Record) *float64 { return r.Gradients }
	objectives := func(r *Record) *float64 { return r.Objectives }
	var p page
	var rows [2][]chart
	h := heading{Title: "Evaluations a run, at ε = 0.4", Head: []string{"series", "q", "steps", "gradients", "objectives", "records' gradients", "records' objectives", "test accuracy, %"}}
	for k, w := range []struct {
		name string
		of   metric
	}{{"gradients", gradients}, {"objectives", objectives}} {
		for _, records := range []bool{false, true} {
			c := chart{title: w.name + " of batches", x: "q", log: true, y: w.name}
			if records {
				c.title, c.y = w.name+" of records, thousands", "thousands"
			}
			for _, series := range t.series(adult.panel) {
				l := line{name: series}
				for _, x := range t.xs(adult.panel) {
					scale := 1.0
					if records {
						scale = 1e-3
					}
					l.add(x, mean(t.last(adult.panel, series, x, count(w.of, records))), scale)
				}
				c.lines = append(c.lines, l)
			}
			rows[k] = append(rows[k], c)
		}
	}
	for _, series := range t.series(adult.panel) {
		for _, x := range t.xs(adult.panel) {
			cells := []string{series, t.setting(adult.panel, x)}
			for _, m := range []metric{func(r *Record) *float64 { return ptr(float64(r.Step)) }, gradients, objectives, count(gradients, true), count(objectives, true)} {
				cells = append(cells, mean(t.last(adult.panel, series, x, m)).number())
			}
			cells = append(cells, mean(t.last(adult.panel, series, x, accuracy)).percent())
			h.Rows = append(h.Rows, cells)
		}
		var fewer tally
		for _, m := range []metric{count(gradients, true), count(objectives, true)} {
			fewer.add(difference(t.last(adult.panel, series, 1, m), t.last(adult.panel, series, 0.1, m)))
		}
		p.claims = append(p.claims, Claim{"drawing batches (q = 0.1) takes far fewer evaluations than full batches, counted in records (" + series + ")", fewer.String(), fewer.mostly()})
		d := difference(t.last(adult.panel, series, 0.1, accuracy), t.last(adult.panel, series, 1, accuracy))
		c := Claim{"with about the same accuracy (" + series + ")", "no figures", unmeasured}
		if d.n > 0 {
			c.Found, c.Verdict = points(d)+" points at q = 0.1 against q = 1", undecided
			if math.Abs(d.mean)+d.half() < flatWithin {
				c.Verdict = agrees
			} else if math.Abs(d.mean)-d.half() > flatWithin {
				c.Verdict = contradicts
			}
		}
		p.claims = append(p.claims, c)
	}
	p.charts, p.tables, p.how = rows[:], []heading{h}, append([]string{"A search asks for the loss at its base and at its candidates, one after the other; what is counted is what it asks for."}, linearHow...)
	return p
}

// figure34 is the figure of a linear model.
func figure34(name, model, title string) Figure {
	return Figure{
		Name: name, Short: title + ": accuracy and objective against ε", Source: chenLee + ", figure " + name[3:], seeds: 10,
		plan: func(e *env) ([]job, error) { return planConvex(e, model) },
		show: func(e *env, t table) page { return showConvex(e, t, model) },
	}
}

var (
	fig3 = figure34("fig3", "logistic", "Logistic regression")
	fig4 = figure34("fig4", "svm", "Linear SVM")
)

// A method is a line of figures 3 and 4.
type method struct {
	optimizer   string
	accountings []string
	once        bool // no ε
}

var methods = []method{
	{"dp-blsgd", []string{paperAccounting, ownAccounting}, false},
	{"dp-blsgd-ac", []string{paperAccounting, ownAccounting}, false},
	{"dp-blgd", []string{paperAccounting, ownAccounting}, false},
	{"dp-agd", []string{ownAccounting}, false},
	{"dp-sgd", []string{paperAccounting, ownAccounting}, false},
	{"majority", []string{ownAccounting}, false},
	{"lbfgs", []string{ownAccounting}, true},
}

// lineName is how a method is called in a figure.
func (m method) lineName(accounting string) string {
	switch {
	case m.once:
		return "non-private (" + m.optimizer + ")"
	case len(m.accountings) == 1:
		return m.optimizer
	}
	return m.optimizer + ", " + accounting
}

// epsilons of figures 3 and 4.
var epsilons = []float64{0.025, 0.05, 0.1, 0.2, 0.4, 0.8}

func planConvex(e *env, model string) (jobs []job, _ error) {
	sets, budgets := []benchmark{adult, bank, ipumsBR, ipumsUS}, epsilons
	if e.Quick {
		sets, budgets = sets[:2], evenly(epsilons, 3)
		e.skip("the synthetic stand-ins for IPUMS are left out of a quick run where there are others")
	}
	plan := func(sets []benchmark) {
		for _, m := range methods {
			for _, set := range sets {
				for _, accounting := range m.accountings {
					at := budgets
					if m.once {
						at = budgets[:1]
					}
					for _, epsilon := range at {
						x := epsilon
						if m.once {
							x = 0
						}
						for seed := 1; seed <= e.Seeds; seed++ {
							own := model
							if own == "svm" && (m.optimizer == "lbfgs" || m.optimizer == "dp-agd") {
								own = "huber-svm" // section 5.3: what needs a smooth loss
							}
							j := job{config: e.linear(m.optimizer, own, accounting, epsilon)}
							j.Seed, j.config.Seed = seed, uint64(seed)
							if !set.open(e, &j.config, &j.Record) {
								continue
							}
							j.Series, j.X = m.lineName(accounting), x
							jobs = append(jobs, j)
						}
					}
				}
			}
		}
	}
	plan(sets)
	if len(jobs) == 0 {
		plan([]benchmark{ipumsBR}) // needs no file
	}
	return jobs, nil
}

func showConvex(e *env, t table, model string) page {
	var p page
	var top, bottom []chart
	budgets := func(panel string) (xs []float64) {
		for _, x := range t.xs(panel) {
			if x > 0 {
				xs = append(xs, x)
			}
		}
		return xs
	}
	for _, panel := range t.panels() {
		xs := budgets(panel)
		upper := chart{title: panel, x: "ε", y: "test accuracy, %", log: true}
		lower := chart{title: panel, x: "ε", y: "objective (training data)", log: true}
		ha := heading{Title: panel + ": test accuracy, %", Head: []string{"method"}}
		ho := heading{Title: panel + ": objective on the training data", Head: []string{"method"}}
		for _, x := range xs {
			ha.Head, ho.Head = append(ha.Head, fmt.Sprintf("ε = %g", x)), append(ho.Head, fmt.Sprintf("ε = %g", x))
		}
		for _, series := range t.series(panel) {
			flat := len(t.last(panel, series, 0, accuracy)) > 0
			la, lo := line{name: series, flat: flat}, line{name: series, flat: flat}
			la.dashed = strings.HasSuffix(series, ", "+paperAccounting)
			lo.dashed = la.dashed
			ra, ro := []string{series}, []string{series}
			for _, x := range xs {
				at := x
				if flat {
					at = 0
				}
				a, o := mean(t.last(panel, series, at, accuracy)), mean(t.last(panel, series, at, objective))
				ra, ro = append(ra, t.shown(panel, series, at, accuracy, estimate.percent)), append(ro, t.shown(panel, series, at, objective, estimate.number))
				if !flat || len(la.x) == 0 {
					la.add(x, a, 100)
					lo.add(x, o, 1)
				}
			}
			if series == "majority" {
				lo = line{} // a constant that was never fitted
			} else {
				ho.Rows = append(ho.Rows, ro)
			}
			upper.lines, lower.lines, ha.Rows = append(upper.lines, la), append(lower.lines, lo), append(ha.Rows, ra)
		}
		lower.lines = kept(lower.lines)
		top, bottom = append(top, upper), append(bottom, lower)
		p.tables = append(p.tables, ha, ho)
	}
	p.charts = [][]chart{top, bottom}
	within := func(most float64, claim, a, b string, m metric, sign float64) {
		for _, accounting := range []string{paperAccounting, ownAccounting} {
			var count tally
			for _, panel := range t.panels() {
				for _, x := range budgets(panel) {
					if x > most {
						continue
					}
					d := difference(t.last(panel, lineOf(a, accounting), x, m), t.last(panel, lineOf(b, accounting), x, m))
					d.mean *= sign
					count.add(d)
				}
			}
			p.claims = append(p.claims, Claim{claim + " (" + byAccounting[accounting] + ")", count.String(), count.mostly()})
		}
	}
	compare := func(claim, a, b string, m metric, sign float64) { within(math.Inf(1), claim, a, b, m, sign) }
	compare("DP-BLSGD classifies better than DP-SGD in most cases", "dp-blsgd", "dp-sgd", accuracy, 1)
	compare("and reaches lower objectives", "dp-blsgd", "dp-sgd", objective, -1)
	compare("DP-BLGD classifies better than DP-AGD: Armijo's rule beats NoisyMin", "dp-blgd", "dp-agd", accuracy, 1)
	compare("DP-BLSGD classifies better than DP-AGD", "dp-blsgd", "dp-agd", accuracy, 1)
	within(0.2, "and so at small budgets, ε ≤ 0.2", "dp-blsgd", "dp-agd", accuracy, 1)
	compare("adaptive clip bounds (DP-BLSGD-AC) help slightly on some data", "dp-blsgd-ac", "dp-blsgd", accuracy, 1)
	compare("DP-BLSGD is better than always saying the larger class", "dp-blsgd", "majority", accuracy, 1)
	p.claims = append(p.claims, room(budgets(t.panels()[0])))
	p.how = append([]string{"Output and objective perturbation and PrivGene are not rerun."}, linearHow...)
	if model == "svm" {
		p.how = append(p.how, "The hinge loss, or Huber's smoothed one (h = 0.5) for L-BFGS and DP-AGD; their objectives are of that loss and are not comparable with the others'.")
	}
	return p
}

// lineOf is the name of a method's line under an accounting.
func lineOf(optimizer, accounting string) string {
	for _, m := range methods {
		if m.optimizer == optimizer {
			return m.lineName(accounting)
		}
	}
	return optimizer
}

// kept drops lines without a name.
func kept(lines []line) (some []line) {
	for _, l := range lines {
		if l.name != "" {
			some = append(some, l)
		}
	}
	return some
}
