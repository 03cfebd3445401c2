package config

import (
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// Where help shows a setting.
var (
	inPrivacy  = setting.Group{Title: "Privacy"}
	inData     = setting.Group{Title: "Data"}
	inModel    = setting.Group{Title: "Model"}
	inTraining = setting.Group{Title: "Training"}
	inSpeed    = setting.Group{Title: "Speed and memory"}

	onPrivacy    = setting.Group{Title: "Privacy", Topic: "privacy"}
	onClipping   = setting.Group{Title: "Privacy", Topic: "clipping"}
	onOwnData    = setting.Group{Title: "Data", Topic: "own-data"}
	onFeatures   = setting.Group{Title: "Model", Topic: "features"}
	onViews      = setting.Group{Title: "Model", Topic: "views"}
	onInit       = setting.Group{Title: "Model", Topic: "init"}
	onOptimizers = setting.Group{Title: "Training", Topic: "optimizers"}
	onSchedules  = setting.Group{Title: "Training", Topic: "schedules"}
	onSpeed      = setting.Group{Title: "Speed and memory", Topic: "speed"}
)

// Rows are all settings, in the order in which a person reads of them.
func Rows() []setting.Row { return slices.Clone(rows) }

var rows = func() []setting.Row {
	all := slices.Clone(ofRuns)
	at := slices.IndexFunc(all, func(r setting.Row) bool { return r.Key == "init" })
	all = slices.Insert(all, at, networkRows...)
	at = slices.IndexFunc(all, func(r setting.Row) bool { return r.Key == "noise" })
	all = slices.Insert(all, at, unitRows...)
	for _, f := range new(Config).families() {
		all = append(all, f.Rows()...)
	}
	return append(all, ofMachines...)
}()

// ofRuns has a row for every setting of a run that is no method's own. What several settings must be together,
// Config.Check says.
var ofRuns = []setting.Row{
	{Key: "epsilon", Group: inPrivacy, Arg: "E", Limit: setting.Positive, Instead: "noise_multiplier",
		Help: "privacy budget; privgrad computes the noise that it needs"},
	{Key: "delta", Group: inPrivacy, Arg: "D", Limit: setting.Must(func(x float64) bool { return x >= 0 && x < 1 }, "in [0, 1), and well below one over the number of records"),
		Help: "δ: at most 1/(10 × records) (default 1e-05 for published data)"},
	{Key: "noise_multiplier", Group: inPrivacy, Name: "noise multiplier", Instead: "epsilon",
		Limit: setting.Must(func(z float64) bool { return z == 0 || z >= setting.LeastNoise && z <= setting.MostNoise }, "in [%g, %g], or 0 for no noise", setting.LeastNoise, setting.MostNoise),
		Help:  "set the noise instead of --epsilon, in units of --clip; 0: NOT PRIVATE"},
	{Key: "clip", Group: inPrivacy, Arg: "C", Help: "clip each gradient to this norm (default 1; dp-agd 3); adaptive: start here"},
	{Key: "clipping", Group: inPrivacy, Limit: setting.OneOf(setting.Texts(perexample.Clippings())...), Help: setting.Choices(perexample.Clippings()) + "; see `help clipping`"},
	{Key: "clip_quantile", InFile: true, Group: onClipping, With: "clipping", Help: "adaptive: share of gradients to leave unclipped (default 0.5)"},
	{Key: "clip_floor", InFile: true, Group: onClipping, Arg: "C", With: "clipping", Help: "adaptive: smallest clip norm, public (default 0.001 × --clip)"},
	{Key: "clip_ceiling", InFile: true, Group: onClipping, Arg: "C", With: "clipping", Help: "adaptive: largest clip norm, public (default 1000 × --clip)"},
	{Key: "accountant", Group: onPrivacy, Limit: setting.OneOf(accountant.Names()...), Help: setting.Choices(accountant.Names()) + "; prv and paper give NO GUARANTEE"},
	{Key: "neighbouring", Group: onPrivacy, Arg: "REL", Name: "neighbouring relation", Limit: setting.OneOf(string(accountant.AddRemove), string(accountant.ReplaceOne)),
		Help: "how two data sets may differ: add-remove or replace-one"},
	{Key: "noise", Group: onPrivacy, Arg: "MODE", Limit: setting.OneOf(dpoptim.Secure, dpoptim.Exact, dpoptim.Seeded),
		Help: "secure; exact (sums in integers, the same in any order; slower); seeded (NOT PRIVATE, for experiments that must repeat)"},
	{Key: "train_loss_noise", Group: onPrivacy, Limit: setting.Noise,
		Help: "report the training loss, with this noise multiplier; costs privacy"},
	{Key: "private_diagnostics", Group: onPrivacy, Help: "write un-noised figures to OUT.private, for the data's owner only"},
	{Key: "data_is_public", Group: onPrivacy, Help: "show un-noised figures; the run has NO GUARANTEE"},
	{Key: "budget", Group: onPrivacy, Arg: "FILE", Resume: setting.Always,
		Help: "file of a budget over several runs, from which the run pays; exit code 3 where it does not allow the run"},

	{Key: "canaries", Group: onPrivacy, Arg: "K", Limit: setting.Within(0, mostCanaries, "1 to %d, or 0 for none", mostCanaries),
		Help: "add K made-up records, of which coins decide whether they take part; `privgrad audit RUN` then tests this run"},

	{Key: "data", Group: inData, Arg: "SET", Help: "data set; of your own csv:PATH, dir:PATH, npz:PATH, shards:PATH: `privgrad help own-data`"},
	{Key: "data_dir", Group: inData, Arg: "DIR", With: "data", Resume: setting.Always, Help: "folder of the data files, or of mnist/, cifar10/, cifar100/, tabular/ (or $" + DataDirVariable + ")"},
	{Key: "classes", Group: inData, Help: "train on these classes only, such as 3,5; two make a binary task"},
	{Key: "class_names", Group: onOwnData, Arg: "LIST", With: "data", Help: "your own images: the classes, such as cat,dog (default: classes.txt)"},
	{Key: "positive", Group: onOwnData, Arg: "CLASS", With: "data", Help: "train to tell this class, by name or number, from all others"},
	{Key: "public_n", Group: inData, Limit: setting.Within(1, math.MaxInt, "the public number of training records, 1 or more"),
		Help: "your own data: at least the records of the table, or the training images"},
	{Key: "count_records", Group: onOwnData, Help: "your own data: begin with a noisy count of usable records, and stop if they are far too few (default true from 500 public records on; costs next to nothing)"},
	{Key: "published_set", Group: inData, Help: "the files are the published data set: its size and test set are public"},
	{Key: "test_is_public", Group: inData, Help: "the test records are public: show accuracy and loss on them"},
	{Key: "image_size", Group: onOwnData, Arg: "SIZE", With: "data", Help: "your own images and arrays: size of a record, such as 3x32x32 (colors), 28x28 (gray), or a number of values (default " + datasets.DefaultSize + ")"},
	{Key: "schema", Group: onOwnData, Arg: "FILE", Help: "csv: schema of public bounds and categories, a YAML file (default PATH.schema.yaml) or one of " + strings.Join(tabular.SchemaNames(), ", ")},
	{Key: "folds", Group: onOwnData, Limit: setting.Must(func(n int) bool { return n == 0 || n >= 2 && n <= mostFolds }, "2 to %d, or 0 for none", mostFolds),
		Help: "csv: split the records into this many folds and hold one out"},
	{Key: "fold", Group: onOwnData, Help: "csv: the fold to hold out, from 1"},
	{Key: "drop_first", InFile: true, Group: onOwnData, Help: "csv: give the first category of each column no value"},

	{Key: "recipe", Group: inModel, Limit: setting.UnlessEmpty(setting.OneOf(slices.Concat([]string{AutoRecipe}, recipes.Names(), []string{NoRecipe})...)),
		Help: strings.Join(recipes.Names(), ", ") + ", none; auto: best if nothing else is chosen"},
	{Key: "recipe_chosen_on", Help: "data on which the recipe chose the settings; filled in, and shown in the result"},
	{Key: "features", Group: inModel, Limit: setting.UnlessEmpty(setting.OneOf(append(features.Kinds(), NoFeatures)...)),
		Help: "fixed image features: " + strings.Join(features.Names(), ", ") + " (joined by +), " + NoFeatures},
	{Key: "whiten", Group: onFeatures, With: "features", Limit: setting.UnlessEmpty(setting.OneOf(features.Whitenings()...)),
		Help: "kind of synthetic images that decorrelate the features: " + setting.Choices(features.Whitenings()) + " (default leaves)"},
	{Key: "mirror", Group: onFeatures, With: "features", Help: "average the features of an image and its mirror image; not for digits or letters"},
	{Key: "deskew", InFile: true, Group: onFeatures, With: "features", Help: "shear each image upright before its features; for handwriting, light on dark"},
	{Key: "views", Group: onViews, Arg: "K", Limit: setting.Within(0, ir.MostViews, "1 to %d", ir.MostViews), With: "augment",
		Help: "average each record's gradient over K views of it, before clipping"},
	{Key: "augment", Group: onViews, Arg: "LIST", Limit: setting.Each(ir.Augmentations()...), Help: "how a view of an image is drawn: " + strings.Join(ir.Augmentations(), ",")},
	{Key: "model", Group: inModel, With: "network", Limit: setting.UnlessEmpty(func(name string, value any) error { return setting.OneOf(models()...)(name, value) }), Help: "network (`privgrad info` lists all; default by the data), or --network FILE"},
	{Key: "model_version", InFile: true, Group: inModel, Limit: setting.Within(0, math.MaxInt, "the number of a version, or 0 for the last"), With: "model",
		Help: "which of the networks that the model's name has stood for (default the last; filled in)"},
	{Key: "activation", Group: inModel, With: "network", Limit: setting.UnlessEmpty(setting.OneOf(nn.Activations()...)), Help: setting.Choices(nn.Activations()) + " (default by the model)"},
	{Key: "init", Group: inModel, Arg: "FILE", Help: "start from this model.safetensors; it must not depend on the private data"},
	{Key: "init_layers", Group: onInit, Arg: "LIST", With: "init", Help: "take these layers alone from the file of --init, such as conv1,conv2; the others start as they would without it"},
	{Key: "seed", Group: inModel, Help: "seed of the first weights; with --noise seeded, of everything"},

	{Key: "optimizer", Group: inTraining, Limit: setting.OneOf(Optimizers()...), Help: "dp-sgd, dp-adam, …; all: `privgrad help optimizers`"},
	{Key: "batch", Group: inTraining, Limit: setting.Positive, Instead: "sampling_rate", Help: "expected batch size (default 1024)"},
	{Key: "sampling_rate", Group: inTraining, Arg: "Q", Name: "sampling rate", Limit: setting.Must(func(q float64) bool { return q > 0 && q <= 1 }, "in (0, 1]"), Instead: "batch",
		Help: "probability that a record joins a batch, instead of --batch"},
	{Key: "sampling", Group: onPrivacy, Limit: setting.UnlessEmpty(setting.OneOf(batches.Offered()...)),
		Help: "how batches are drawn: poisson (default); fixed-size: l2p only, under replace-one, where it is the default relation"},
	{Key: "epochs", Group: inTraining, Limit: setting.Positive, Instead: "steps", Help: "passes over the data (default 20)"},
	{Key: "steps", Group: inTraining, Limit: setting.Within(1, accountant.MostSteps, "1 to %d", accountant.MostSteps), Instead: "epochs", Help: "number of updates, instead of --epochs"},
	{Key: "lr", Group: inTraining, Name: "learning rate", Limit: setting.Positive, Help: "learning rate (default by optimizer and model)"},
	{Key: "eval_every", Group: inTraining, Limit: setting.Within(0, math.MaxInt, "a number of steps, or 0 for once per epoch"),
		Help: "steps between evaluations (default 0: each epoch; full batches: 20 in all)"},
	{Key: "tensorboard", Group: inTraining, Resume: setting.Always, Help: "also write evaluations for TensorBoard, in the run directory"},
	{Key: "momentum", Group: onOptimizers, Limit: setting.BelowOne, Help: "heavy-ball momentum (default 0)"},
	{Key: "l2", Group: onOptimizers, Limit: setting.Within(0, math.MaxFloat64, "a finite number, 0 or more"), Help: "weight decay (default 0; dp-adamw 0.01)"},
	{Key: "class_weights", InFile: true, Group: inTraining, Limit: classWeights,
		Help: "multiply the gradients of each class by its number, before clipping, such as [1, 3]; the numbers must be public"},
	{Key: "lr_schedule", Group: onSchedules, Help: "learning rate over the run: " + setting.Choices(dpoptim.Shapes()) + ", which falls to 0"},
	{Key: "warmup", Group: onSchedules, Help: "steps in which the learning rate rises to --lr (default 0)"},
	{Key: "average", Group: onSchedules, Limit: setting.Must(func(x float64) bool { return x >= 0 && x < 1 }, "a decay in (0, 1), or 0 for no average"),
		Help: "also keep a moving average of the weights, with this decay, such as 0.99; costs no privacy (default 0: none)"},

	{Key: "feature_norm", Group: setting.Convex, Arg: "Z", Limit: setting.Length,
		Help: "scale each record's features to norm Z at most (default 1 for methods that need a bound; else as they are)"},
	{Key: "radius", Group: setting.Convex, Named: true, Limit: setting.Length, Help: "keep the weights in the ball of this radius around 0, by projection"},
}

// ofMachines are the settings that say where a run computes, and how fast.
var ofMachines = []setting.Row{
	{Key: "device", Group: inSpeed, Resume: setting.Always, Help: "auto, cpu, cuda, cuda:N or reference (slow)"},
	{Key: "threads", Group: inSpeed, Limit: setting.Within(0, mostThreads, "1 to %d, or 0 for all cores", mostThreads), Resume: setting.Always,
		Help: "CPU threads; they do not change the result (default 0: all)"},
	{Key: "memory", Group: inSpeed, Arg: "SIZE", Limit: setting.Reads(func(text string) error { _, err := devices.ParseMemory(text); return err }), Resume: setting.UnlessSeeded,
		Help: "memory for a batch, such as 2GiB (default up to a quarter of the device's)"},
	{Key: "max_physical_batch", Group: onSpeed, Limit: setting.Within(0, math.MaxInt, "a number of records, or 0 to choose by memory"), Resume: setting.UnlessSeeded,
		Help: "most records that are processed at once (default 0: as memory allows)"},
	{Key: "strategy", Group: onSpeed, Limit: setting.Reads(func(text string) error { return perexample.Check(perexample.Strategy(text)) }),
		Help: "how per-record gradients are computed: " + setting.Choices(perexample.Strategies()) +
			"; a comma and conv1=gram sets that of one layer (" + setting.Choices(perexample.Choices()) + ")"},
	{Key: "precision", Group: onSpeed, Limit: setting.OneOf(device.Precisions()...),
		Help: "precision of matrix products: float32; on a GPU also tf32 (11 bits) and bf16 (8 bits), on tensor cores; the guarantee holds for each; dense layers of large batches then need up to 0.9% more noise at batch 1024"},
	{Key: "gemm", Group: onSpeed, Limit: setting.OneOf(devices.GEMMOwn, devices.GEMMCuBLAS), Resume: setting.UnlessSeeded,
		Help: "matrix products of dense layers: own kernels, or cublas (NVIDIA's library, on a GPU; results may differ in the last bits)"},
}

// models are those of package nn, and networks of a user's own that were registered there.
func models() (names []string) {
	for _, m := range nn.Names() {
		names = append(names, m.Name)
	}
	return names
}
