package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// settings has a row for every field of Config and Search. The flags of privgrad train,
// the checks of single values and the identity of a run follow from it. What several
// settings must be together, Config.check says.
var settings = []Setting{
	{Key: "epsilon", limit: positive, instead: "noise_multiplier",
		Help: "privacy budget ε; the noise is calibrated to it"},
	{Key: "noise_multiplier", name: "noise multiplier", instead: "epsilon",
		limit: must(func(z float64) bool { return z == 0 || z >= leastNoise && z <= mostNoise }, "%s, or 0 for no noise", noiseRange),
		Help:  "noise σ/C instead of a budget; ε follows, 0 means no noise and no privacy"},
	{Key: "delta", limit: must(func(x float64) bool { return x > 0 && x < 1 }, "in (0, 1), and well below one over the number of records"),
		Help: "δ of the guarantee, well below one over the number of records (default 1e-05 on built-in and published sets)"},

	{Key: "data", Help: "data set, or csv:PATH for a table"},
	{Key: "data_dir", resume: always, Help: "directory of the data set's files, where it is not built in (or " + DataDirVariable + ")"},
	{Key: "classes", Help: "keep these classes only, such as 3,5; two make a binary task"},
	{Key: "public_n", limit: within(1, math.MaxInt, "the public number of training records, 1 or more"),
		Help: "public number of records; required for data of your own. For a table it counts the part held out, too; with --classes only the classes kept"},
	{Key: "published_set", Help: "say that the files are the published data set: their size and test set are then public"},
	{Key: "test_is_public", Help: "say that the test records are public: figures of them are then shown"},

	{Key: "recipe", limit: unlessEmpty(oneOf(noRecipe, recipes.Best)),
		Help: "best: fill in what is left open with our most accurate settings for images and --epsilon, chosen on public data (default none)"},
	{Key: "recipe_chosen_on", Help: "data on which the settings were chosen; a recipe fills it in, and the result shows it"},
	{Key: "features", limit: unlessEmpty(oneOf(append(features.Kinds(), noFeatures)...)),
		Help: choice("images: fixed public features in the place of pixels, which cost no privacy", append(features.Kinds(), noFeatures)) + " (default none)"},
	{Key: "whiten", with: "features", limit: unlessEmpty(oneOf(features.Whitenings()...)),
		Help: choice("features: synthetic images by which their channels are decorrelated", features.Whitenings()) + " (default leaves)"},
	{Key: "mirror", with: "features", Help: "features: average those of an image and of its mirror image; not for digits or letters"},

	{Key: "schema", Help: choice("table: YAML file of public bounds and categories (default PATH.schema.yaml), or a known one", tabular.SchemaNames())},
	{Key: "folds", limit: must(func(n int) bool { return n == 0 || n >= 2 && n <= mostFolds }, "2 to %d, or 0 for none", mostFolds),
		Help: "table: deal the records into so many folds and hold one out"},
	{Key: "fold", Help: "table: the fold to hold out, from 1 on"},

	{Key: "model", limit: unlessEmpty(oneOf(models...)), Help: choice("model, by default cnn-mnist, cifar-small, logistic or huber-regression by the data", models)},
	{Key: "activation", limit: oneOf("tanh", "relu", "sigmoid"), Help: "tanh, relu or sigmoid"},
	{Key: "init", Help: "start from a model.safetensors; it must not depend on the private data"},
	{Key: "seed", Help: "of the initial weights; with --noise seeded of everything"},

	{Key: "optimizer", limit: oneOf(Optimizers()...), Help: choice("optimizer", Optimizers())},
	{Key: "protector", Help: "of optimizer l2p: a name that privgrad l2p list shows, or a file that privgrad l2p train wrote"},
	{Key: "protector_sha256", Help: "refuse a protector of other weights; a run fills it in, and its config.yaml keeps it"},
	{Key: "norm_noise", Help: "of optimizer l2p: also release the norm of every sum of gradients, for the scheduler of the next noise; its noise multiplier, charged with the sum's"},
	{Key: "batch", limit: positive, instead: "sampling_rate", Help: "expected batch, the sampling rate times the number of records (default 1024)"},
	{Key: "sampling_rate", name: "sampling rate", limit: must(func(q float64) bool { return q > 0 && q <= 1 }, "in (0, 1]"), instead: "batch",
		Help: "probability with which a record joins a batch, instead of --batch"},
	{Key: "epochs", limit: positive, instead: "steps", Help: "passes over the data (default 20)"},
	{Key: "steps", limit: within(1, mostSteps, "1 to %d", mostSteps), instead: "epochs", Help: "updates, instead of --epochs"},
	{Key: "clip", Help: "bound C on the norm of an example's share of a sum; with --clipping adaptive the first one"},
	{Key: "clipping", limit: oneOf(texts(perexample.Clippings())...), Help: choice("how an example's gradient is brought within --clip", texts(perexample.Clippings()))},
	{Key: "clip_quantile", with: "clipping", Help: "adaptive clipping: share of gradients to leave unclipped (default 0.5)"},
	{Key: "clip_floor", with: "clipping", Help: "adaptive clipping: public lower bound of the clip norm (default a thousandth of --clip)"},
	{Key: "clip_ceiling", with: "clipping", Help: "adaptive clipping: public upper bound of the clip norm (default a thousand times --clip)"},
	{Key: "lr", name: "learning rate", limit: positive, Help: "learning rate (default by optimizer and model)"},
	{Key: "lr_schedule", Help: choice("learning rate over the run", dpoptim.Shapes()) + ", which falls to 0"},
	{Key: "warmup", Help: "steps in which the learning rate rises evenly to --lr"},
	{Key: "average", limit: must(belowOne, "a decay in (0, 1), or 0 for no average"),
		Help: "decay of a moving average of the parameters, such as 0.99, kept and evaluated beside the last ones; 0 for none; costs no privacy"},
	{Key: "momentum", limit: must(belowOne, "in [0, 1)"), Help: "heavy-ball momentum"},
	{Key: "beta1", Help: "decay of Adam's first moment (default 0.9)"},
	{Key: "beta2", Help: "decay of Adam's second moment (default 0.999)"},
	{Key: "adam_epsilon", Help: "added to the root of Adam's second moment (default 1e-08)"},
	{Key: "subtract_noise_variance", Help: "dp-adam: take the noise's known variance out of the second moment (DP-AdamBC)"},
	{Key: "l2", limit: within(0, math.MaxFloat64, "a finite number, 0 or more"), Help: "weight decay"},

	{Key: "search.form", Help: choice("line search (dp-blsgd and its kin; --lr is where it starts): clipped decreases of every example, a released curve of them, or the published form", blsgd.Forms())},
	{Key: "search.budget", Help: choice("how budgets move: not at all (default of networks), or after searches that fail (adaptive is the default of linear models; admitted by a filter)", blsgd.Policies())},
	{Key: "search.batches", Help: choice("what a search is asked of: a batch of its own, the gradient's charged for both, or the gradient's by the paper's arithmetic (not a guarantee)", blsgd.Batches())},
	{Key: "search.noise", Help: choice("law of a search's noise", blsgd.Noises())},
	{Key: "search.clip", Help: "bound on an example's loss or decrease (default by form: 0.1, 0.3, or 3; 1 for linear models)"},
	{Key: "search.every", Help: "steps from one search to the next, which save up for it (default 5; 1 in the published form)"},
	{Key: "search.share", Help: "share of the budget that searches get, where it is fixed (default 0.1)"},
	{Key: "search.alpha", Help: "Armijo's α: share of the slope that a step must lower the loss by (default 0.3; published 0.001, linear models 0.5)"},
	{Key: "search.beta", Help: "factor from a candidate to the next (default 0.8)"},
	{Key: "search.trials", Help: "candidates at most (default 20)"},
	{Key: "search.margin", Help: "decrease that is asked for beyond, in standard deviations of the search's noise; below 0 a step is taken unless it is clearly too large (default -1.5; published 0)"},
	{Key: "search.correct", Help: "take the known energy of the noise out of the slope (default true; published false)"},
	{Key: "search.start_every", Help: "searches after which the start moves (default 1; published 10)"},
	{Key: "search.start_factor", Help: "the start moves to this times the largest step since (default 2; published 1.2)"},
	{Key: "search.rise", Help: "the start may also rise (default true; published false)"},
	{Key: "search.points", Help: "points of a curve (default 9)"},
	{Key: "search.factor", Help: "factor between a curve's neighbours (default 2)"},
	{Key: "search.keep", Help: "share of the curve's largest decrease that a larger step must keep (default 0.5)"},
	{Key: "search.weight", Help: "weight of a new search in the moving average of step sizes (default 0.3; published 1)"},
	{Key: "search.iterations", Help: "iterations that first budgets are made for, where they adapt (default 50)"},
	{Key: "search.growth", Help: "ξ: how much a budget grows (default 0.3)"},
	{Key: "search.shrink", Help: "ζ: how much clip bounds shrink where gradients get more budget (default 0; dp-blsgd-ac 0.05)"},
	{Key: "search.wide", Help: "φ_max: angle of two gradients, over its average, above which they get more budget (default 1.1)"},
	{Key: "search.narrow", Help: "φ_min: angle of two gradients, over its average, below which searches get more budget (default 0.5)"},
	{Key: "search.decay", Help: "ψ: decay of the average of angles (default 0.8)"},
	{Key: "eval_every", limit: within(0, math.MaxInt, "a number of steps, or 0 for once an epoch"), Help: "steps between evaluations on the test data, 0 for once an epoch"},

	{Key: "tensorboard", resume: always, Help: "also write the evaluations as events.out.tfevents… in the run directory, for TensorBoard"},

	{Key: "accountant", limit: oneOf(accountant.Names()...), Help: strings.Join(accountant.Names(), ", ") + "; prv (a cross-check) and paper (the papers' own figures) are no guarantee"},
	{Key: "neighbouring", name: "neighbouring relation", limit: oneOf(string(accountant.AddRemove), string(accountant.ReplaceOne)), Help: "relation between data sets: add-remove or replace-one"},
	{Key: "noise", limit: oneOf(noiseSecure, noiseExact, noiseSeeded),
		Help: "secure (from the operating system's randomness), exact (likewise, with sums in integers, which are the same in any order; slower), or seeded to reproduce a run, which protects nobody"},
	{Key: "train_loss_noise", limit: within(leastNoise, mostNoise, "a noise multiplier %s", noiseRange), Help: "release the training loss with this noise multiplier; it is charged"},
	{Key: "private_diagnostics", Help: "write un-noised diagnostics for the data's owner to OUT.private"},
	{Key: "data_is_public", Help: "the training data are public: show un-noised statistics, give no guarantee"},

	{Key: "device", resume: always, Help: "auto, cpu, cuda, cuda:N or reference (slow)"},
	{Key: "gemm", limit: oneOf(devices.GEMMOwn, devices.GEMMCuBLAS), resume: unlessSeeded,
		Help: "who multiplies the matrices of dense layers: own, or cublas on a GPU where NVIDIA's library is installed, whose bits are not promised"},
	{Key: "precision", limit: oneOf(device.Precisions()...),
		Help: "what factors of matrix products are rounded to: float32 (not at all), tf32 (11 digits) or bf16 (8), for the tensor cores of --device cuda; the guarantee holds in each, at batch 1024 for 0.3 % and 0.8 % more noise"},
	{Key: "threads", limit: within(0, mostThreads, "1 to %d, or 0 for all cores", mostThreads), resume: always, Help: "processor threads, 0 for all; no result depends on it"},
	{Key: "strategy", limit: reads(func(text string) error { return perexample.Check(perexample.Strategy(text)) }),
		Help: choice("per-example clipping by", texts(perexample.Strategies())) +
			"; conv1=gram after a comma sets one layer's (" + strings.Join(texts(perexample.Choices()), ", ") + ")"},
	{Key: "memory", limit: reads(func(text string) error { _, err := devices.ParseMemory(text); return err }), resume: unlessSeeded,
		Help: "bound on a batch's values and stored gradients, such as 2GiB (default a quarter of the machine's)"},
	{Key: "max_physical_batch", limit: within(0, math.MaxInt, "a number of records, or 0 to choose by memory"), resume: unlessSeeded,
		Help: "most records that go through the network together, 0 to go by memory"},
}

// Limits of more than one setting.
var (
	positive   = within(math.SmallestNonzeroFloat64, math.MaxFloat64, "a finite number above 0")
	noiseRange = fmt.Sprintf("in [%g, %g]", leastNoise, mostNoise)
	belowOne   = func(x float64) bool { return x >= 0 && x < 1 }
)

// models are those of package nn.
var models = func() (names []string) {
	for _, m := range nn.Names() {
		names = append(names, m.Name)
	}
	return names
}()

// choice names what there is to choose from.
func choice(what string, names []string) string { return what + ": " + strings.Join(names, ", ") }

func texts[T ~string](all []T) (texts []string) {
	for _, t := range all {
		texts = append(texts, string(t))
	}
	return texts
}
