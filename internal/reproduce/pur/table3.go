package pur

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/reproduce"
)

var table3 = reproduce.Figure{
	Name: "pur-table3", Short: "PUR: empirical risk of noise schedules on five data sets", Source: fay + ", table 3", Seeds: 3, Most: mostSeeds,
	Plan: planTable3, Show: showTable3,
}

var (
	tableTasks    = []*task{synthetic, mnist, iris, cancer, kdd}
	tableLambdas  = []float64{0.1}
	tableEpsilons = []float64{0.1, 20}
	bounds        = []float64{0, 1} // on the norm: that of the largest row, as stated, and 1
	tableLines    = slices.Concat(schedules, constants(), []line{noisy, clipped})
)

// tasksOf leaves out what takes long of a quick figure.
func tasksOf(e *reproduce.Env, tasks []*task) []*task {
	if !e.Quick {
		return tasks
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool {
		if t.slow > 0 {
			e.Skip("%s is left out of a quick run", t.panel)
		}
		return t.slow > 0
	})
}

func planTable3(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	all, err := setups(e, tasksOf(e, tableTasks), bounds, tableLambdas)
	for _, s := range all {
		jobs = append(jobs, s.jobs(e, tableLines, tableEpsilons)...)
	}
	return jobs, err
}

func showTable3(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	all, _ := setups(e, tasksOf(e, tableTasks), bounds, tableLambdas) // has been read before
	v := viewOf(rs)
	p := reproduce.Page{How: append([]string{
		fmt.Sprintf("\"%s\" clips gradients of %d steps in place of features. Its learning rate is 1 at most, and so small that all the noise together has a length of %g: a public rule, chosen on these data.", clippedGD, gdSteps, gdNoise),
	}, how...)}
	var stated, unit []string
	published := map[string]*task{}
	var top, bottom []reproduce.Chart
	for _, s := range all {
		c, t := v.table(s.panel, tableEpsilons, s.published)
		p.Tables = append(p.Tables, t)
		if published[s.panel] = s.task; s.z == 1 {
			unit, bottom = append(unit, s.panel), append(bottom, c)
		} else {
			stated, top = append(stated, s.panel), append(top, c)
		}
	}
	p.Charts = [][]reproduce.Chart{top, bottom}
	effect := func(panel string, x float64) float64 {
		pair := published[panel].published[x]
		return pair[1] - pair[0]
	}
	p.Claims = append([]reproduce.Claim{
		printedTable(), printedNothing(),
		v.asGood(stated, tableEpsilons, "Z as stated", effect), v.asGood(unit, tableEpsilons, "Z = 1", effect),
		v.reached(stated, published), v.likeOracle(append(stated, unit...), tableEpsilons),
	}, v.ours(append(stated, unit...), tableEpsilons, tableLines)...)
	return p
}

// printedTable judges the first claim by the table that is printed.
func printedTable() reproduce.Claim {
	better, equal, worse := 0, 0, 0
	for _, t := range tableTasks {
		for _, pair := range t.published {
			switch {
			case pair[0] < pair[1]:
				better++
			case pair[0] == pair[1]:
				equal++
			default:
				worse++
			}
		}
	}
	return reproduce.Claim{
		Claim: "PUR's schedule is at least as good as the best constant noise (the paper's own table)", Verdict: reproduce.Verdict(true, worse == 0, worse > 0),
		Found: fmt.Sprintf("lower at %d, equal at %d, higher at %d of %d", better, equal, worse, better+equal+worse),
	}
}

// printedNothing compares the table that is printed with θ = 0.
func printedNothing() reproduce.Claim {
	var where []string
	for _, t := range tableTasks {
		for _, x := range tableEpsilons {
			for i, column := range []string{"PUR", "best constant"} {
				if f := t.published[x][i]; f > math.Ln2 {
					where = append(where, fmt.Sprintf("%s, %s, ε = %g: %.4f", t.panel, column, x, f))
				}
			}
		}
	}
	return reproduce.Claim{
		Claim: "ours, not the paper's: the published risks are below F = 0.6931 of θ = 0, at ε = 0 (the paper's own table)",
		Found: "above it: " + strings.Join(where, "; "), Verdict: reproduce.Verdict(true, len(where) == 0, len(where) > 0),
	}
}

// within is how far a risk may lie from the published one that it reproduces.
const within = 0.02

// reached judges whether the schedule gives the published risks. The stand-in is no such data.
func (v *view) reached(panels []string, tasks map[string]*task) reproduce.Claim {
	var off []string
	n := 0
	for _, panel := range panels {
		if tasks[panel] == kdd {
			continue
		}
		for _, x := range tableEpsilons {
			want, found := tasks[panel].published[x][0], v.Mean(panel, printed, x, reproduce.Objective)
			text := "no step"
			if n++; found.N > 0 {
				text = found.Number()
			}
			if found.N == 0 || math.Abs(found.Mean-want) > within*want+found.Half() {
				off = append(off, fmt.Sprintf("%s, ε = %g: %s, published %.4f", panel, x, text, want))
			}
		}
	}
	found := fmt.Sprintf("more than %.0f%% off at %d of %d: %s", 100*within, len(off), n, strings.Join(off, "; "))
	if len(off) == 0 {
		found = fmt.Sprintf("within %.0f%% at all %d", 100*within, n)
	}
	return reproduce.Claim{Claim: "schedule (c), with Z as stated, gives the published risks", Found: found, Verdict: reproduce.Verdict(n > 0, len(off) == 0, 2*len(off) > n)}
}
