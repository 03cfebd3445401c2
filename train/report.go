package train

import (
	"fmt"
	"math"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
)

func (r *run) result() *Result {
	p, c := r.plan, &r.plan.Config
	info := r.device.Info()
	seconds := math.Max(math.Round(time.Since(r.started).Seconds()), 1)
	res := &Result{
		Run: r.options.Out, Dataset: c.Data, Model: c.Model, Parameters: p.Network.Program.NumParams(),
		Optimizer: c.Optimizer, Device: info.Name, Precision: c.Precision, Threads: info.Threads,
		Steps: r.step, StepsNow: r.ran, Committed: &p.Steps,
		Sampling: p.Sampling(), SamplingRate: p.SamplingRate, ExpectedBatch: p.ExpectedBatch, PublicN: p.PublicN,
		PrivacyUnit: "one record", NoGuarantee: p.NoGuarantee(), Assumptions: r.assumptions,
		DefaultsFrom: p.DefaultsFrom(),
		Released:     []string{rundir.Model, rundir.Checkpoints, rundir.Metrics, rundir.Result},
		Diagnostics:  c.PrivateDiagnostics,
		TrainLoss:    r.last.TrainLoss, TestLoss: r.last.TestLoss, TestAccuracy: r.last.TestAccuracy,
		AverageAccuracy:   r.last.AverageAccuracy,
		Evaluations:       r.measured,
		Seconds:           seconds,
		ExamplesPerSecond: p.ExpectedBatch * float64(r.ran) / seconds,
		PeakRSS:           devices.Coarse(devices.PeakRSS(), p.RowBytes()),
	}
	figures := r.figures()
	res.GradientEvaluations, res.ObjectiveEvaluations = figures.Gradients, figures.Losses
	if r.average != nil {
		res.Released = append(res.Released, rundir.Average)
	}
	if r.dir().Has(rundir.Picture) {
		res.Released = append(res.Released, rundir.Picture)
	}
	if r.options.Report != nil {
		res.Released = append(res.Released, r.options.Report.Files()...)
	}
	res.Guarantee = len(res.NoGuarantee) == 0
	if c.Private() {
		r.reportPrivacy(res)
	} else if p.Method.Traits().Once {
		res.Committed = &res.Steps // it stopped by itself
	}
	if res.TrainLoss != nil {
		is := fmt.Sprintf("noisy, charged: losses clipped to [0, %d]", plan.LossBound)
		if c.DataIsPublic {
			is = "un-noised: the data were declared public"
		}
		res.TrainLossIs = &is
	}
	return res
}

// reportPrivacy says what a private run cost, and by which noise.
func (r *run) reportPrivacy(res *Result) {
	p, c := r.plan, &r.plan.Config
	res.Epsilon, res.EpsilonSoFar, res.Neighbouring = p.Epsilon, r.epsilonSoFar(r.ledger.Charged()), &c.Neighbouring
	res.Risk = p.Risk
	if p.Method.Traits().Pure {
		delta, by := 0.0, accountant.Pure{}.Name()
		res.Delta, res.Accountant = &delta, &by
		return
	}
	res.Delta, res.Accountant = c.Delta, &c.Accountant
	res.Clipping, res.Clip, res.NoiseMultiplier = &c.Clipping, &c.Clip, &p.Sigma
	if clip := r.clip(); clip != nil {
		res.Clip = clip
	}
	switch p.Declaration.Budget {
	case dpoptim.Scheduled, dpoptim.Adaptive: // neither length nor noise was committed to
		if res.Committed = nil; p.Sigma > 0 {
			res.NoiseMultiplier = nil
		}
	}
}

// picture is test accuracy against ε, or against steps where there is no ε.
func (r *run) picture() rundir.Plot {
	p := r.plan
	fig := rundir.Plot{Title: p.Config.Model + " on " + p.Config.Data + ", " + p.Config.Optimizer, X: "steps", Y: "test accuracy, %"}
	if l := p.Config.Label(); l != "" {
		fig.Title += "\n" + l
	}
	if p.Epsilon != nil {
		fig.X = "ε spent so far"
	}
	for _, m := range r.measured {
		if m.TestAccuracy == nil {
			continue
		}
		x := float64(m.Step)
		if p.Epsilon != nil && m.EpsilonSoFar != nil {
			x = *m.EpsilonSoFar
		}
		fig.Points = append(fig.Points, [2]float64{x, 100 * *m.TestAccuracy})
	}
	return fig
}
