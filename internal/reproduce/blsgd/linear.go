package blsgd

import (
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/objpert"
	"github.com/privgrad/privgrad/dpoptim/outpert"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

// The two accountings of a figure's private runs.
const (
	paperAccounting = "paper" // the paper's own arithmetic, which is no guarantee
	ownAccounting   = "ours"  // a batch of its own for every search, priced by the program's accountants
)

// byAccounting says in words which one it was.
var byAccounting = map[string]string{paperAccounting: "by the paper's accounting", ownAccounting: "by our accounting"}

// linear is a run of section 5.4 on a linear model. The paper does not say where
// its searches start, nor how many candidates they try at most: 2 and 20 here.
func linear(e *reproduce.Env, optimizer, model, accounting string, epsilon float64) train.Config {
	c := train.Default()
	c.Optimizer, c.Model, c.L2 = optimizer, model, 1e-3
	c.EvalEvery = 1 << 30 // at the end
	switch optimizer {
	case "majority":
		c.Model, c.L2, c.Epsilon = "", 0, &epsilon
		return c
	case "lbfgs":
		return c
	}
	c.Epsilon, c.Delta = &epsilon, new(delta)
	c.Neighbouring = string(accountant.AddRemove) // of all methods, whatever their defaults
	switch optimizer {
	case "outpert-gd":
		if accounting == paperAccounting {
			c.Outpert.Form = outpert.Paper
		}
		return c
	case "outpert-rsgd":
		c.Outpert.Average = true // section 5.3
		return c
	case "objpert":
		if accounting == paperAccounting {
			c.Objpert.Form = objpert.Paper
		}
		return c
	case "privgene":
		return c
	}
	c.Clip = 3
	batches := accountant.Fresh // a search's accountant follows from them
	if accounting == paperAccounting {
		batches = accountant.PaperBatches
	}
	switch optimizer {
	case "dp-agd":
		c.Search = train.Search{Batches: string(batches)}
		c.Steps = new(e.Steps(mostSteps))
	case "dp-blsgd", "dp-blsgd-ac", "dp-blgd":
		c.Search = train.Search{Batches: string(batches), Noise: string(accountant.BTLSLaplace)}
		c.LR, c.Steps = new(linearStart), new(e.Steps(mostSteps))
		if optimizer != "dp-blgd" {
			c.SamplingRate = new(0.1)
		}
	case "dp-sgd":
		c.SamplingRate, c.Steps, c.LR = new(0.1), new(min(sgdSteps, e.Steps(mostSteps))), new(sgdRate)
		if accounting == paperAccounting {
			c.Accountant = accountant.Paper
		}
	}
	return c
}

const (
	delta       = 1e-8 // section 5.4, of all experiments
	linearStart = 2.0
	mostSteps   = 10_000 // of a run that its budget ends
	sgdSteps    = 100
	sgdRate     = 0.5
	mostSeeds   = folds // of open comparisons: one for each fold

	// How far means may lie apart where the paper calls a method robust: the words are its, the figure ours.
	flatWithin = 0.02
)

var linearHow = []string{
	"All methods have add-remove: a record is there or not.",
	"Settings of section 5.4: q = 0.1, C_grad = 3, C_obj = 1, α = 0.5, β = 0.8, τ = 10, ς = 1.2, φ_max = 1.1, φ_min = 0.5, ψ = 0.8, ξ = 0.3, ζ = 0.05 with adaptive clipping, L2 0.001, δ = 1e-8, first budgets of ε/(2·50), and Laplace noise.",
	fmt.Sprintf("The paper does not say where a search starts (here η₀ = %g), how many candidates it tries at most (here 20), or how DP-SGD is set (here q = 0.1, and %d steps with learning rate %g).", linearStart, sgdSteps, sgdRate),
	"DP-AGD runs as its authors' program does, with this program's defaults: directions are divided by their norm, 20 steps in (0, 2], C_obj = 3, first budgets of ε/(2·60), γ = 0.1.",
	"\"paper\" uses one batch for gradient and search, and amplifies each by itself, by theorem 2, lemma 4 and proposition 1. This is NOT a guarantee (docs/proofs/line-search.md). \"ours\" draws a separate batch for every search, and this program's accountants compute the privacy cost.",
	"Tables have ten folds, and seed s holds out fold s. So open comparisons get ten seeds at most: others would hold out the same folds again. Categories are one-hot. Numbers are scaled from public bounds to [0, 1] (docs/guides/own-table.md). So dimensions are near the paper's, but not equal to them.",
}

// mostReleases is how many releases of batches at rate q the paper's arithmetic
// pays for at most, were each of noise alone: proposition 1 over the orders 2 to 500
// of section 4.3, and lemma 4, whose factor 3 charges 1/(α−1)·ln(1 + 2·P(X ≥ 3)), X
// binomial of α and q, where nothing is released.
func mostReleases(epsilon, q float64) float64 {
	most := 0.0
	for a := 2.0; a <= 500; a++ {
		left := epsilon - math.Log(1/delta)/(a-1)
		few := math.Pow(1-q, a-1)*(a*q-q+1) + a*(a-1)/2*q*q*math.Pow(1-q, a-2)
		if least := math.Log(1+2*(1-few)) / (a - 1); left > 0 {
			most = max(most, left/least)
		}
	}
	return most
}

// room judges section 5.4's expectation against the paper's own arithmetic.
func room(budgets []float64) reproduce.Claim {
	c := reproduce.Claim{Claim: "a run makes about 50 iterations, each with at least a gradient and a search (section 5.4, q = 0.1)", Verdict: reproduce.Agrees}
	var found []string
	for _, epsilon := range budgets {
		n := math.Floor(mostReleases(epsilon, 0.1))
		found = append(found, fmt.Sprintf("%.0f at ε = %g", n, epsilon))
		if n < 100 {
			c.Verdict = reproduce.Contradicts
		}
	}
	c.Found = "by proposition 1 and lemma 4, ε pays for at most this many releases, however noisy they are: " +
		strings.Join(found, ", ") + " (orders 2 to 500, as in the example of section 4.3)"
	return c
}
