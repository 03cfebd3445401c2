package blsgd

import (
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

var fig1 = reproduce.Figure{
	Name: "fig1", Short: "Effect of the line search's settings on logistic regression", Source: chenLee + ", figure 1", Seeds: 10, Most: mostSeeds,
	Plan: planFig1, Show: showFig1,
}

// A variation changes one setting of dp-blsgd.
type variation struct {
	panel  string
	values []string
	set    func(c *train.Config, i int)
}

func numbers(panel string, values []float64, set func(*train.Config, float64)) variation {
	v := variation{panel: panel, set: func(c *train.Config, i int) { set(c, values[i]) }}
	for _, x := range values {
		v.values = append(v.values, fmt.Sprint(x))
	}
	return v
}

func names(panel string, values []string, set func(*train.Config, string)) variation {
	return variation{panel, values, func(c *train.Config, i int) { set(c, values[i]) }}
}

var samplingRates = numbers("q", []float64{0.01, 0.05, 0.1, 0.5, 1}, func(c *train.Config, x float64) { c.SamplingRate = &x })

var variations = []variation{
	numbers("α", []float64{0.1, 0.3, 0.5, 0.7, 0.9}, func(c *train.Config, x float64) { c.Search.Alpha = &x }),
	numbers("β", []float64{0.5, 0.6, 0.7, 0.8, 0.9}, func(c *train.Config, x float64) { c.Search.Beta = &x }),
	names("noise", []string{"laplace", "gaussian"}, func(c *train.Config, s string) { c.Search.Noise = s }),
	samplingRates,
	names("budget", []string{"never", "always", "adaptive"}, func(c *train.Config, s string) { c.Search.Budget = s }),
	numbers("ζ", []float64{0, 0.05, 0.1, 0.2, 0.3}, func(c *train.Config, x float64) { c.Search.Shrink = &x }),
}

// runs are those of all values on Adult; none where that is not there.
func (v variation) runs(e *reproduce.Env, accounting string, epsilon float64) (jobs []reproduce.Job) {
	for i, value := range v.values {
		if e.Quick && len(v.values) > 3 && i%2 == 1 {
			continue
		}
		for seed := 1; seed <= e.Seeds; seed++ {
			j := reproduce.Job{Config: linear(e, "dp-blsgd", "logistic", accounting, epsilon)}
			j.Seed, j.Config.Seed = seed, uint64(seed)
			if !adult.open(e, &j.Config, &j.Record) {
				return nil
			}
			j.Panel, j.Setting, j.X = v.panel, value, float64(i)
			v.set(&j.Config, i)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func fig1Series(epsilon float64, accounting string) string {
	return fmt.Sprintf("ε = %g, %s", epsilon, accounting)
}

var fig1Epsilons = []float64{0.2, 0.05}

func planFig1(e *reproduce.Env) (jobs []reproduce.Job, err error) {
	for _, v := range variations {
		for _, accounting := range []string{paperAccounting, ownAccounting} {
			for _, epsilon := range fig1Epsilons {
				for _, j := range v.runs(e, accounting, epsilon) {
					j.Series = fig1Series(epsilon, accounting)
					jobs = append(jobs, j)
				}
			}
		}
	}
	return jobs, nil
}

func showFig1(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	var p reproduce.Page
	var charts []reproduce.Chart
	for _, panel := range rs.Panels() {
		xs := rs.Xs(panel)
		c, h := rs.Against(panel, rs.Series(panel), xs, reproduce.TestAccuracy)
		c.X, c.Log = "", false
		for _, v := range variations {
			if v.panel == panel {
				c.Names = v.values
			}
		}
		h.Title, h.Head = "Test accuracy, %, by "+panel, []string{"series"}
		for _, x := range xs {
			h.Head = append(h.Head, rs.Setting(panel, x))
		}
		charts, p.Tables = append(charts, c), append(p.Tables, h)
	}
	p.Charts = reproduce.Rows(charts)
	p.How = linearHow
	p.Claims = append(p.Claims, room(fig1Epsilons))
	for _, accounting := range []string{paperAccounting, ownAccounting} {
		high, low := fig1Series(0.2, accounting), fig1Series(0.05, accounting)
		for _, panel := range []string{"α", "β"} {
			p.Claims = append(p.Claims, flat(rs, panel, high, accounting))
		}
		p.Claims = append(p.Claims,
			best(rs, "α", low, "0.5", accounting), best(rs, "β", low, "0.8", accounting),
			better(rs, "Laplace noise is slightly better than Gaussian", "noise", "laplace", "gaussian", high, low, accounting),
			flat(rs, "q", high, accounting),
			better(rs, "at ε = 0.05 a small sampling rate hurts: 0.1 is better than 0.01", "q", "0.1", "0.01", low, low, accounting),
			better(rs, "budgets that adapt by the angle are better than budgets that never grow", "budget", "adaptive", "never", high, low, accounting),
			better(rs, "budgets that adapt by the angle are better than budgets that always grow", "budget", "adaptive", "always", high, low, accounting),
			better(rs, "shrinking clip bounds (ζ = 0.05) help at ε = 0.05", "ζ", "0.05", "0", low, low, accounting),
			better(rs, "shrinking clip bounds do not help at ε = 0.2 (ζ = 0 is no worse)", "ζ", "0", "0.05", high, high, accounting),
		)
	}
	return p
}

// named gives the cell of a named setting, and its final accuracies.
func named(rs reproduce.Records, panel, series, setting string) (cell reproduce.Cell, accuracy map[int]float64) {
	for _, x := range rs.Xs(panel) {
		if rs.Setting(panel, x) == setting {
			return reproduce.Cell{Panel: panel, Series: series, X: x}, rs.Last(panel, series, x, reproduce.Accuracy)
		}
	}
	return cell, nil
}

// flat judges "the setting hardly matters".
func flat(rs reproduce.Records, panel, series, accounting string) reproduce.Claim {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range rs.Xs(panel) {
		if m := rs.Mean(panel, series, x, reproduce.Accuracy); m.N > 0 {
			low, high = min(low, m.Mean), max(high, m.Mean)
		}
	}
	found := "no figures"
	if low <= high {
		found = fmt.Sprintf("means from %.2f to %.2f%%", 100*low, 100*high)
	}
	return reproduce.Claim{
		Claim: fmt.Sprintf("at ε = 0.2 accuracy hardly depends on %s: means lie within %g points (%s)", panel, 100*flatWithin, byAccounting[accounting]),
		Found: found, Verdict: reproduce.Verdict(low <= high, high-low <= flatWithin, true),
	}
}

// best judges "this setting is the best": contradicted where another is clearly
// better, agreed to where it has the largest mean.
func best(rs reproduce.Records, panel, series, setting, accounting string) reproduce.Claim {
	cell, mine := named(rs, panel, series, setting)
	top, name, beaten := math.Inf(-1), "", false
	var open []reproduce.Cell
	for _, x := range rs.Xs(panel) {
		other := rs.Last(panel, series, x, reproduce.Accuracy)
		if m := reproduce.Mean(other); m.N > 0 && m.Mean > top {
			top, name = m.Mean, rs.Setting(panel, x)
		}
		if x == cell.X {
			continue
		}
		d := reproduce.Difference(other, mine)
		beaten = beaten || d.N > 0 && d.Mean-d.Half() > 0
		if d.Open(0) {
			open = append(open, cell, reproduce.Cell{Panel: panel, Series: series, X: x})
		}
	}
	found, measured := "no figures", len(mine) > 0 && name != ""
	if measured {
		found = fmt.Sprintf("%s has %.2f%%, the best is %s with %.2f%%", setting, 100*reproduce.Mean(mine).Mean, name, 100*top)
	}
	return reproduce.Claim{
		Claim: fmt.Sprintf("at ε = 0.05 the best %s is %s (%s)", panel, setting, byAccounting[accounting]),
		Found: found, Verdict: reproduce.Verdict(measured, name == setting && !beaten, beaten), Open: open,
	}
}

// better compares two settings in one or two series.
func better(rs reproduce.Records, claim, panel, a, b, series, also, accounting string) reproduce.Claim {
	var count reproduce.Tally
	found := []string{}
	all := []string{series}
	if also != series {
		all = append(all, also)
	}
	for _, s := range all {
		one, accuracy := named(rs, panel, s, a)
		other, than := named(rs, panel, s, b)
		d := reproduce.Difference(accuracy, than)
		if count.Add(d); d.Open(0) {
			count.Open = append(count.Open, one, other)
		}
		if d.N > 0 {
			found = append(found, fmt.Sprintf("%s points at %s", d.Points(), strings.TrimSuffix(s, ", "+accounting)))
		}
	}
	return reproduce.Claim{
		Claim: claim + " (" + byAccounting[accounting] + ")", Found: strings.Join(found, "; "),
		Verdict: reproduce.Verdict(count.Total > 0, count.Above > count.Below, count.Below > count.Above), Open: count.Open,
	}
}
