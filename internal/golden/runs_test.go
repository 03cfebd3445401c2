package golden

import "github.com/privgrad/privgrad/train"

// goldens are the recorded runs of every optimizer: each setting that changes what is
// done, not how well. A run's name is its key in the file.
var goldens = map[string][]golden{
	"sgd":     append(unprotected(0.5), rates(0.5)...),
	"adam":    append(unprotected(0.02), moments...),
	"dp-sgd":  append(append(protectedBy(0.5), rates(0.5)...), sgdAlone...),
	"dp-adam": append(append(protectedBy(0.02), moments...), adamAlone...),
	"dp-adamw": {
		{name: "decay", set: func(c *train.Config) { c.LR, c.L2 = of(0.02), 0.1 }},
		{name: "exact", random: true, set: func(c *train.Config) { c.LR, c.L2, c.Noise, c.NoiseMultiplier = of(0.02), 0.1, "exact", of(2.0) }},
		{name: "decay and average, interrupted", stops: []int{3}, set: func(c *train.Config) { c.LR, c.L2, c.Average = of(0.02), 0.1, 0.9 }},
	},
	"dp-blsgd":    append(fixedSearches, adaptiveSearches("dp-blsgd", false)...),
	"dp-blsgd-ac": adaptiveSearches("dp-blsgd-ac", false),
	"dp-blgd":     adaptiveSearches("dp-blgd", true),
	"dp-agd":      leastSearches,
	"l2p":         learned,
	"lbfgs": {
		{name: "plain", set: all(public(0), whole(of(8)))},
		{name: "penalty", set: all(public(0), whole(nil), func(c *train.Config) { c.L2 = 0.1 })},
		{name: "public", set: all(public(0), whole(of(3)), func(c *train.Config) { c.DataIsPublic = true })},
		{name: "own network", network: twoLayers, set: all(public(0), whole(of(4)), allClasses)},
		{name: "interrupted", stops: []int{0}, set: all(public(0), whole(of(3)))},
	},
	"majority": {
		{name: "plain", set: all(budget(1), whole(nil))},
		{name: "replace-one", set: all(budget(0.1), whole(nil), func(c *train.Config) { c.Neighbouring = "replace-one" })},
		{name: "all classes", set: all(budget(1), whole(nil), func(c *train.Config) { c.Classes, c.Model = []int{1, 2}, "" })},
	},
}

// all makes several changes.
func all(changes ...func(*train.Config)) func(*train.Config) {
	return func(c *train.Config) {
		for _, change := range changes {
			change(c)
		}
	}
}

// public is without noise or budget, at a learning rate.
func public(lr float64) func(*train.Config) {
	return func(c *train.Config) { c.NoiseMultiplier, c.LR = nil, &lr }
}

func rate(lr float64) func(*train.Config) {
	return func(c *train.Config) { c.LR = &lr }
}

// whole is what methods have that look at all records.
func whole(steps *int) func(*train.Config) {
	return func(c *train.Config) { c.Batch, c.LR, c.Steps = nil, nil, steps }
}

// budget gives an ε in the place of a noise multiplier.
func budget(epsilon float64) func(*train.Config) {
	return func(c *train.Config) { c.NoiseMultiplier, c.Epsilon = nil, &epsilon }
}

func allClasses(c *train.Config) { c.Classes, c.Model = nil, "" }

// table trains on the table by a schema.
func table(schema string) func(*train.Config) {
	return func(c *train.Config) {
		c.Data, c.Schema, c.Classes, c.Model, c.PublicN, c.Delta = "csv:t.csv", schema, nil, "", of(120), of(1e-5)
	}
}

func fold(c *train.Config) { c.Folds, c.Fold = 4, 3 }

func unprotected(lr float64) []golden {
	p := public(lr)
	return []golden{
		{name: "plain", set: p},
		{name: "penalty and average", set: all(p, func(c *train.Config) { c.L2, c.Average = 1e-3, 0.8 })},
		{name: "public", set: all(p, func(c *train.Config) { c.DataIsPublic = true })},
		{name: "diagnostics", set: all(p, func(c *train.Config) { c.PrivateDiagnostics = true })},
		{name: "own network", network: twoLayers, set: all(p, allClasses)},
		{name: "interrupted", stops: []int{2, 3}, set: all(p, func(c *train.Config) { c.Average = 0.8 })},
		{name: "fold of a table", set: all(p, table("classes.yaml"), fold)},
	}
}

// rates are of optimizers that take momentum; moments are Adam's.
func rates(lr float64) []golden {
	p := func(c *train.Config) {
		if c.LR = &lr; c.Optimizer == "sgd" {
			c.NoiseMultiplier = nil
		}
	}
	return []golden{
		{name: "momentum", set: all(p, func(c *train.Config) { c.Momentum = 0.9 })},
		{name: "momentum and average, interrupted", stops: []int{4}, set: all(p, func(c *train.Config) { c.Momentum, c.Average = 0.9, 0.9 })},
		{name: "cosine after warmup", set: all(p, func(c *train.Config) { c.LRSchedule, c.Warmup, c.EvalEvery = "cosine", 3, 1 })},
		{name: "rate and epochs", set: all(p, func(c *train.Config) {
			c.Batch, c.Steps, c.SamplingRate, c.Epochs, c.EvalEvery = nil, nil, of(0.2), of(1.3), 0
		})},
		{name: "support vectors", set: all(p, func(c *train.Config) { c.Model = "svm" })},
		{name: "smooth support vectors", set: all(p, func(c *train.Config) { c.Model, c.Steps = "huber-svm", of(3) })},
	}
}

var moments = []golden{
	{name: "moments", set: func(c *train.Config) {
		if c.LR = of(0.02); c.Optimizer == "adam" {
			c.NoiseMultiplier = nil
		}
		c.Adam.Beta1, c.Adam.Beta2, c.Adam.Epsilon, c.LRSchedule, c.Warmup = of(0.8), of(0.95), of(1e-3), "cosine", 2
	}},
}

// protectedBy are the runs that both optimizers of one release a step have.
func protectedBy(lr float64) []golden {
	at := rate(lr)
	clipping := func(kind string) func(*train.Config) {
		return func(c *train.Config) { c.Clipping = kind }
	}
	runs := []golden{
		{name: "plain", set: at},
		{name: "by pld", set: all(at, func(c *train.Config) { c.Accountant = "pld" })},
		{name: "budget", set: all(at, budget(2))},
		{name: "replace-one", set: all(at, func(c *train.Config) { c.Neighbouring = "replace-one" })},
		{name: "penalty and average", set: all(at, func(c *train.Config) { c.L2, c.Average, c.Clip = 1e-3, 0.8, 0.3 })},
		{name: "without noise", set: all(at, func(c *train.Config) { c.NoiseMultiplier = of(0.0) })},
		{name: "loss", set: all(at, func(c *train.Config) { c.TrainLossNoise = of(2.0) })},
		{name: "loss and budget", set: all(at, budget(2), func(c *train.Config) { c.TrainLossNoise = of(2.0) })},
		{name: "public", set: all(at, func(c *train.Config) { c.DataIsPublic = true })},
		{name: "diagnostics", set: all(at, func(c *train.Config) { c.PrivateDiagnostics = true })},
		{name: "adaptive and loss", set: all(at, clipping("adaptive"), func(c *train.Config) {
			c.TrainLossNoise, c.EvalEvery = of(3.0), 2
		})},
		{name: "adaptive within bounds, interrupted", stops: []int{3}, set: all(at, clipping("adaptive"), budget(4), func(c *train.Config) {
			c.ClipQuantile, c.ClipFloor, c.ClipCeiling = of(0.3), of(0.5), of(1.5)
		})},
		{name: "average, interrupted", stops: []int{1, 4}, set: all(at, func(c *train.Config) { c.Average = 0.9 })},
		{name: "exact", random: true, set: all(at, func(c *train.Config) { c.Noise, c.NoiseMultiplier = "exact", of(2.0) })},
		{name: "secure", random: true, set: all(at, func(c *train.Config) { c.Noise, c.TrainLossNoise = "secure", of(2.0) })},
	}
	for _, kind := range []string{"flat", "per-layer", "automatic", "adaptive"} {
		runs = append(runs, golden{name: "own network, " + kind, network: twoLayers, set: all(at, allClasses, clipping(kind))})
	}
	return runs
}

var sgdAlone = []golden{
	{name: "chunks", network: twoLayers, set: all(allClasses, func(c *train.Config) { c.MaxPhysicalBatch, c.Strategy = 7, "microbatch" })},
	{name: "by ghosts", network: twoLayers, set: all(allClasses, func(c *train.Config) { c.Strategy = "ghost" })},
	{name: "fold of a table", set: all(table("classes.yaml"), fold)},
	{name: "table with a share held out", set: all(table("shares.yaml"))},
	{name: "table of numbers", set: all(table("number.yaml"))},
	{name: "public number", set: func(c *train.Config) { c.PublicN = of(90) }},
	{name: "by prv", set: func(c *train.Config) { c.Accountant = "prv" }},
	{name: "momentum without noise on all records", set: func(c *train.Config) {
		c.NoiseMultiplier, c.Momentum, c.Batch, c.SamplingRate = of(0.0), 0.5, nil, of(1.0)
	}},
}

var adamAlone = []golden{
	{name: "without the noise's variance", set: all(rate(0.02), func(c *train.Config) { c.Adam.SubtractNoise = true })},
	{name: "without the noise's variance, per layer", network: twoLayers, set: all(rate(0.02), allClasses, func(c *train.Config) {
		c.Adam.SubtractNoise, c.Clipping, c.Average = true, "per-layer", 0.7
	})},
}

// searched sets a search from a step size on.
func searched(start float64, s train.Search) func(*train.Config) {
	return func(c *train.Config) {
		c.LR, c.L2, c.Search = &start, 0.01, s
	}
}

// fixedSearches are of budgets planned before the run.
var fixedSearches = func() (runs []golden) {
	for _, form := range []string{"losses", "differences", "curve"} {
		for _, batches := range []string{"fresh", "shared", "paper"} {
			for _, noise := range []string{"gaussian", "laplace"} {
				if form == "curve" && (batches == "paper" || noise == "laplace") {
					continue // refused
				}
				s := train.Search{Budget: "fixed", Form: form, Batches: batches, Noise: noise}
				if batches != "paper" {
					s.Every = of(2)
				}
				if form != "curve" {
					s.Trials, s.StartEvery = of(5), of(2)
				}
				change := searched(2, s)
				if batches == "paper" {
					change = all(change, func(c *train.Config) { c.Accountant = train.Default().Accountant })
				}
				runs = append(runs, golden{name: form + ", " + batches + ", " + noise, set: change})
			}
		}
	}
	fixed := func(s train.Search) train.Search { s.Budget = "fixed"; return s }
	return append(runs,
		golden{name: "defaults of a fixed budget", set: searched(0.5, fixed(train.Search{}))},
		golden{name: "budget", set: all(searched(0.5, fixed(train.Search{Every: of(3)})), budget(3))},
		golden{name: "without noise", set: all(searched(4, fixed(train.Search{Every: of(2)})), func(c *train.Config) { c.NoiseMultiplier = of(0.0) })},
		golden{name: "many trials", set: searched(400, fixed(train.Search{Form: "losses", Trials: of(40), Margin: of(0.5)}))},
		golden{name: "no rise, own weight", set: searched(2, fixed(train.Search{Rise: of(false), Weight: of(0.6), StartFactor: of(1.5), Share: of(0.3), Alpha: of(0.1), Beta: of(0.6), Correct: of(false)}))},
		golden{name: "few points", set: searched(1, fixed(train.Search{Form: "curve", Points: of(5), Factor: of(3.0), Keep: of(0.8)}))},
		golden{name: "loss", set: all(searched(0.5, fixed(train.Search{})), func(c *train.Config) { c.TrainLossNoise = of(2.0) })},
		golden{name: "average, per layer, own network", network: twoLayers, set: all(searched(0.5, train.Search{}), allClasses, func(c *train.Config) {
			c.Average, c.Clipping = 0.8, "per-layer"
		})},
		golden{name: "interrupted", stops: []int{1, 3}, set: searched(0.5, fixed(train.Search{Every: of(2)}))},
		golden{name: "warmup", set: all(searched(0.5, fixed(train.Search{Every: of(2)})), func(c *train.Config) { c.LRSchedule, c.Warmup, c.EvalEvery = "cosine", 2, 1 })},
		golden{name: "curve, secure", random: true, set: all(searched(0.5, fixed(train.Search{Form: "curve", Every: of(2)})), func(c *train.Config) { c.Noise = "secure" })},
	)
}()

// adapting is a run whose budgets move.
func adapting(start, epsilon float64, full bool, s train.Search) func(*train.Config) {
	return all(searched(start, s), budget(epsilon), func(c *train.Config) {
		if c.Accountant = train.Default().Accountant; full {
			c.Batch = nil
		}
	})
}

// adaptiveSearches are of budgets that follow what was released.
func adaptiveSearches(optimizer string, full bool) (runs []golden) {
	policies := []string{""}
	if optimizer == "dp-blsgd" {
		policies = []string{"adaptive", "always", "never", "refine"}
	}
	for _, policy := range policies {
		name := ""
		if policy != "" {
			name = policy + ", "
		}
		quick := train.Search{Budget: policy, Iterations: of(8), Trials: of(3), Beta: of(0.5), StartEvery: of(2)}
		for _, form := range []string{"losses", "differences"} {
			for _, noise := range []string{"gaussian", "laplace"} {
				if rest := policy != "" && policy != "adaptive"; rest && (form == "differences" || noise == "gaussian") {
					continue // as the first policy's
				}
				s := quick
				s.Form, s.Noise = form, noise
				runs = append(runs, golden{name: name + form + ", " + noise, set: adapting(4, 2, full, s)})
			}
		}
		shared := quick
		shared.Batches, shared.Wide, shared.Narrow, shared.Decay = "shared", of(1.05), of(0.9), of(0.3)
		runs = append(runs, golden{name: name + "shared, by the angle", set: adapting(8, 3, full, shared)})
		if policy != "" && policy != "adaptive" {
			continue
		}
		long := quick
		long.Iterations = of(400)
		runs = append(runs,
			golden{name: name + "bounded by steps, interrupted", stops: []int{2, 2}, set: all(adapting(2, 20, full, long), func(c *train.Config) { c.Average = 0.9 })},
			golden{name: name + "without noise", set: all(adapting(4, 2, full, quick), func(c *train.Config) { c.Epsilon, c.NoiseMultiplier, c.Steps = nil, of(0.0), of(3) })},
		)
	}
	if full {
		replacing := train.Search{Iterations: of(8), Trials: of(3), StartEvery: of(2)}
		runs = append(runs, golden{name: "replace-one", set: all(adapting(4, 4, full, replacing), func(c *train.Config) { c.Neighbouring = "replace-one" })})
	}
	paper := train.Search{Batches: "paper", Iterations: of(8), Trials: of(3), StartEvery: of(2)}
	shrinking := train.Search{Iterations: of(8), Trials: of(3), StartEvery: of(2), Shrink: of(0.2), Growth: of(0.5)}
	return append(runs,
		golden{name: "paper", set: adapting(4, 2, full, paper)},
		golden{name: "shrinking clip norms", set: adapting(8, 3, full, shrinking)},
		golden{name: "defaults", set: all(adapting(2, 2, full, train.Search{}), func(c *train.Config) { c.Steps = of(3) })},
		golden{name: "public, own network", network: twoLayers, set: all(adapting(2, 4, full, train.Search{Budget: adaptiveOf(optimizer), Iterations: of(8), Trials: of(3)}), allClasses, func(c *train.Config) {
			c.DataIsPublic, c.PrivateDiagnostics = true, true
		})},
	)
}

// adaptiveOf is a budget that adapts, where an optimizer leaves the choice.
func adaptiveOf(optimizer string) string {
	if optimizer == "dp-blsgd" {
		return "adaptive"
	}
	return ""
}

// leastSearches are of the noisy minimum.
var leastSearches = func() (runs []golden) {
	quick := train.Search{Iterations: of(6), Trials: of(4), StartEvery: of(2)}
	for _, batches := range []string{"fresh", "shared", "paper"} {
		s := quick
		s.Batches = batches
		runs = append(runs, golden{name: batches, set: adapting(2, 2, true, s)})
	}
	long := quick
	long.Iterations = of(400)
	return append(runs,
		golden{name: "defaults", set: all(adapting(2, 2, true, train.Search{}), func(c *train.Config) { c.Steps = of(3) })},
		golden{name: "many candidates", set: adapting(2, 2, true, train.Search{Iterations: of(6), Trials: of(32), Growth: of(0.4), StartFactor: of(1.5)})},
		golden{name: "bounded by steps, interrupted", stops: []int{2, 2}, set: adapting(2, 20, true, long)},
		golden{name: "without noise", set: all(adapting(2, 2, true, quick), func(c *train.Config) { c.Epsilon, c.NoiseMultiplier, c.Steps = nil, of(0.0), of(3) })},
		golden{name: "replace-one", set: all(adapting(2, 3, true, quick), func(c *train.Config) { c.Neighbouring = "replace-one" })},
		golden{name: "own network", network: twoLayers, set: all(adapting(2, 3, true, quick), allClasses)},
	)
}()

// protector is one of the protectors of random weights.
func protector(name string) func(*train.Config) {
	return func(c *train.Config) {
		c.L2P.Protector = name + ".safetensors"
		if name == "projector" || name == "both" {
			c.LR = nil
		}
		if name == "scheduler" || name == "both" {
			c.Accountant = train.Default().Accountant
			budget(2)(c)
		}
	}
}

// subsets are of a fixed size, by the accountant that they need.
func subsets(c *train.Config) {
	c.Accountant, c.Neighbouring, c.Batch = "ctcdp", "replace-one", of(8.0)
	budget(2)(c)
}

var learned = func() (runs []golden) {
	for _, name := range []string{"identity", "projector", "scheduler", "both"} {
		p := protector(name)
		runs = append(runs,
			golden{name: name, set: p},
			golden{name: name + ", subsets", set: all(p, subsets)},
			golden{name: name + ", interrupted", stops: []int{2, 2}, set: all(p, func(c *train.Config) { c.Average = 0.9 })},
			golden{name: name + ", subsets, interrupted", stops: []int{3}, set: all(p, subsets)},
			golden{name: name + ", without noise", set: all(p, func(c *train.Config) { c.Epsilon, c.NoiseMultiplier, c.Steps = nil, of(0.0), of(3) })},
			golden{name: name + ", own network", network: twoLayers, set: all(p, allClasses, func(c *train.Config) { c.L2 = 1e-3 })},
		)
	}
	return append(runs,
		golden{name: "identity, momentum and loss", set: all(protector("identity"), func(c *train.Config) { c.Momentum, c.TrainLossNoise = 0.5, of(2.0) })},
		golden{name: "identity, cosine", set: all(protector("identity"), func(c *train.Config) { c.LRSchedule, c.Warmup, c.EvalEvery = "cosine", 2, 1 })},
		golden{name: "projector, budget", set: all(protector("projector"), budget(2))},
		golden{name: "projector, its own steps", set: all(protector("projector"), func(c *train.Config) { c.Steps = nil })},
		golden{name: "projector, cosine, per layer", network: twoLayers, set: all(protector("projector"), allClasses, func(c *train.Config) {
			c.LRSchedule, c.Clipping = "cosine", "per-layer"
		})},
		golden{name: "both, norms", set: all(protector("both"), func(c *train.Config) { c.L2P.NormNoise = of(3.0) })},
		golden{name: "scheduler, norms, interrupted", stops: []int{2}, set: all(protector("scheduler"), func(c *train.Config) { c.L2P.NormNoise = of(3.0) })},
		golden{name: "scheduler, norms of subsets", set: all(protector("scheduler"), subsets, budget(5), func(c *train.Config) { c.L2P.NormNoise = of(20.0) })},
		golden{name: "scheduler, replace-one", set: all(protector("scheduler"), func(c *train.Config) { c.Neighbouring = "replace-one" })},
		golden{name: "scheduler, public", set: all(protector("scheduler"), func(c *train.Config) { c.DataIsPublic, c.PrivateDiagnostics = true, true })},
		golden{name: "projector, shipped", set: all(protector("projector"), func(c *train.Config) { c.L2P.Protector = "mnist" })},
		golden{name: "projector, exact", random: true, set: all(protector("projector"), func(c *train.Config) { c.Noise = "exact" })},
	)
}()
