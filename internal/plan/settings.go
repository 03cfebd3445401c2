package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/dpoptim/local"
	"github.com/privgrad/privgrad/dpoptim/objpert"
	"github.com/privgrad/privgrad/dpoptim/outpert"
	"github.com/privgrad/privgrad/dpoptim/rrpsgd"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// Where help shows a setting.
var (
	inPrivacy  = Group{Title: "Privacy"}
	inData     = Group{Title: "Data"}
	inModel    = Group{Title: "Model"}
	inTraining = Group{Title: "Training"}
	inSpeed    = Group{Title: "Speed and memory"}

	onPrivacy    = Group{"Privacy", "privacy"}
	onClipping   = Group{"Privacy", "clipping"}
	onOwnData    = Group{"Data", "own-data"}
	onFeatures   = Group{"Model", "features"}
	onInit       = Group{"Model", "init"}
	onOptimizers = Group{"Training", "optimizers"}
	onSchedules  = Group{"Training", "schedules"}
	onAdam       = Group{"Training", "adam"}
	onSearch     = Group{"Training", "search"}
	onL2P        = Group{"Training", "l2p"}
	onConvex     = Group{"Training", "convex"}
	onSpeed      = Group{"Speed and memory", "speed"}
)

// settings has a row for every field of Config and Search. The flags of privgrad train,
// their help, the checks of single values and the identity of a run follow from it. What
// several settings must be together, Config.check says. A row's Help is a phrase of at
// most 75 characters where it stands in train --help, so that it fits one line.
var settings = []Setting{
	{Key: "epsilon", Group: inPrivacy, Arg: "E", limit: positive, instead: "noise_multiplier",
		Help: "privacy budget; privgrad computes the noise that it needs"},
	{Key: "delta", Group: inPrivacy, Arg: "D", limit: must(func(x float64) bool { return x >= 0 && x < 1 }, "in [0, 1), and well below one over the number of records"),
		Help: "δ: at most 1/(10 × records) (default 1e-05 for published data)"},
	{Key: "noise_multiplier", Group: inPrivacy, name: "noise multiplier", instead: "epsilon",
		limit: must(func(z float64) bool { return z == 0 || z >= leastNoise && z <= mostNoise }, "%s, or 0 for no noise", noiseRange),
		Help:  "set the noise instead of --epsilon, in units of --clip; 0: NOT PRIVATE"},
	{Key: "clip", Group: inPrivacy, Arg: "C", Help: "clip each gradient to this norm (default 1; dp-agd 3); adaptive: start here"},
	{Key: "clipping", Group: inPrivacy, limit: oneOf(texts(perexample.Clippings())...), Help: choices(perexample.Clippings())},
	{Key: "clip_quantile", Group: onClipping, with: "clipping", Help: "adaptive: share of gradients to leave unclipped (default 0.5)"},
	{Key: "clip_floor", Group: onClipping, Arg: "C", with: "clipping", Help: "adaptive: smallest clip norm, public (default 0.001 × --clip)"},
	{Key: "clip_ceiling", Group: onClipping, Arg: "C", with: "clipping", Help: "adaptive: largest clip norm, public (default 1000 × --clip)"},
	{Key: "accountant", Group: onPrivacy, limit: oneOf(accountant.Names()...), Help: choices(accountant.Names()) + "; prv and paper give NO GUARANTEE"},
	{Key: "neighbouring", Group: onPrivacy, Arg: "REL", name: "neighbouring relation", limit: oneOf(string(accountant.AddRemove), string(accountant.ReplaceOne)),
		Help: "how two data sets may differ: add-remove or replace-one"},
	{Key: "noise", Group: onPrivacy, Arg: "MODE", limit: oneOf(noiseSecure, noiseExact, noiseSeeded),
		Help: "secure; exact (sums in integers, the same in any order; slower); seeded (NOT PRIVATE, for experiments that must repeat)"},
	{Key: "train_loss_noise", Group: onPrivacy, limit: within(leastNoise, mostNoise, "a noise multiplier %s", noiseRange),
		Help: "report the training loss, with this noise multiplier; costs privacy"},
	{Key: "private_diagnostics", Group: onPrivacy, Help: "write un-noised figures to OUT.private, for the data's owner only"},
	{Key: "data_is_public", Group: onPrivacy, Help: "show un-noised figures; the run has NO GUARANTEE"},

	{Key: "data", Group: inData, Arg: "SET", Help: "data set; of your own csv:PATH, dir:PATH, npz:PATH, shards:PATH: `privgrad help own-data`"},
	{Key: "data_dir", Group: inData, Arg: "DIR", with: "data", resume: always, Help: "folder of the data files, or of mnist/, cifar10/, tabular/ (or $" + DataDirVariable + ")"},
	{Key: "classes", Group: inData, Help: "train on these classes only, such as 3,5; two make a binary task"},
	{Key: "class_names", Group: onOwnData, Arg: "LIST", with: "data", Help: "your own images: the classes, such as cat,dog (default: classes.txt)"},
	{Key: "positive", Group: onOwnData, Arg: "CLASS", with: "data", Help: "train to tell this class, by name or number, from all others"},
	{Key: "public_n", Group: inData, limit: within(1, math.MaxInt, "the public number of training records, 1 or more"),
		Help: "your own data: at least the records of the table, or the training images"},
	{Key: "count_records", Group: onOwnData, Help: "your own data: begin with a noisy count of usable records, and stop if they are far too few (default true from 500 public records on; costs next to nothing)"},
	{Key: "published_set", Group: inData, Help: "the files are the published data set: its size and test set are public"},
	{Key: "test_is_public", Group: inData, Help: "the test records are public: show accuracy and loss on them"},
	{Key: "image_size", Group: onOwnData, Arg: "SIZE", with: "data", Help: "your own images and arrays: size of a record, such as 3x32x32 (colors), 28x28 (gray), or a number of values (default " + datasets.DefaultSize + ")"},
	{Key: "schema", Group: onOwnData, Arg: "FILE", Help: "csv: schema of public bounds and categories, a YAML file (default PATH.schema.yaml) or one of " + strings.Join(tabular.SchemaNames(), ", ")},
	{Key: "folds", Group: onOwnData, limit: must(func(n int) bool { return n == 0 || n >= 2 && n <= mostFolds }, "2 to %d, or 0 for none", mostFolds),
		Help: "csv: split the records into this many folds and hold one out"},
	{Key: "fold", Group: onOwnData, Help: "csv: the fold to hold out, from 1"},
	{Key: "drop_first", Group: onOwnData, Help: "csv: give the first category of each column no value of its own"},

	{Key: "recipe", Group: inModel, limit: unlessEmpty(oneOf(autoRecipe, recipes.Best, noRecipe)),
		Help: "best, none; auto: best where you give none of its settings"},
	{Key: "recipe_chosen_on", Help: "data on which the recipe chose the settings; filled in, and shown in the result"},
	{Key: "features", Group: inModel, limit: unlessEmpty(oneOf(append(features.Kinds(), noFeatures)...)),
		Help: "fixed public image features: " + strings.Join(append(features.Kinds(), noFeatures), ", ")},
	{Key: "whiten", Group: onFeatures, with: "features", limit: unlessEmpty(oneOf(features.Whitenings()...)),
		Help: "kind of synthetic images that decorrelate the features: " + choices(features.Whitenings()) + " (default leaves)"},
	{Key: "mirror", Group: onFeatures, with: "features", Help: "average the features of an image and its mirror image; not for digits or letters"},
	{Key: "deskew", Group: onFeatures, with: "features", Help: "shear each image upright before its features; for handwriting, light on dark"},
	{Key: "model", Group: inModel, limit: unlessEmpty(func(name string, value any) error { return oneOf(models()...)(name, value) }), Help: "network (default by the data; `privgrad info` lists all)"},
	{Key: "activation", Group: inModel, limit: oneOf("tanh", "relu", "sigmoid"), Help: "tanh, relu or sigmoid"},
	{Key: "init", Group: inModel, Arg: "FILE", Help: "start from this model.safetensors; it must not depend on the private data"},
	{Key: "init_layers", Group: onInit, Arg: "LIST", with: "init", Help: "take these layers alone from the file of --init, such as conv1,conv2; the others start as they would without it"},
	{Key: "seed", Group: inModel, Help: "seed of the first weights; with --noise seeded, of everything"},

	{Key: "optimizer", Group: inTraining, limit: oneOf(Optimizers()...), Help: "dp-sgd, dp-adam, …; all: `privgrad help optimizers`"},
	{Key: "batch", Group: inTraining, limit: positive, instead: "sampling_rate", Help: "expected batch size (default 1024)"},
	{Key: "sampling_rate", Group: inTraining, Arg: "Q", name: "sampling rate", limit: must(func(q float64) bool { return q > 0 && q <= 1 }, "in (0, 1]"), instead: "batch",
		Help: "probability that a record joins a batch, instead of --batch"},
	{Key: "sampling", Group: onPrivacy, limit: unlessEmpty(oneOf(batches.Offered()...)),
		Help: "how batches are drawn: poisson (default); fixed-size: l2p only, under replace-one, where it is the default relation"},
	{Key: "epochs", Group: inTraining, limit: positive, instead: "steps", Help: "passes over the data (default 20)"},
	{Key: "steps", Group: inTraining, limit: within(1, mostSteps, "1 to %d", mostSteps), instead: "epochs", Help: "number of updates, instead of --epochs"},
	{Key: "lr", Group: inTraining, name: "learning rate", limit: positive, Help: "learning rate (default by optimizer and model)"},
	{Key: "eval_every", Group: inTraining, limit: within(0, math.MaxInt, "a number of steps, or 0 for once per epoch"),
		Help: "steps between evaluations (default 0: each epoch; full batches: 20 in all)"},
	{Key: "tensorboard", Group: inTraining, resume: always, Help: "also write evaluations for TensorBoard, in the run directory"},
	{Key: "momentum", Group: onOptimizers, limit: must(belowOne, "in [0, 1)"), Help: "heavy-ball momentum (default 0)"},
	{Key: "l2", Group: onOptimizers, limit: within(0, math.MaxFloat64, "a finite number, 0 or more"), Help: "weight decay (default 0)"},
	{Key: "lr_schedule", Group: onSchedules, Help: "learning rate over the run: " + choices(dpoptim.Shapes()) + ", which falls to 0"},
	{Key: "warmup", Group: onSchedules, Help: "steps in which the learning rate rises to --lr (default 0)"},
	{Key: "average", Group: onSchedules, limit: must(belowOne, "a decay in (0, 1), or 0 for no average"),
		Help: "also keep a moving average of the weights, with this decay, such as 0.99; costs no privacy (default 0: none)"},

	{Key: "beta1", Group: onAdam, Help: "decay of the first moment (default 0.9)"},
	{Key: "beta2", Group: onAdam, Help: "decay of the second moment (default 0.999)"},
	{Key: "adam_epsilon", Group: onAdam, Help: "added to the root of the second moment (default 1e-08)"},
	{Key: "subtract_noise_variance", Group: onAdam, Help: "dp-adam: take the noise's known variance out of the second moment (DP-AdamBC)"},

	{Key: "protector", Group: onL2P, Help: "a name that `privgrad l2p list` shows, or a file that `privgrad l2p train` wrote"},
	{Key: "protector_sha256", Group: onL2P, Arg: "HASH", Help: "refuse a protector with other weights; filled in for config.yaml"},
	{Key: "norm_noise", Group: onL2P, Help: "also release the norm of each sum of gradients, with this noise multiplier; costs privacy"},

	{Key: "feature_norm", Group: onConvex, Arg: "Z", limit: within(leastLength, mostLength, "in [%g, %g]", leastLength, mostLength),
		Help: "scale each record's features to norm Z at most (default 1 for methods that need a bound; else as they are)"},
	{Key: "radius", Group: onConvex, limit: within(leastLength, mostLength, "in [%g, %g]", leastLength, mostLength), Help: "keep the weights in the ball of this radius around 0, by projection"},
	{Key: "rho", Group: onConvex, limit: positive, instead: "epsilon", Help: "pur-*: privacy budget ρ in zCDP, in place of --epsilon"},
	{Key: "pur_k", Group: onConvex, Arg: "K", limit: positive, Help: "pur-*: size of the noise over that of the gradient (default: as published, 1)"},
	{Key: "pur_sigma", Group: onConvex, Arg: "SIGMA", limit: positive, Help: "pur-constant: standard deviation of the noise on each coordinate of the mean gradient"},
	{Key: "outpert_form", Group: onConvex, limit: unlessEmpty(oneOf(outpert.Forms()...)),
		Help: "outpert-gd: tight, or the sensitivity, noise and steps as published (paper) (default tight)"},
	{Key: "outpert_average", Group: onConvex, Help: "outpert-rsgd: release the average of the iterates in place of the last one"},
	{Key: "objpert_form", Group: onConvex, limit: unlessEmpty(oneOf(objpert.Forms()...)),
		Help: "objpert: tight, or noise and regularizer as published (paper) (default tight)"},

	{Key: "step_decay", Group: onConvex, limit: must(func(x float64) bool { return x > 0 && x <= 1 }, "in (0, 1]"),
		Help: "privgene: factor on the step, --lr, from round to round (default 0.95)"},
	{Key: "local_noise", Group: onConvex, limit: unlessEmpty(oneOf(local.Noises()...)),
		Help: "banco: noise of a report, gamma or hemisphere (default: that with the smaller bound on the excess loss)"},

	{Key: "rrpsgd_form", Group: onOptimizers, limit: unlessEmpty(oneOf(rrpsgd.Forms()...)),
		Help: "rrpsgd: tight, or the noise as published (paper), at the price that it has (default tight)"},
	{Key: "smoothness", Group: onOptimizers, Arg: "BETA", limit: within(leastScale, mostScale, "in [%g, %g]", leastScale, mostScale),
		Help: "rrpsgd: public bound β on how fast a network's gradient changes; sets its step (default 1)"},

	{Key: "search.form", Group: onSearch, Help: "question to each record: " + choices(blsgd.Forms()) + " (clipped decreases, a released curve of them, losses as published, or for dp-agd the least loss)"},
	{Key: "search.budget", Group: onSearch, Help: "whether budgets stay fixed (default for networks) or adapt after searches that fail (default for linear models): " + choices(blsgd.Policies())},
	{Key: "search.batches", Group: onSearch, Help: "batch of a search: its own (fresh), that of the gradient (shared), or the same charged as in the paper (NO GUARANTEE): " + choices(blsgd.Batches())},
	{Key: "search.noise", Group: onSearch, Help: "distribution of the noise of a search: " + choices(blsgd.Noises())},
	{Key: "search.clip", Group: onSearch, Help: "bound on a record's loss or decrease (default by form: 0.1, 0.3 or 3; 1 for linear models, 3 with dp-agd)"},
	{Key: "search.every", Group: onSearch, Help: "steps from one search to the next (default 5; 1 in the published form)"},
	{Key: "search.share", Group: onSearch, Help: "fixed budget: share that searches get (default 0.1)"},
	{Key: "search.alpha", Group: onSearch, Help: "Armijo's α: share of the predicted decrease that a step must reach (default 0.3; published 0.001, linear models 0.5)"},
	{Key: "search.beta", Group: onSearch, Help: "factor from one candidate to the next (default 0.8)"},
	{Key: "search.trials", Group: onSearch, Help: "most candidates per search (default 20; 21 with dp-agd, which counts the step 0)"},
	{Key: "search.margin", Group: onSearch, Help: "extra decrease to demand, in standard deviations of the search's noise; below 0 every step passes that is not clearly too large (default -1.5; published 0)"},
	{Key: "search.correct", Group: onSearch, Help: "subtract the known energy of the noise from the slope (default true; published false)"},
	{Key: "search.start_every", Group: onSearch, Help: "searches between moves of the start (default 1; published 10)"},
	{Key: "search.start_factor", Group: onSearch, Help: "factor on the largest step since the last move, which gives the new start (default 2; published 1.2)"},
	{Key: "search.rise", Group: onSearch, Help: "let the start rise as well as fall (default true; published false)"},
	{Key: "search.start_most", Group: onSearch, Help: "largest start of a search (default 2 for dp-agd, else none)"},
	{Key: "search.normalise", Group: onSearch, Help: "dp-agd: divide the noisy gradient by its norm, before the penalty's gradient; costs no privacy (default true)"},
	{Key: "search.points", Group: onSearch, Help: "curve: number of points (default 9)"},
	{Key: "search.factor", Group: onSearch, Help: "curve: factor from one point to the next (default 2)"},
	{Key: "search.keep", Group: onSearch, Help: "curve: share of the largest decrease that a larger step must keep (default 0.5)"},
	{Key: "search.weight", Group: onSearch, Help: "weight of a new search in the moving average of step sizes (default 0.3; published 1)"},
	{Key: "search.iterations", Group: onSearch, Help: "adaptive budgets: iterations that the first budgets are made for (default 50; dp-agd 60)"},
	{Key: "search.growth", Group: onSearch, Help: "ξ: how much a budget grows (default 0.3)"},
	{Key: "search.shrink", Group: onSearch, Help: "ζ: how much clip norms shrink when gradients get more budget (default 0; dp-blsgd-ac 0.05)"},
	{Key: "search.wide", Group: onSearch, Help: "φ_max: gradients get more budget if the angle of two of them exceeds this times its average (default 1.1)"},
	{Key: "search.narrow", Group: onSearch, Help: "φ_min: searches get more budget if that angle is below this times its average (default 0.5)"},
	{Key: "search.decay", Group: onSearch, Help: "ψ: decay of the average angle (default 0.8)"},

	{Key: "device", Group: inSpeed, resume: always, Help: "auto, cpu, cuda, cuda:N or reference (slow)"},
	{Key: "threads", Group: inSpeed, limit: within(0, mostThreads, "1 to %d, or 0 for all cores", mostThreads), resume: always,
		Help: "CPU threads; they do not change the result (default 0: all)"},
	{Key: "memory", Group: inSpeed, Arg: "SIZE", limit: reads(func(text string) error { _, err := devices.ParseMemory(text); return err }), resume: unlessSeeded,
		Help: "memory for a batch, such as 2GiB (default a quarter of the device's)"},
	{Key: "max_physical_batch", Group: onSpeed, limit: within(0, math.MaxInt, "a number of records, or 0 to choose by memory"), resume: unlessSeeded,
		Help: "most records that are processed at once (default 0: as memory allows)"},
	{Key: "strategy", Group: onSpeed, limit: reads(func(text string) error { return perexample.Check(perexample.Strategy(text)) }),
		Help: "how per-record gradients are computed: " + choices(perexample.Strategies()) +
			"; a comma and conv1=gram sets that of one layer (" + choices(perexample.Choices()) + ")"},
	{Key: "precision", Group: onSpeed, limit: oneOf(device.Precisions()...),
		Help: "precision of matrix products: float32; on a GPU also tf32 (11 bits, in 3×3 convolutions alone: twice as fast on CIFAR-10 networks) and bf16 (8 bits); the guarantee holds for each; bf16 needs 0.8% more noise at batch 1024"},
	{Key: "gemm", Group: onSpeed, limit: oneOf(devices.GEMMOwn, devices.GEMMCuBLAS), resume: unlessSeeded,
		Help: "matrix products of dense layers: own kernels, or cublas (NVIDIA's library, on a GPU; results may differ in the last bits)"},
}

// Limits of more than one setting.
var (
	positive   = within(math.SmallestNonzeroFloat64, math.MaxFloat64, "a finite number above 0")
	noiseRange = fmt.Sprintf("in [%g, %g]", leastNoise, mostNoise)
	belowOne   = func(x float64) bool { return x >= 0 && x < 1 }
)

// models are those of package nn, and networks of a user's own that were registered there.
func models() (names []string) {
	for _, m := range nn.Names() {
		names = append(names, m.Name)
	}
	return names
}

// choices lists names.
func choices[T ~string](names []T) string { return strings.Join(texts(names), ", ") }

func texts[T ~string](all []T) (texts []string) {
	for _, t := range all {
		texts = append(texts, string(t))
	}
	return texts
}
