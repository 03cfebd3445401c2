package l2p

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/reproduce"
)

// A statement is a claim about two lines; those of the paper are about accuracy or the objective.
type statement struct {
	words, a, b string
	of          reproduce.Metric
	least       float64 // ε
}

// searched is how many losses a search of dp-agd asks for: those of 20 steps, and of none.
const searched = 21

// asked is how often a run asked the data: a gradient is one query, and so is a search.
func asked(r *reproduce.Record) *float64 {
	n := float64(r.Step)
	if r.Gradients != nil && r.Objectives != nil {
		n = *r.Gradients + *r.Objectives/searched
	}
	return &n
}

var queries = reproduce.Quantity{Name: "times that the data are asked", Of: asked, Scale: 1, Text: func(e reproduce.Estimate) string {
	if e.N > 0 && e.Half() < 0.5 { // most methods ask as often in every run
		return fmt.Sprintf("%.0f", e.Mean)
	}
	return e.Number()
}}

// lines are a comparison's, in the order of the tables.
func (k *comparison) lines() (all []string) {
	for _, p := range k.pupils {
		all = append(all, p.name)
	}
	return append(append(all, tunedLine), k.others...)
}

// shown is a target's part of the page; under the accuracies stands how far dp-sgd is off, and what it was given.
func (k *comparison) shown(e *reproduce.Env, rs reproduce.Records, panel string) (charts [2]reproduce.Chart, tables []reproduce.Table) {
	budgets, lines := k.budgets(e), k.lines()
	var accuracy, objective reproduce.Table
	charts[0], accuracy = rs.Against(panel, lines, budgets, reproduce.TestAccuracy)
	charts[1], objective = rs.Against(panel, lines, budgets, reproduce.TrainObjective)
	accuracy.Title, objective.Title = panel+": test accuracy, %", panel+": objective on the training data"
	row := func(head string, cell func(epsilon float64) string) {
		cells := []string{head}
		for _, epsilon := range budgets {
			cells = append(cells, cell(epsilon))
		}
		accuracy.Rows = append(accuracy.Rows, cells)
	}
	for _, p := range k.pupils {
		row(p.name+" − dp-sgd, points", func(epsilon float64) string {
			if d := rs.Difference(panel, p.name, tunedLine, epsilon, reproduce.Accuracy); d.N > 0 {
				return d.Points()
			}
			return "–"
		})
	}
	for _, line := range k.tunedLines() {
		row("setting of "+line, func(epsilon float64) string {
			if s, ok := tuned(e, rs, panel, line, epsilon); ok {
				return s.String()
			}
			return "–"
		})
	}
	asking := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == objpertLine || line == outpertLine })
	_, counts := rs.Against(panel, asking, budgets, queries)
	counts.Title = panel + ": " + queries.Name
	return charts, []reproduce.Table{accuracy, objective, counts}
}

func (k *comparison) show(e *reproduce.Env, rs reproduce.Records, statements []statement) reproduce.Page {
	p := reproduce.Page{Charts: make([][]reproduce.Chart, 2)}
	budgets := k.budgets(e)
	var panels []string
	for _, t := range k.targets(e) {
		panel := t.panel()
		if !slices.Contains(rs.Panels(), panel) {
			continue
		}
		panels = append(panels, panel)
		charts, tables := k.shown(e, rs, panel)
		p.Charts[0], p.Charts[1] = append(p.Charts[0], charts[0]), append(p.Charts[1], charts[1])
		p.Tables = append(p.Tables, tables...)
	}
	for _, s := range statements {
		xs := slices.DeleteFunc(slices.Clone(budgets), func(x float64) bool { return x < s.least })
		p.Claims = append(p.Claims, rs.Compare(panels, xs, s.a, s.b, s.of).Claim(s.words))
	}
	p.How = append(k.how(e), k.howOthers(e)...)
	return p
}

func (k *comparison) how(e *reproduce.Env) []string {
	steps, rates, seeds := tuning(e)
	model := "`" + k.model + "`"
	if k.activation != "" {
		model += " with " + k.activation + " activations"
	}
	return []string{
		fmt.Sprintf("The model is %s, with L2 %g and δ = %g, under add-remove. Batches of L2P and DP-SGD have an expected size of %d, by Poisson sampling, and C = %d. Their privacy cost comes from Rényi divergences. A run of L2P ends when its protector says so, or when its budget is spent.", model, k.l2, pairsDelta, pairsBatch, pairsClip),
		fmt.Sprintf("DP-SGD has the best number of steps T of %v and the best learning rate of %v, by mean test accuracy on the same data at the same ε. Each tuning run has the noise for its T. These runs have %d seeds of their own. The data are declared public, so the choice cost no budget. This favors DP-SGD, since no protector is tuned to the data.", steps, rates, len(seeds)),
	}
}

// howOthers says what the other methods are.
func (k *comparison) howOthers(e *reproduce.Env) (how []string) {
	if slices.Contains(k.others, advancedLine) {
		how = append(how, fmt.Sprintf("SGD with advanced composition (the paper's SGD-Adv) is tuned alike, over T up to %d. Its noise is that of 2014: classical Gaussian noise, amplification by sampling, and the advanced composition theorem. The paper's SGD-MA is DP-SGD with Rényi divergences.", mostAdvanced))
	}
	smooth := ""
	if k.model == "svm" {
		smooth = " They need a smooth loss, so they have Huber's smoothed hinge (h = 0.5). Their objectives are of that loss."
	}
	if slices.Contains(k.others, agdLine) {
		how = append(how, "DP-AGD, OutPert and ObjPert, where they are shown, have their defaults (docs/reference/optimizers.md), but for DP-AGD's C = 3. None is tuned."+smooth)
		how = append(how, fmt.Sprintf("A step of L2P asks the data once, for a gradient. DP-AGD asks for gradients, and once for each search, which compares %d losses.", searched))
	}
	if k.table {
		how = append(how, "IPUMS-BR is the extract of DP-AGD's authors; a fifth of the records tests. Unless --protector names one, its protector learned on a synthetic stand-in for IPUMS-US, which nobody published: "+short.String()+".")
	}
	if e.Learned != nil {
		how = append(how, "\"projector alone\" is the protector's projector, with the planned noise in every step.")
		how = append(how, howLearned(e.Learned, k.budgets(e))...)
		for _, t := range k.targets(e) {
			if t.pair != nil && e.Learned.Card.Overlap("mnist", t.pair) != "" {
				how = append(how, fmt.Sprintf("%s: meta-training had records of at least one of these classes. It did not have this pair, unless a label says so.", t.panel()))
			}
		}
	}
	return how
}

// atLeast judges "no less than" by the difference's one-sided bounds.
func atLeast(claim string, d reproduce.Estimate) reproduce.Claim {
	low, high := d.Bounds()
	found := d.Points() + " points"
	if !math.IsInf(low, 0) {
		found += fmt.Sprintf("; one-sided 95%% bounds %+.2f and %+.2f", 100*low, 100*high)
	}
	return d.Claim(claim, found, low >= 0, high < 0)
}
