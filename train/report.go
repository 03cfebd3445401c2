package train

import (
	"fmt"
	"math"
	"time"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
)

func (r *run) result() (*Result, error) {
	p, c := r.plan, &r.plan.Config
	info := r.device.Info()
	seconds := math.Max(math.Round(time.Since(r.started).Seconds()), 1) // of one's own data, behind the reading of records
	res := &Result{
		Run: r.options.Out, Dataset: c.Data, DatasetSource: p.Set.Source, Model: c.Model, Parameters: p.Network.Program.NumParams(),
		Optimizer: c.Optimizer, Device: info.Name, DeviceReason: info.Instead, Precision: c.Precision, Threads: info.Threads,
		Steps: r.step(), Iterations: p.Iterations, StepsNow: r.ran, Committed: &p.Steps,
		Sampling: p.Kind.Name, SamplingRate: p.SamplingRate, ExpectedBatch: p.ExpectedBatch, PublicN: p.PublicN, Canaries: c.Canaries,
		Claim: p.Guarantee, Recipe: p.Recipe, DefaultsFrom: p.DefaultsFrom,
		Released:    []string{rundir.Model, rundir.Checkpoints, rundir.Metrics, rundir.Result},
		Diagnostics: c.PrivateDiagnostics,
		Counted:     r.counted,
		TrainLoss:   r.last.TrainLoss, TestLoss: r.last.TestLoss, TestAccuracy: r.last.TestAccuracy, Figures: r.last.Figures,
		AverageAccuracy:   r.last.AverageAccuracy,
		Initial:           p.Initial,
		Classes:           p.Set.ClassNames,
		Evaluations:       r.measured,
		Seconds:           seconds,
		ExamplesPerSecond: p.ExpectedBatch * float64(r.ran) / seconds,
		PeakRSS:           p.StatedMemory(r.team.Part().Of),
	}
	figures := r.figures()
	res.GradientEvaluations, res.ObjectiveEvaluations, res.Rounds = figures.Gradients, figures.Losses, figures.Rounds
	if r.model.Average != nil {
		res.Released = append(res.Released, rundir.Average)
	}
	res.Assumptions = r.assumptions // also of earlier processes
	if c.Private() {
		r.reportPrivacy(res)
	} else if p.Traits.Once {
		res.Committed = &res.Steps // it stopped by itself
	}
	if p.Traits.Local {
		res.ModelIs = new("the average of the iterates")
	}
	if res.TrainLoss != nil {
		is := fmt.Sprintf("noisy, charged: losses clipped to [0, %d]", price.LossBound)
		if c.DataIsPublic {
			is = "un-noised: the data were declared public"
		}
		res.TrainLossIs = &is
	}
	var err error
	if res.Events, err = p.Events(); err != nil {
		return nil, err
	}
	res.Digests, err = r.dir().Digests()
	return res, err
}

// reportPrivacy says what a private run was charged, and by which noise.
func (r *run) reportPrivacy(res *Result) {
	p, c := r.plan, &r.plan.Config
	if res.EpsilonSoFar = r.epsilonSoFar(r.ledger.Charged()); p.Traits.Pure {
		return
	}
	res.Clipping, res.Clip, res.NoiseMultiplier = &c.Clipping, &c.Clip, p.NoiseMultiplier()
	if clip := r.clip(); clip != nil {
		res.Clip = clip
	}
	if p.Declaration.Asks[0].Question != dpoptim.Gradients { // none is clipped
		res.Clipping, res.Clip = nil, nil
	}
	if b := p.Declaration.Budget; b == dpoptim.Scheduled || b == dpoptim.Adaptive { // no length was committed to
		res.Committed = nil
	}
}
