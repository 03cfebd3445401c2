package erm

import (
	"context"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"
)

var rounds = reproduce.Figure{
	Name: "rrpsgd", Short: "Random round private SGD on a network: gradient norm against theorem 5", Source: zhang + ", algorithm 2 and theorem 5", Seeds: 10,
	Plan: planRounds, Show: showRounds,
}

const (
	roundRecords = 1000
	roundEpsilon = 1.0
	roundModel   = "mlp-small"
	roundPanel   = "Fashion-MNIST, 1,000 records, " + roundModel

	ownNoise       = "rrpsgd"
	publishedNoise = "rrpsgd, published noise"
	atStart        = "start"
)

func planRounds(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	var c train.Config
	if !e.Images(&c, "fmnist") {
		return nil, nil
	}
	judge := &judge{source: e.Sources["fmnist"], dir: c.DataDir}
	for seed := 1; seed <= e.Seeds; seed++ {
		network := func() (*nn.Network, error) { return roundNetwork(uint64(seed)) }
		for _, series := range []string{ownNoise, publishedNoise} {
			c := train.Default()
			e.Images(&c, "fmnist")
			c.Optimizer, c.Model, c.Seed, c.PublicN = "rrpsgd", roundModel, uint64(seed), new(roundRecords)
			c.Epsilon, c.Delta, c.Steps = new(roundEpsilon), new(delta), new(e.Steps(roundRecords*roundRecords))
			c.EvalEvery = 1 << 30 // at the end
			if series == publishedNoise {
				c.RRPSGD.Form = "paper"
			}
			j := reproduce.Job{Config: c, Network: network, After: judge.after}
			j.Panel, j.Series, j.X, j.Seed = roundPanel, series, roundEpsilon, seed
			jobs = append(jobs, j)
		}
		j := reproduce.Job{What: fmt.Sprint("start of ", roundModel, " ", seed), Make: func(context.Context) (reproduce.Records, error) {
			n, err := network()
			if err != nil {
				return nil, err
			}
			r := reproduce.Record{Seed: seed, Final: true}
			w := n.Params()
			clear(w[len(w)-(hidden+1)*classes:])
			judge.after(w, &r)
			return reproduce.Records{r}, nil
		}}
		j.Panel, j.Series, j.X, j.Seed = roundPanel, atStart, roundEpsilon, seed
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func roundNetwork(seed uint64) (*nn.Network, error) {
	m, err := nn.Build(roundModel, nn.Options{Input: [3]int{1, 28, 28}, Classes: classes, Activation: "tanh", Seed: seed})
	if err != nil {
		return nil, err
	}
	return m.Lower()
}

// The sizes of roundModel.
const inputs, hidden, classes = 784, 20, 10

// A judge measures the objective F on the records of a run, without clipping and in float64.
type judge struct {
	source train.Source
	dir    string
}

func (j *judge) after(w []float32, r *reproduce.Record) {
	set, err := j.source.Open(j.dir)
	if err != nil {
		r.Note = "the records cannot be read"
		return
	}
	loss, g := objective(&set.Train, w)
	norm := 0.0
	for _, x := range g {
		norm += x * x
	}
	r.TrainLoss, r.GradientNorm = &loss, new(math.Sqrt(norm))
}

// objective is F and its gradient for the network's parameters: weights (20, 784), biases, weights (10, 20), biases.
func objective(s *datasets.Split, w []float32) (loss float64, g []float64) {
	const first, second = inputs * hidden, inputs*hidden + hidden
	const last = second + hidden*classes
	g = make([]float64, len(w))
	x, h := make([]float64, inputs), make([]float64, hidden)
	p, back := make([]float64, classes), make([]float64, hidden)
	for row := range min(s.Len(), roundRecords) {
		for i, b := range s.Features[row*inputs:][:inputs] {
			x[i] = float64(b)/127.5 - 1
		}
		for k := range h {
			z := float64(w[first+k])
			for i, v := range x {
				z += float64(w[k*inputs+i]) * v
			}
			h[k], back[k] = math.Tanh(z), 0
		}
		total := 0.0
		for c := range p {
			z := float64(w[last+c])
			for k, v := range h {
				z += float64(w[second+c*hidden+k]) * v
			}
			p[c] = math.Exp(z)
			total += p[c]
		}
		label := int(s.Labels[row])
		loss -= math.Log(p[label]/total) / roundRecords
		for c := range p {
			d := p[c] / total / roundRecords
			if c == label {
				d -= 1.0 / roundRecords
			}
			g[last+c] += d
			for k, v := range h {
				g[second+c*hidden+k] += d * v
				back[k] += d * float64(w[second+c*hidden+k])
			}
		}
		for k, v := range h {
			d := back[k] * (1 - v*v)
			g[first+k] += d
			for i, v := range x {
				g[k*inputs+i] += d * v
			}
		}
	}
	return loss, g
}

// square is ‖∇F‖².
func square(r *reproduce.Record) *float64 {
	if r.GradientNorm == nil {
		return nil
	}
	return new(*r.GradientNorm * *r.GradientNorm)
}

// A rounded is what theorem 5 says of a series: the noise that its step size tells of, and the bound.
type rounded struct{ noise, bound float64 }

// theorem has C = 1 for L, and β = 1, as the runs have.
func theorem(eta float64, steps int) rounded {
	r := papers.Rounds{Steps: steps, Smoothness: 1, Start: math.Log(classes)}
	r.Variance = 2 * r.Start / (eta * eta * float64(steps)) // of η = D_F/(σ√T)
	const params = (inputs+1)*hidden + (hidden+1)*classes
	return rounded{math.Sqrt((r.Variance-4)/params) / 2, r.Bound(eta)}
}

var (
	squareNorm = reproduce.Quantity{Name: "‖∇F‖²", Of: square, Scale: 1, Text: reproduce.Estimate.Number}
	roundRate  = func(r *reproduce.Record) *float64 { return r.Rate }
)

func showRounds(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	steps := e.Steps(roundRecords * roundRecords)
	h := reproduce.Table{Title: "After the last round", Head: []string{"", "σ/(2L)", "η", "‖∇F‖²", "theorem 5", "F", "test accuracy, %"}}
	chart := reproduce.Chart{Title: roundPanel, X: "", Y: squareNorm.Name, LogY: true}
	measured, bounds := reproduce.Line{Name: "measured"}, reproduce.Line{Name: "theorem 5"}
	var p reproduce.Page
	start := rs.Mean(roundPanel, atStart, roundEpsilon, square)
	said := map[string]rounded{}
	for i, series := range []string{atStart, ownNoise, publishedNoise} {
		chart.Names = append(chart.Names, series)
		found := rs.Mean(roundPanel, series, roundEpsilon, square)
		measured.Add(float64(i), found, 1)
		row := []string{series, "–", "–", found.Number(), "–", rs.Mean(roundPanel, series, roundEpsilon, reproduce.Objective).Number(), "–"}
		if eta := rs.Mean(roundPanel, series, roundEpsilon, roundRate); series != atStart && eta.N > 0 {
			t := theorem(eta.Mean, steps)
			said[series] = t
			bounds.Add(float64(i), reproduce.Estimate{Mean: t.bound, N: eta.N}, 1)
			row[1], row[2], row[4] = fmt.Sprintf("%.3f", t.noise), fmt.Sprintf("%.3g", eta.Mean), fmt.Sprintf("%.3g", t.bound)
			row[6] = rs.Mean(roundPanel, series, roundEpsilon, reproduce.Accuracy).Percent()
			lower, upper := found.Bounds()
			p.Claims = append(p.Claims, found.Claim("E‖∇F‖² of "+series+" is within theorem 5's bound",
				fmt.Sprintf("%s, at most %.3g", found.Number(), t.bound), upper <= t.bound, lower > t.bound))
			d := rs.Difference(roundPanel, atStart, series, roundEpsilon, square)
			p.Claims = append(p.Claims, d.Claim("the gradient is shorter after "+series+" than at the start (our question)",
				fmt.Sprintf("%s at the start, less %s", start.Number(), d.Number()), d.Mean > d.Half(), d.Mean < -d.Half()))
		}
		h.Rows = append(h.Rows, row)
	}
	own, theirs := said[ownNoise].noise, said[publishedNoise].noise
	p.Claims = append(p.Claims, reproduce.Claim{
		Claim:   "the published noise is more than the budget needs, by 3 times or more (our statement)",
		Found:   fmt.Sprintf("σ/(2L) is %.4g as published, and %.4g is enough", theirs, own),
		Verdict: reproduce.Verdict(len(said) == 2, theirs >= 3*own, theirs < 3*own),
	})
	chart.Lines = []reproduce.Line{measured, bounds}
	p.Charts, p.Tables = [][]reproduce.Chart{{chart}}, []reproduce.Table{h}
	p.How = []string{
		fmt.Sprintf("Every run is `train --optimizer rrpsgd --model %s --public-n %d --epsilon %g --delta %g` with tanh, on the first %[2]d records, for at most %[5]d rounds of one record, all of which are paid for. The published noise is rrpsgd_form: paper.", roundModel, roundRecords, roundEpsilon, delta, steps),
		"F is the mean loss of these records, and its gradient is that of F, without clipping and in float64. At the start the last layer is zero, so that F is ln 10.",
		"The bound takes the clip norm, 1, for L and 1 for β, and F at the start for D_F. A network has no such L and β, so the theorem does not cover these runs: the page says how the numbers compare. The paper has no experiment with algorithm 2, and does not say how to find β.",
	}
	return p
}
