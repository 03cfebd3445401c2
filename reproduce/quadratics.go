package reproduce

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p/meta"
)

// Settings of appendix C.1, and ours where it names none: all records in every step,
// clip norm 1, add-remove.
const (
	quadraticRecords = 60
	quadraticDelta   = 1e-8
	quadraticClip    = 1
	quadraticTuning  = 200 // problems that settings are chosen by
	quadraticHeld    = 100 // problems that methods are compared on
)

// Seeds of what is drawn; meta-training draws by others.
const (
	problemSeed, tuningSeed, heldSeed = 35_001, 35_002, 35_003
)

func quadraticPlan(steps int) meta.Plan {
	return meta.Plan{Steps: steps, Rate: 1, Clip: quadraticClip, Delta: quadraticDelta, Neighbouring: accountant.AddRemove, Accountant: spending}
}

// problem draws number i of a seed's problems, and the seed of a run on it.
func problem(f meta.Quadratics, seed uint64, i int) (lossTask, uint64, error) {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	task, ok := f.Draw(r).(lossTask)
	if !ok {
		return nil, 0, fmt.Errorf("a quadratic tells no clipped losses; please report this")
	}
	return task, r.Uint64(), nil
}

// A setting of a method is what can be tuned.
type setting struct {
	rate  float64
	steps int
	agd   agdPlan
}

func (s setting) String() string {
	switch {
	case s.agd.iterations > 0:
		return fmt.Sprintf("%d iterations planned, losses clipped to %g", s.agd.iterations, s.agd.bound)
	case s.rate > 0:
		return fmt.Sprintf("T = %d, rate %.3g", s.steps, s.rate)
	case s.steps == 0:
		return "nothing to choose"
	}
	return fmt.Sprintf("T = %d", s.steps)
}

// A runner makes a run of a task.
type runner func(task lossTask, seed uint64) ([]meta.Point, error)

// A solver is a line of figure 6, with the settings that it is tuned over.
type solver struct {
	name    string
	grid    []setting
	prepare func(e *env, epsilon float64, s setting) (runner, error)
}

// tracing prepares a protector under a noise, both of which a setting decides.
func tracing(of func(e *env, s setting) *protection, noise func(epsilon float64, p meta.Plan) (meta.Noise, error)) func(*env, float64, setting) (runner, error) {
	return func(e *env, epsilon float64, s setting) (runner, error) {
		p, plan := of(e, s), quadraticPlan(s.steps)
		n, err := noise(epsilon, plan)
		if err != nil {
			return nil, err
		}
		return func(task lossTask, seed uint64) ([]meta.Point, error) {
			return meta.Trace(p.Protector, plan, task, n, seed), nil
		}, nil
	}
}

func ours(epsilon float64, p meta.Plan) (meta.Noise, error) { return p.Noise(epsilon) }

const (
	advancedLine  = "sgd, advanced composition"
	noiseFreeLine = "descent without noise"
	priorLine     = "no data: the law's mean solution"
)

// rateGrid is every rate with every number of steps.
func rateGrid(steps []int, rates []float64) (all []setting) {
	for _, t := range steps {
		for _, r := range rates {
			all = append(all, setting{rate: r, steps: t})
		}
	}
	return all
}

func geometric(first, last float64, n int) (all []float64) {
	for i := range n {
		all = append(all, first*math.Pow(last/first, float64(i)/float64(n-1)))
	}
	return all
}

func linearly(first, last float64, n int) (all []float64) {
	for i := range n {
		all = append(all, first+(last-first)*float64(i)/float64(n-1))
	}
	return all
}

var paperSteps = []int{10, 20, 30, 40, 50, 60}

// solvers are tuned without privacy, as the paper does. Its rates are for a sum of 60, ours
// for the mean.
func solvers(e *env) []solver {
	descending := func(_ *env, s setting) *protection { return &protection{Protector: descent(s.rate)} }
	whole := func(e *env, _ setting) *protection { return e.learned }
	projector := e.learned.unscheduled()
	alone := func(*env, setting) *protection { return projector }
	trained := setting{steps: e.learned.Card.Steps}
	steps := []setting{trained}
	for _, t := range paperSteps {
		if t != trained.steps {
			steps = append(steps, setting{steps: t})
		}
	}
	var searches []setting
	for _, n := range []int{2, 5, 10, 20} {
		for _, bound := range []float64{3, 10, 30} {
			searches = append(searches, setting{agd: agdPlan{n, bound}})
		}
	}
	return []solver{
		{learnedLine, []setting{trained}, tracing(whole, ours)},
		{projectorLine, steps, tracing(alone, ours)},
		{tunedLine, rateGrid([]int{1, 2, 3, 5, 10, 20, 40, 60, 100}, geometric(0.003, 3, 19)), tracing(descending, ours)},
		{agdLine, searches, func(_ *env, epsilon float64, s setting) (runner, error) {
			plan := quadraticPlan(s.agd.iterations)
			n, err := plan.Noise(epsilon)
			if err != nil {
				return nil, err
			}
			b := s.agd.budgets(float64(plan.Steps) / (2 * n.Planned * n.Planned))
			order, err := s.agd.order(b, plan)
			if err != nil {
				return nil, err
			}
			return func(task lossTask, seed uint64) ([]meta.Point, error) {
				return s.agd.run(plan, b, epsilon, order, task, seed)
			}, nil
		}},
		{advancedLine, rateGrid(paperSteps, linearly(quadraticRecords*0.001, quadraticRecords*0.02, 20)), tracing(descending, func(epsilon float64, p meta.Plan) (meta.Noise, error) {
			sigma := advanced(epsilon, p.Delta, p.Steps)
			return meta.Noise{Epsilon: epsilon, Least: sigma, Planned: sigma}, nil
		})},
		{noiseFreeLine, rateGrid([]int{60}, geometric(0.01, 0.3, 12)), func(_ *env, _ float64, s setting) (runner, error) {
			plan := quadraticPlan(s.steps)
			plan.Clip = 1e6 // of nothing
			return func(task lossTask, seed uint64) ([]meta.Point, error) {
				return meta.Trace(descent(s.rate), plan, task, meta.Noise{Epsilon: math.Inf(1)}, seed), nil
			}, nil
		}},
		{priorLine, []setting{{}}, func(e *env, _ float64, _ setting) (runner, error) {
			var at [2]float64
			n := e.problems(quadraticTuning)
			for i := range n {
				task, _, err := problem(fixedStart, tuningSeed, i)
				if err != nil {
					return nil, err
				}
				solution := least(task)
				at[0], at[1] = at[0]+solution[0]/float64(n), at[1]+solution[1]/float64(n)
			}
			return func(task lossTask, seed uint64) ([]meta.Point, error) {
				start := make([]float64, 2)
				task.Start(rand.New(rand.NewPCG(seed, 0)), start)
				return []meta.Point{{Params: start, Loss: task.Loss(start, nil)}, {Params: at[:], Loss: task.Loss(at[:], nil)}}, nil
			}, nil
		}},
	}
}

// advanced is the noise multiplier of T releases by the classical calibration, σ = √(2 ln(1.25/δ₀))/ε₀,
// and advanced composition, ε = √(2T ln(1/δ′))·ε₀ + T·ε₀(e^ε₀ − 1), with half of δ for each
// (Dwork and Roth 2014, theorems A.1 and 3.20).
func advanced(epsilon, delta float64, steps int) float64 {
	t := float64(steps)
	low, high := 0.0, epsilon
	for range 200 {
		each := (low + high) / 2
		if math.Sqrt(2*t*math.Log(2/delta))*each+t*each*math.Expm1(each) > epsilon {
			high = each
		} else {
			low = each
		}
	}
	return math.Sqrt(2*math.Log(1.25*2*t/delta)) / low
}

// tuned chooses the setting with the least mean loss over problems of the tuning seed.
func (s solver) tuned(ctx context.Context, e *env, f meta.Quadratics, epsilon float64) (setting, runner, error) {
	var best setting
	var run runner
	least := math.Inf(1)
	for _, c := range s.grid {
		if err := ctx.Err(); err != nil {
			return best, nil, err
		}
		r, err := s.prepare(e, epsilon, c)
		if err != nil {
			return best, nil, err
		}
		if len(s.grid) == 1 {
			return c, r, nil
		}
		total := 0.0
		for i := range e.problems(quadraticTuning) {
			task, seed, err := problem(f, tuningSeed, i)
			if err != nil {
				return best, nil, err
			}
			points, err := r(task, seed)
			if err != nil {
				return best, nil, err
			}
			total += points[len(points)-1].Loss
		}
		if total < least {
			best, run, least = c, r, total
		}
	}
	if run == nil {
		return best, nil, fmt.Errorf("%s at ε = %g: no setting ends with a finite loss", s.name, epsilon)
	}
	return best, run, nil
}

// problems are as many of a full number as a quick figure has.
func (e *env) problems(full int) int {
	if e.Quick {
		return max(min(full, e.steps(2*full)), 3)
	}
	return full
}

// fixedStart is appendix C.1's family: W and y are random, and all start at one public point.
var fixedStart, randomStart = meta.Quadratics{Records: quadraticRecords}, meta.Quadratics{Records: quadraticRecords, Random: true}

func families() []struct {
	panel string
	meta.Quadratics
} {
	return []struct {
		panel string
		meta.Quadratics
	}{{"held-out problems, one public start", fixedStart}, {"held-out problems, random starts", randomStart}}
}

// what identifies a job on quadratics.
func (e *env) what(kind string, s solver, epsilon float64, more ...any) string {
	return fmt.Sprint(1, kind, s.name, s.grid, epsilon, e.learned.digest, quadraticClip, e.problems(quadraticTuning), more)
}

// repeated is a job of many runs on one problem.
func (e *env) repeated(s solver, epsilon float64) job {
	repeats := e.Seeds
	if e.Quick {
		repeats = max(repeats, e.problems(quadraticHeld)) // runs of a millisecond
	}
	j := job{what: e.what("repeated", s, epsilon, repeats)}
	j.Panel, j.Series = fmt.Sprintf("ε = %g", epsilon), s.name
	j.make = func(ctx context.Context) (all []Record, err error) {
		chosen, run, err := s.tuned(ctx, e, fixedStart, epsilon)
		if err != nil {
			return nil, err
		}
		task, _, err := problem(fixedStart, problemSeed, 0)
		if err != nil {
			return nil, err
		}
		for seed := 1; seed <= repeats; seed++ {
			points, err := run(task, uint64(seed))
			if err != nil {
				return nil, err
			}
			all = append(all, recorded(points, s, chosen, epsilon, seed)...)
		}
		return all, nil
	}
	return j
}

// recorded are the points of a run.
func recorded(points []meta.Point, s solver, chosen setting, epsilon float64, seed int) (all []Record) {
	for step, p := range points {
		r := Record{
			Seed: seed, Step: step, Final: step == len(points)-1, Batch: quadraticRecords, Note: chosen.String(),
			TrainLoss: ptr(p.Loss), Theta1: ptr(p.Params[0]), Theta2: ptr(p.Params[1]),
		}
		if chosen.rate > 0 {
			r.Rate = ptr(chosen.rate)
		}
		if s.name != noiseFreeLine && s.name != priorLine {
			r.Epsilon, r.Delta, r.Accountant = ptr(epsilon), ptr(quadraticDelta), spending
			if s.name == advancedLine {
				r.Accountant = "advanced composition"
			}
		}
		all = append(all, r)
	}
	return all
}

// heldOut is a job of one run on each of the problems that methods are compared on.
func (e *env) heldOut(panel string, f meta.Quadratics, s solver, epsilon float64) job {
	n := e.problems(quadraticHeld)
	j := job{what: e.what("held out", s, epsilon, f, n)}
	j.Panel, j.Series, j.X = panel, s.name, epsilon
	j.make = func(ctx context.Context) (all []Record, err error) {
		chosen, run, err := s.tuned(ctx, e, f, epsilon)
		if err != nil {
			return nil, err
		}
		for i := range n {
			task, seed, err := problem(f, heldSeed, i)
			if err != nil {
				return nil, err
			}
			points, err := run(task, seed)
			if err != nil {
				return nil, err
			}
			all = append(all, recorded(points, s, chosen, epsilon, i+1)[len(points)-1])
		}
		return all, nil
	}
	return j
}

var l2pFig6 = Figure{
	Name: "l2p-fig6", Short: "Learned protection on quadratics: loss by step, and against DP-SGD on held-out problems",
	Source: hong + ", appendix C.1, figure 6", seeds: 100, protector: "quadratic", plan: planL2PFig6, show: showL2PFig6,
}

func (e *env) l2pBudgets() []float64 {
	if e.Quick {
		return l2pQuick
	}
	return l2pEpsilons
}

// heldLines are compared on held-out problems, each with DP-SGD.
var heldLines = []string{learnedLine, projectorLine, priorLine, tunedLine}

func planL2PFig6(e *env) (jobs []job, _ error) {
	for _, epsilon := range e.l2pBudgets() {
		for _, s := range solvers(e) {
			jobs = append(jobs, e.repeated(s, epsilon))
			if !slices.Contains(heldLines, s.name) {
				continue
			}
			for _, f := range families() {
				jobs = append(jobs, e.heldOut(f.panel, f.Quadratics, s, epsilon))
			}
		}
	}
	return jobs, nil
}

// carried gives the loss after a number of steps, by seed: of a run that has ended its last.
func (t table) carried(panel, series string, m metric) (steps int, at func(step int) map[int]float64) {
	runs := map[int]map[int]float64{}
	ends := map[int]int{}
	for i := range t {
		if r := &t[i]; r.Panel == panel && r.Series == series {
			if v := m(r); v != nil {
				if runs[r.Seed] == nil {
					runs[r.Seed] = map[int]float64{}
				}
				runs[r.Seed][r.Step] = *v
				ends[r.Seed] = max(ends[r.Seed], r.Step)
				steps = max(steps, r.Step)
			}
		}
	}
	return steps, func(step int) map[int]float64 {
		values := map[int]float64{}
		for seed, run := range runs {
			values[seed] = run[min(step, ends[seed])]
		}
		return values
	}
}

func showL2PFig6(e *env, t table) page {
	var p page
	var row []chart
	h := heading{Title: "Loss at the end, one problem", Head: []string{"method"}}
	tuning := heading{Title: "What was chosen for it", Head: []string{"method"}}
	cells, choices := map[string][]string{}, map[string][]string{}
	budgets := e.l2pBudgets()
	all := solvers(e)
	for _, epsilon := range budgets {
		panel := fmt.Sprintf("ε = %g", epsilon)
		h.Head, tuning.Head = append(h.Head, panel), append(tuning.Head, panel)
		c := chart{title: panel, x: "steps", y: "mean loss", logY: true}
		for _, s := range all {
			steps, at := t.carried(panel, s.name, objective)
			l := line{name: s.name, dashed: s.name == noiseFreeLine}
			for step := range steps + 1 {
				l.add(float64(step), mean(at(step)), 1)
			}
			c.lines = append(c.lines, l)
			cells[s.name] = append(cells[s.name], mean(at(steps)).number())
			choices[s.name] = append(choices[s.name], t.note(panel, s.name))
		}
		if row = append(row, c); len(row) == 3 {
			p.charts, row = append(p.charts, row), nil
		}
	}
	if row != nil {
		p.charts = append(p.charts, row)
	}
	for _, s := range all {
		h.Rows = append(h.Rows, append([]string{s.name}, cells[s.name]...))
		tuning.Rows = append(tuning.Rows, append([]string{s.name}, choices[s.name]...))
	}
	p.tables = append(p.tables, h, tuning)

	// Lower is better: differences are other − l2p.
	final := func(series string, epsilon float64) map[int]float64 {
		return t.last(fmt.Sprintf("ε = %g", epsilon), series, 0, objective)
	}
	versus := func(claim, other string, at []float64) {
		var count tally
		for _, epsilon := range at {
			count.add(difference(final(other, epsilon), final(learnedLine, epsilon)))
		}
		p.claims = append(p.claims, Claim{claim, count.String(), count.mostly()})
	}
	small := budgets[:max(1, len(budgets)/3)]
	versus("L2P ends with lower losses than SGD with advanced composition (one problem)", advancedLine, budgets)
	versus("L2P ends with lower losses than AGD (one problem)", agdLine, budgets)
	versus(fmt.Sprintf("for small ε (here %v) scheduled noise ends with lower losses than the projector alone (one problem)", small), projectorLine, small)

	var held []chart
	for _, f := range families() {
		c := chart{title: f.panel, x: "ε", y: "median difference of losses", log: true}
		table := heading{Title: "Median difference of the loss at the end, " + f.panel, Head: []string{"ε", "dp-sgd", "l2p", "l2p − dp-sgd", "projector alone − dp-sgd", "no data − dp-sgd", "l2p − no data", "dp-sgd's setting"}}
		others := heldLines[:3]
		var lines []line
		for _, series := range others {
			lines = append(lines, line{name: series})
		}
		var sgdCount, priorCount medians
		for _, epsilon := range budgets {
			sgd := t.last(f.panel, tunedLine, epsilon, objective)
			cells := []string{fmt.Sprint(epsilon), mean(sgd).number(), mean(t.last(f.panel, learnedLine, epsilon, objective)).number()}
			for i, series := range others {
				m := medianOf(differences(t.last(f.panel, series, epsilon, objective), sgd))
				cells = append(cells, m.String())
				lines[i].addMedian(epsilon, m)
				if i == 0 {
					sgdCount.add(m)
				}
			}
			prior := medianOf(differences(t.last(f.panel, learnedLine, epsilon, objective), t.last(f.panel, priorLine, epsilon, objective)))
			priorCount.add(prior)
			table.Rows = append(table.Rows, append(cells, prior.String(), t.noteAt(f.panel, tunedLine, epsilon)))
		}
		c.lines = lines
		held = append(held, c)
		p.claims = append(p.claims,
			sgdCount.claim("ours, not the paper's: L2P ends lower than the best-tuned DP-SGD under the same accountant ("+f.panel+", at every ε)"),
			priorCount.claim("ours, too: and lower than a jump that needs no data ("+f.panel+", at every ε)"))
		p.tables = append(p.tables, table)
	}
	p.charts = append(p.charts, held)
	p.how = append(quadraticHow(e, budgets),
		fmt.Sprintf("Medians over %d problems of paired differences, with 95 %% intervals between order statistics: they hold whatever the law of the differences.", e.problems(quadraticHeld)),
		"From one public start a protector can learn where solutions lie, whatever the released gradients say: that is knowledge of the problems' law, not better use of a budget. The solutions of these problems lie near the origin, always, and \"no data\" jumps from the start to the mean solution of the tuning problems: what it reaches needs no budget at all. Only where L2P ends below it has it learned from the data. The comparison is also made from random starts, standard normal, with the same protector, which sees gradients and not where it is; DP-SGD is tuned for these anew.",
	)
	return p
}

// quadraticHow is said of both figures on quadratics.
func quadraticHow(e *env, budgets []float64) []string {
	return append([]string{
		fmt.Sprintf("Appendix C.1: sums of %d ‖W_i·θ − y_i‖² with 0.001·‖θ‖², W and y standard normal, here divided by %[1]d; δ = 1e-8. Ours: all records in every step, each gradient clipped to norm %d, add-remove, and a start at (1, 1).", quadraticRecords, quadraticClip),
		fmt.Sprintf("Every method but L2P, which has nothing to tune, is tuned without privacy for the least mean loss on %d other problems of the same law, at each ε: DP-SGD over 9 step counts and 19 rates; L2P's projector alone over T; SGD with advanced composition over T in 10 to 60 and 20 rates (0.001 to 0.02 of the sum); DP-AGD over first budgets and bounds of the loss, with 20 step sizes to 0.02 of the sum.", e.problems(quadraticTuning)),
		"L2P, its projector alone, DP-SGD and DP-AGD spend the same Rényi budget of (ε, δ). SGD with advanced composition has the accounting of its time: classical Gaussian noise and the advanced composition theorem.",
		"The projector alone is the protector's with the planned noise in every step; the paper trained one for itself.",
		"Runs of one seed share their noise as far as they go alike.",
	}, e.learned.how(budgets)...)
}

// note is what a series' runs say of themselves.
func (t table) note(panel, series string) string {
	return t.noteAt(panel, series, 0)
}

func (t table) noteAt(panel, series string, x float64) string {
	for i := range t {
		if r := &t[i]; r.Panel == panel && r.Series == series && r.X == x {
			return r.Note
		}
	}
	return "–"
}

var l2pFig8 = Figure{
	Name: "l2p-fig8", Short: "Learned protection on one quadratic: where repeated runs go",
	Source: hong + ", appendix C.1, figure 8", seeds: 100, protector: "quadratic", plan: planL2PFig8, show: showL2PFig8,
}

const fig8Epsilon = 0.05

func planL2PFig8(e *env) (jobs []job, _ error) {
	for _, s := range solvers(e) {
		jobs = append(jobs, e.repeated(s, fig8Epsilon))
	}
	return jobs, nil
}

// least is where a quadratic is least: its gradient is linear.
func least(task meta.Task) [2]float64 {
	var at [3][2]float64
	for i, p := range [][]float64{{0, 0}, {1, 0}, {0, 1}} {
		task.Loss(p, at[i][:])
	}
	b := at[0]
	a, c := at[1][0]-b[0], at[2][1]-b[1]
	d, f := at[2][0]-b[0], at[1][1]-b[1]
	det := a*c - d*f
	return [2]float64{(-b[0]*c + b[1]*d) / det, (-b[1]*a + b[0]*f) / det}
}

func showL2PFig8(e *env, t table) page {
	var p page
	task, _, err := problem(fixedStart, problemSeed, 0)
	if err != nil {
		return page{how: []string{err.Error()}}
	}
	centre := least(task)
	bottom := task.Loss(centre[:], nil)
	panel := fmt.Sprintf("ε = %g", fig8Epsilon)
	h := heading{Title: "Ends of the runs at " + panel, Head: []string{"method", "loss", "loss above the least", "distance to the least", "spread of the ends", "setting"}}
	distance := func(r *Record) *float64 {
		if r.Theta1 == nil || r.Theta2 == nil {
			return nil
		}
		return ptr(math.Hypot(*r.Theta1-centre[0], *r.Theta2-centre[1]))
	}
	spread := map[string]float64{}
	var row []chart
	view := plane{loss: func(x, y float64) float64 { return task.Loss([]float64{x, y}, nil) }, bottom: bottom, least: centre}
	view.frame(t)
	for _, s := range solvers(e) {
		v := view
		bySeed := map[int][][2]float64{}
		var seeds []int
		for i := range t {
			if r := &t[i]; r.Series == s.name && r.Theta1 != nil && r.Theta2 != nil {
				if bySeed[r.Seed] == nil {
					seeds = append(seeds, r.Seed)
				}
				bySeed[r.Seed] = append(bySeed[r.Seed], [2]float64{*r.Theta1, *r.Theta2})
			}
		}
		slices.Sort(seeds)
		var ends [2]map[int]float64
		ends[0], ends[1] = map[int]float64{}, map[int]float64{}
		for k, seed := range seeds {
			path := bySeed[seed]
			v.all = append(v.all, path...)
			if k < 3 {
				v.sampled = append(v.sampled, path)
			}
			ends[0][seed], ends[1][seed] = path[len(path)-1][0], path[len(path)-1][1]
		}
		for _, m := range ends {
			e := mean(m)
			spread[s.name] += e.err * e.err * float64(e.n)
		}
		spread[s.name] = math.Sqrt(spread[s.name])
		loss := mean(t.last(panel, s.name, 0, objective))
		above := loss
		above.mean -= bottom
		h.Rows = append(h.Rows, []string{
			s.name, loss.number(), above.number(), mean(t.last(panel, s.name, 0, distance)).number(),
			fmt.Sprintf("%.3g", spread[s.name]), t.note(panel, s.name),
		})
		c := chart{title: s.name, x: "θ₁", y: "θ₂", plane: &v}
		if row = append(row, c); len(row) == 3 {
			p.charts, row = append(p.charts, row), nil
		}
	}
	if row != nil {
		p.charts = append(p.charts, row)
	}
	p.tables = []heading{h}
	compare := func(claim, a, b string, m metric) Claim {
		d := difference(t.last(panel, b, 0, m), t.last(panel, a, 0, m)) // above 0: a is nearer
		var count tally
		count.add(d)
		c := Claim{claim, "no figures", count.mostly()}
		if d.n > 0 {
			c.Found = fmt.Sprintf("difference %s", d.number())
		}
		return c
	}
	p.claims = []Claim{
		compare("L2P ends nearer to the least loss than SGD with advanced composition", learnedLine, advancedLine, distance),
		compare("L2P ends nearer to it than AGD", learnedLine, agdLine, distance),
		compare("ours, not the paper's: L2P ends nearer to it than tuned DP-SGD under the same accountant", learnedLine, tunedLine, distance),
		{
			"SGD with advanced composition walks in a larger region than L2P",
			fmt.Sprintf("standard deviation of the ends %.3g, of L2P %.3g", spread[advancedLine], spread[learnedLine]), undecided,
		},
	}
	// Beyond this ratio with less than 5 % chance, were both alike and normal, and a run's
	// two coordinates no more than one.
	if a, b := spread[advancedLine], spread[learnedLine]; e.Seeds > 1 && a > 0 && b > 0 {
		runs := float64(len(t.last(panel, learnedLine, 0, objective)))
		limit := math.Exp(1.96 * math.Sqrt(1/(runs-1)))
		c := &p.claims[3]
		switch {
		case a > limit*b:
			c.Verdict = agrees
		case b > limit*a:
			c.Verdict = contradicts
		}
	}
	p.how = append([]string{
		fmt.Sprintf("Contours of the loss; the least is %.4g at (%.3f, %.3f), start at (1, 1). Blue: where the runs were after each step, darker where more were. Orange: the first three runs. Axes are the same in all panels, so that runs far out leave them.", bottom, centre[0], centre[1]),
	}, quadraticHow(e, []float64{fig8Epsilon})...)
	return p
}
