package l2p

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/reproduce"
)

// Settings of appendix C.1, and ours where it names none: all records in every step,
// clip norm 1, add-remove.
const (
	quadraticRecords = 60
	quadraticDelta   = 1e-8
	quadraticClip    = 1
	quadraticTuning  = 200 // problems that settings are chosen by
	quadraticHeld    = 100 // problems that methods are compared on

	problemSeed, tuningSeed, heldSeed = 35_001, 35_002, 35_003 // meta-training draws by others
)

func quadraticPlan(steps int) meta.Plan {
	return meta.Plan{Steps: steps, Rate: 1, Clip: quadraticClip, Delta: quadraticDelta, Neighbouring: accountant.AddRemove, Accountant: spending}
}

// problem draws number i of a seed's problems, and the seed of a run on it.
func problem(f meta.Quadratics, seed uint64, i int) (meta.Task, uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	return f.Draw(r), r.Uint64()
}

// problems are as many of a full number as a quick figure has.
func problems(e *reproduce.Env, full int) int {
	if e.Quick {
		return max(min(full, e.Steps(2*full)), 3)
	}
	return full
}

// fixedStart is appendix C.1's family: W and y are random, and all start at one public point.
var fixedStart, randomStart = meta.Quadratics{Records: quadraticRecords}, meta.Quadratics{Records: quadraticRecords, Random: true}

// families are those of the problems that methods are compared on.
var families = []struct {
	panel string
	meta.Quadratics
}{{"held-out problems, one public start", fixedStart}, {"held-out problems, random starts", randomStart}}

func what(e *reproduce.Env, kind string, s solver, epsilon float64, more ...any) string {
	return fmt.Sprint(1, kind, s.name, s.grid, epsilon, e.Learned.Digest, quadraticClip, problems(e, quadraticTuning), more)
}

func repeated(e *reproduce.Env, s solver, epsilon float64) reproduce.Job {
	repeats := e.Seeds
	if e.Quick {
		repeats = max(repeats, problems(e, quadraticHeld)) // runs of a millisecond
	}
	j := reproduce.Job{What: what(e, "repeated", s, epsilon, repeats)}
	j.Panel, j.Series = budgetPanel(epsilon), s.name
	task, _ := problem(fixedStart, problemSeed, 0)
	j.Make = s.runs(e, fixedStart, epsilon, repeats, func(i int) (meta.Task, uint64) { return task, uint64(i) + 1 })
	return j
}

// heldOut is a job of one run on each of the problems that methods are compared on, which
// keeps the ends.
func heldOut(e *reproduce.Env, panel string, f meta.Quadratics, s solver, epsilon float64) reproduce.Job {
	n := problems(e, quadraticHeld)
	j := reproduce.Job{What: what(e, "held out", s, epsilon, f, n)}
	j.Panel, j.Series, j.X = panel, s.name, epsilon
	runs := s.runs(e, f, epsilon, n, func(i int) (meta.Task, uint64) { return problem(f, heldSeed, i) })
	j.Make = func(ctx context.Context) (reproduce.Records, error) {
		all, err := runs(ctx)
		return slices.DeleteFunc(all, func(r reproduce.Record) bool { return !r.Final }), err
	}
	return j
}

// runs tunes the solver on problems of a family, and makes n runs on tasks and with seeds of next.
func (s solver) runs(e *reproduce.Env, f meta.Quadratics, epsilon float64, n int, next func(i int) (meta.Task, uint64)) func(context.Context) (reproduce.Records, error) {
	return func(ctx context.Context) (all reproduce.Records, err error) {
		chosen, run, err := s.tuned(ctx, e, f, epsilon)
		if err != nil {
			return nil, err
		}
		for i := range n {
			points, err := run(next(i))
			if err != nil {
				return nil, err
			}
			all = append(all, recorded(points, s, chosen, epsilon, i+1)...)
		}
		return all, nil
	}
}

func recorded(points []meta.Point, s solver, chosen setting, epsilon float64, seed int) (all reproduce.Records) {
	for step, p := range points {
		r := reproduce.Record{
			Seed: seed, Step: step, Final: step == len(points)-1, Batch: quadraticRecords, Note: chosen.String(),
			TrainLoss: new(p.Loss), Theta1: new(p.Params[0]), Theta2: new(p.Params[1]),
		}
		if chosen.rate > 0 {
			r.Rate = new(chosen.rate)
		}
		if s.name != noiseFreeLine && s.name != priorLine {
			r.Epsilon, r.Delta, r.Accountant = new(epsilon), new(quadraticDelta), spending
			if s.name == advancedLine {
				r.Accountant = "advanced composition"
			}
		}
		all = append(all, r)
	}
	return all
}

// quadraticHow is said of both figures on quadratics.
func quadraticHow(e *reproduce.Env, budgets []float64) []string {
	return append([]string{
		fmt.Sprintf("The problems are those of appendix C.1: sums of %d ‖W_i·θ − y_i‖² with 0.001·‖θ‖², where W and y are standard normal. Here they are divided by %[1]d, and δ = 1e-8. Our choices are: all records in every step, each gradient clipped to norm %d, add-remove, and a start at (1, 1).", quadraticRecords, quadraticClip),
		fmt.Sprintf("At each ε, every method is tuned without privacy, for the least mean loss on %d other problems from the same distribution. L2P is the exception: it has nothing to tune. DP-SGD is tuned over 9 step counts and 19 rates, and L2P's projector alone over T. SGD with advanced composition is tuned over T from 10 to 60 and 20 rates (0.001 to 0.02 of the sum). DP-AGD is tuned over first budgets and bounds of the loss, with 20 step sizes up to 0.02 of the sum.", problems(e, quadraticTuning)),
		"L2P, its projector alone, DP-SGD and DP-AGD spend the same Rényi budget of (ε, δ). SGD with advanced composition uses the accounting of its time: classical Gaussian noise and the advanced composition theorem.",
		"\"projector alone\" is the protector's projector, with the planned noise in every step. The paper trained a separate one.",
		"Runs of one seed draw the same random numbers, as long as they ask for them in the same order.",
	}, howLearned(e.Learned, budgets)...)
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
