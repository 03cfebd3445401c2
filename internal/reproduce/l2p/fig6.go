package l2p

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/reproduce"
)

var fig6 = reproduce.Figure{
	Name: "l2p-fig6", Short: "Learned protection on quadratics: loss by step, and against DP-SGD on held-out problems",
	Source: hong + ", appendix C.1, figure 6", Seeds: 100, Protector: "quadratic", Plan: planFig6, Show: showFig6,
}

var fig6Epsilons, fig6Quick = []float64{0.05, 0.1, 0.2, 0.4, 0.8, 1.6}, []float64{0.05, 0.2, 0.8}

func fig6Budgets(e *reproduce.Env) []float64 {
	if e.Quick {
		return fig6Quick
	}
	return fig6Epsilons
}

// heldLines are compared on held-out problems, each with DP-SGD.
var heldLines = []string{learnedLine, projectorLine, priorLine, tunedLine}

func planFig6(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	for _, epsilon := range fig6Budgets(e) {
		for _, s := range solvers(e) {
			jobs = append(jobs, repeated(e, s, epsilon))
			if !slices.Contains(heldLines, s.name) {
				continue
			}
			for _, f := range families {
				jobs = append(jobs, heldOut(e, f.panel, f.Quadratics, s, epsilon))
			}
		}
	}
	return jobs, nil
}

func showFig6(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	p := oneProblem(rs, solvers(e), fig6Budgets(e))
	var held []reproduce.Chart
	for _, f := range families {
		c, t, claims := heldProblems(rs, f.panel, fig6Budgets(e))
		held, p.Tables, p.Claims = append(held, c), append(p.Tables, t), append(p.Claims, claims...)
	}
	p.Charts = append(p.Charts, held)
	p.How = append(quadraticHow(e, fig6Budgets(e)),
		fmt.Sprintf("Median differences are medians of paired differences over %d problems. Their 95%% intervals lie between order statistics, so they hold for every distribution of the differences.", problems(e, quadraticHeld)),
		"From one public start, a protector can learn where solutions lie, whatever the released gradients say. That is knowledge of the problems' distribution, not better use of a budget. The solutions of these problems always lie near the origin. \"no data\" jumps from the start to the mean solution of the tuning problems, which needs no budget at all. L2P has learned from the data only where it ends below \"no data\". So the comparison is also made from random starts (standard normal). The protector is the same, and sees gradients but not its position. DP-SGD is tuned anew for random starts.",
	)
	return p
}

func budgetPanel(epsilon float64) string { return fmt.Sprintf("ε = %g", epsilon) }

// oneProblem shows the runs on the problem that all methods share.
func oneProblem(rs reproduce.Records, all []solver, budgets []float64) (p reproduce.Page) {
	ends := reproduce.Table{Title: "Loss at the end, one problem", Head: []string{"method"}}
	tuning := reproduce.Table{Title: "Settings that were chosen for this problem", Head: []string{"method"}}
	for _, s := range all {
		ends.Rows, tuning.Rows = append(ends.Rows, []string{s.name}), append(tuning.Rows, []string{s.name})
	}
	var panels []string
	var charts []reproduce.Chart
	for _, epsilon := range budgets {
		panel := budgetPanel(epsilon)
		c := reproduce.Chart{Title: panel, X: "steps", Y: "mean loss", LogY: true}
		for i, s := range all {
			runs := rs.Of(panel, s.name)
			l := reproduce.Line{Name: s.name, Dashed: s.name == noiseFreeLine}
			for _, step := range runs.Steps(panel, s.name) {
				// Of a run that has ended its last: a run's records are in order.
				at := runs.Values(reproduce.Objective, func(r *reproduce.Record) bool { return r.Step <= step })
				l.Add(float64(step), reproduce.Mean(at), 1)
			}
			c.Lines = append(c.Lines, l)
			ends.Rows[i] = append(ends.Rows[i], runs.Mean(panel, s.name, 0, reproduce.Objective).Number())
			tuning.Rows[i] = append(tuning.Rows[i], rs.Note(panel, s.name, 0))
		}
		charts, panels = append(charts, c), append(panels, panel)
	}
	ends.Head, tuning.Head = append(ends.Head, panels...), append(tuning.Head, panels...)
	p.Charts, p.Tables = reproduce.Rows(charts), []reproduce.Table{ends, tuning}

	few := max(1, len(budgets)/3)
	for _, c := range []struct {
		claim, other string
		panels       []string
	}{
		{"L2P ends with lower losses than SGD with advanced composition (one problem)", advancedLine, panels},
		{"L2P ends with lower losses than AGD (one problem)", agdLine, panels},
		{fmt.Sprintf("for small ε (here %v) scheduled noise ends with lower losses than the projector alone (one problem)", budgets[:few]), projectorLine, panels[:few]},
	} {
		count := rs.Compare(c.panels, []float64{0}, learnedLine, c.other, reproduce.Lower(reproduce.Objective))
		p.Claims = append(p.Claims, count.Claim(c.claim))
	}
	return p
}

// heldProblems compares with DP-SGD on the problems of a family that nothing was chosen by.
func heldProblems(rs reproduce.Records, panel string, budgets []float64) (c reproduce.Chart, t reproduce.Table, claims []reproduce.Claim) {
	c = reproduce.Chart{Title: panel, X: "ε", Y: "median difference of losses", Log: true}
	t = reproduce.Table{Title: "Median difference of the loss at the end, " + panel, Head: []string{"ε", "dp-sgd", "l2p", "l2p − dp-sgd", "projector alone − dp-sgd", "no data − dp-sgd", "l2p − no data", "dp-sgd's setting"}}
	others := heldLines[:3]
	for _, series := range others {
		c.Lines = append(c.Lines, reproduce.Line{Name: series})
	}
	var sgdCount, priorCount reproduce.Tally
	for _, epsilon := range budgets {
		end := func(series string) map[int]float64 { return rs.Last(panel, series, epsilon, reproduce.Objective) }
		cells := []string{fmt.Sprint(epsilon), reproduce.Mean(end(tunedLine)).Number(), reproduce.Mean(end(learnedLine)).Number()}
		for i, series := range others {
			m := reproduce.MedianDifference(end(series), end(tunedLine))
			cells = append(cells, m.String())
			c.Lines[i].AddMedian(epsilon, m)
			if i == 0 {
				sgdCount.AddMedian(m)
			}
		}
		prior := reproduce.MedianDifference(end(learnedLine), end(priorLine))
		priorCount.AddMedian(prior)
		t.Rows = append(t.Rows, append(cells, prior.String(), rs.Note(panel, tunedLine, epsilon)))
	}
	return c, t, []reproduce.Claim{
		sgdCount.Lower("ours, not the paper's: L2P ends lower than the best-tuned DP-SGD under the same accountant (" + panel + ", at every ε)"),
		priorCount.Lower("ours, not the paper's: L2P ends lower than a jump that needs no data (" + panel + ", at every ε)"),
	}
}
