package train

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/durable"
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
		Steps: r.step, Committed: &p.Steps,
		Sampling: p.Sampling(), SamplingRate: p.SamplingRate, ExpectedBatch: p.ExpectedBatch, PublicN: p.PublicN,
		PrivacyUnit: "one record", NoGuarantee: p.NoGuarantee(), Assumptions: r.assumptions,
		DefaultsFrom: plan.DefaultsFrom,
		Released:     []string{rundir.Model, rundir.Checkpoints, rundir.Metrics, rundir.Result},
		Diagnostics:  c.PrivateDiagnostics,
		TrainLoss:    r.last.TrainLoss, TestLoss: r.last.TestLoss, TestAccuracy: r.last.TestAccuracy,
		AverageAccuracy:   r.last.AverageAccuracy,
		Evaluations:       r.measured,
		Seconds:           seconds,
		ExamplesPerSecond: p.ExpectedBatch * float64(r.ran) / seconds,
		PeakRSS:           coarse(devices.PeakRSS()),
	}
	if from := p.Notes.DefaultsFrom; from != "" {
		res.DefaultsFrom = from
	}
	figures := r.figures()
	res.GradientEvaluations, res.ObjectiveEvaluations = figures.Gradients, figures.Losses
	if r.average != nil {
		res.Released = append(res.Released, rundir.Average)
	}
	if r.dir().Has(rundir.Picture) {
		res.Released = append(res.Released, rundir.Picture)
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
	res.Epsilon, res.EpsilonSoFar, res.Neighbouring = p.Epsilon, r.charge.epsilon(r.ledger.Charged()), &c.Neighbouring
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

// coarse rounds memory up to 64 MiB, since a process holds its private records: their
// bytes would be counted.
func coarse(bytes int64) int64 {
	const unit = 64 << 20
	return (bytes + unit - 1) / unit * unit
}

// drawAccuracy plots test accuracy against ε, or against steps where there is
// no ε, from a run's evaluations.
func drawAccuracy(measured []Measurement, picture string, p *plan.Plan) (err error) {
	// The plotting library panics on ranges it cannot tick.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("plotting: %v", r)
		}
	}()
	var points plotter.XYs
	for _, e := range measured {
		if e.TestAccuracy == nil {
			continue
		}
		x := float64(e.Step)
		if p.Epsilon != nil && e.EpsilonSoFar != nil {
			x = *e.EpsilonSoFar
		}
		points = append(points, plotter.XY{X: x, Y: 100 * *e.TestAccuracy})
	}
	if len(points) == 0 {
		return nil // a regression has no accuracy to draw
	}
	fig := plot.New()
	fig.Title.Text = p.Config.Model + " on " + p.Config.Data + ", " + p.Config.Optimizer
	if l := p.Config.Label(); l != "" {
		fig.Title.Text += "\n" + l
	}
	fig.X.Label.Text, fig.Y.Label.Text = "steps", "test accuracy, %"
	if p.Epsilon != nil {
		fig.X.Label.Text = "ε spent so far"
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color = color.RGBA{B: 160, G: 90, A: 255}
	line.Width = vg.Points(1.5)
	marks.Color = line.Color
	fig.Add(plotter.NewGrid(), line, marks)
	w, err := fig.WriterTo(6*vg.Inch, 4*vg.Inch, "png")
	if err != nil {
		return err
	}
	return durable.WriteFile(picture, func(out io.Writer) error { _, err := w.WriteTo(out); return err })
}
