package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
)

// topics are pages of help with the settings of train that few runs need.
var topics = []cli.Topic{
	{
		Name:  "privacy",
		Short: "What the privacy settings of train mean",
		Text: `A private run bounds what each record can change, and adds noise to hide the rest.
ε (--epsilon) and δ (--delta) say how well: any outcome is at most e^ε times as likely
with one record as without it, plus δ. A smaller ε protects more and costs accuracy.
Give --epsilon and privgrad computes the noise, or give --noise-multiplier and it
computes ε. For δ take 1/(10 × number of records), rounded down to a power of ten: 1e-5
for 5000 records.

Two labels warn you. NOT PRIVATE: nothing protects the record. NO GUARANTEE: the ε that
is shown is not proven. "privgrad train --dry-run" shows ε before anything is read.

Several runs on the same records cost privacy together. "privgrad budget create" fixes their
ε, and --budget pays from it (docs/guides/budget.md).`,
		Example: `  privgrad train --epsilon 1 --delta 1e-6 --dry-run
  privgrad train --epsilon 3 --noise exact              # noise and sums in exact integers
  privgrad train --epsilon 3 --neighbouring replace-one # a record is replaced, not removed
  privgrad account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5`,
	},
	{
		Name:  "clipping",
		Short: "How each record's gradient is bounded",
		Text: `No record moves a sum of gradients by more than the clip norm C (--clip). --clipping
chooses how:

  flat       scales a gradient that is longer than C down to C
  per-layer  does so for the gradient of each layer, at C/√(number of layers)
  automatic  multiplies every gradient by C/(its norm + 0.01)
  adaptive   works like flat, and C follows a quantile of the norms. A noisy count of
             records finds the quantile, and ε includes the cost of that count

--lr multiplies the clipped gradients. If you change the clipping, choose --lr anew.`,
		Example: "  privgrad train --epsilon 3 --clipping adaptive --clip 0.5",
	},
	{
		Name:  "own-data",
		Short: "Training on your own table, images or arrays",
		Text: `--data csv:PATH is a table of numbers, dates and categories. A schema beside it,
PATH.schema.yaml, gives public bounds and categories (docs/guides/own-table.md shows one).
A record that does not fit the schema is replaced by a fixed valid one or counts as zero.
Training does not say so: run "privgrad data verify csv:PATH" to see such records.

--data dir:PATH is a folder of images, PATH/train/CLASS/*.png or .jpg, and PATH/test where
there are test images. --data npz:PATH is a file of NumPy arrays: x_train, y_train and,
if you like, x_test and y_test. List the classes by --class-names; --image-size is the
size that every image gets. Add --mirror if a mirrored image is of the same class.

Files count as private unless you say otherwise. Give --delta and --public-n. --public-n
is a number that everyone may know: do not count private records for it. It must be at
least the number of records, because the guarantee holds for at most that many; far too
many cost accuracy. For csv: it counts the whole table, also if a share or a fold is held
out. For dir: and npz: it counts training records alone. With --classes it counts the
records of these classes. For --delta see "privgrad help privacy". Add --test-is-public if
the test records are public: without it no accuracy is shown. Add --published-set if the
files of mnist, cifar10, cifar100 or a known table are the published ones: then their size
and test set are public. For sets beyond memory see "privgrad data shard --help".`,
		Example: `  privgrad train --data csv:mine.csv --public-n 5000 --delta 1e-5 --epsilon 1
  privgrad train --epsilon 3 --data dir:photos --class-names cat,dog --public-n 5000 --delta 1e-5
  privgrad train --data csv:adult.data --published-set --epsilon 1   # a known table
  privgrad train --data mnist --data-dir data/mnist --published-set --epsilon 3`,
	},
	{
		Name:  "features",
		Short: "Fixed image features, and recipes",
		Text: `--features replaces the pixels of an image by fixed features. They are a public function
of that image alone and cost no privacy. At a small ε, a linear model on such features is
often more accurate than a network that learns from pixels.

A recipe is the settings that were most accurate on public data at your ε: features, model,
optimizer, learning rate, batch size and so on. There is one for images, from --epsilon 0.5
on, and one for tables. It is taken where you choose none of these settings. --recipe best
takes it for all that you leave open. --recipe none takes the plain defaults.`,
		Example: `  privgrad train --epsilon 3
  privgrad train --epsilon 3 --features scatter --mirror --batch 8192`,
	},
	{
		Name:  "views",
		Short: "Several random views of each record",
		Text: `With --views K, each record of a batch goes through the network K times, each time as
another random view of itself. Its gradient is the average over the views, and is clipped
once: views cost no privacy, and about K times the time. --augment says how a view is
drawn:

  flip  mirrored left to right in half of the views; not for digits or letters
  crop  moved by at most 4 pixels, with the mirror image beyond the border

Views help networks that are trained from scratch on natural images. They do not go with
--features. docs/guides/own-images.md says more.`,
		Example: `  privgrad train --data cifar10 --epsilon 8 --model resnet-small --views 4 --augment flip,crop
  privgrad train --data cifar10 --epsilon 8 --recipe wrn --dry-run`,
	},
	{
		Name:  "network",
		Short: "Your own network, from PyTorch or Keras by an ONNX file",
		Text: `--network FILE trains the network of an ONNX file, such as torch.onnx.export writes. The
last layer gives one value for each class; a softmax behind it is left out. Look first:
"privgrad info --network FILE" lists the layers, and what cannot be trained and why.

Weights start fresh. --weights-are-public starts with the file's weights: ε counts nothing
for them, so no private record may have had a part in them. Pixels reach the network as
0 to 1, or as --normalize says. Batch normalization mixes the records of a batch, so that
it must go: --batchnorm group puts group normalization in its place.

--freeze NODE does not train the node and all before it: what they give is computed once a
record. Train the rest, or with --new-head only a new last layer, as for a network that was
trained on public images. The run keeps what it needs of the file.
docs/guides/from-pytorch.md shows it all.`,
		Example: `  privgrad info --network cnn.onnx
  privgrad train --data fmnist --epsilon 3 --network cnn.onnx
  privgrad train --epsilon 1 --network net.onnx --weights-are-public --freeze /Flatten --new-head`,
	},
	{
		Name:  "init",
		Short: "Starting from weights that you have, such as PyTorch's",
		Text: `--init FILE starts from the weights in a safetensors file. A run writes such a file, and so
does safetensors.torch.save_file. Names and shapes must be those of the network, which
"privgrad info --model NAME" shows. Values may be float32, float16, bfloat16 or float64.
ε counts nothing for the file, so it must not depend on the private data.

If the file has another last layer, or only a part of the network, name the layers to take.
The others start as they would without the file. The summary and result.json say which.`,
		Example: `  privgrad train --epsilon 3 --model cnn-mnist --init cnn.safetensors
  privgrad train --epsilon 3 --init cnn.safetensors --init-layers conv1,conv2,fc1,fc2`,
	},
	{
		Name:  "optimizers",
		Short: "All optimizers, one line each",
		Text: "These are the values of --optimizer. `privgrad train --optimizer NAME --help` lists the\n" +
			"settings that only NAME reads.\n\n" + optimizerList(),
		Example: `  privgrad train --epsilon 3 --optimizer dp-adam
  privgrad train --epsilon 3 --momentum 0.9 --lr 0.1
  privgrad train --optimizer sgd --epochs 5             # without privacy, to compare`,
	},
	{
		Name:  "schedules",
		Short: "How the learning rate changes over the run",
		Text: `--lr is the largest learning rate. --warmup lets it rise at the start, --lr-schedule lets
it fall later. --average also keeps a moving average of the weights, in
model-average.safetensors. All of them use noisy values alone and cost no privacy.

The command "privgrad schedule NAME" plans the noise and steps of schedules that papers
fix in advance. It trains nothing.`,
		Example: `  privgrad train --epsilon 3 --lr-schedule cosine --warmup 50 --average 0.99
  privgrad schedule pur-a --n 60000 --dim 784 --rho 0.5`,
	},
	{
		Name:    "adam",
		Short:   "Settings of dp-adam, dp-adamw and adam",
		Text:    "Adam divides the learning rate of each weight by the root of its second moment. The\nmoments are computed from noisy gradients and cost no privacy. beta1, beta2, adam_epsilon\nand subtract_noise_variance are keys of a file, which -c gives.",
		Example: "  privgrad train --epsilon 3 --optimizer dp-adam --lr 0.001",
	},
	{
		Name:  "search",
		Short: "Private line search: dp-blsgd, dp-blsgd-ac, dp-blgd, dp-agd",
		Text: `These optimizers find the learning rate during training. They ask the records, with noise,
how far a step may go, and a part of ε pays for that. The search starts at --lr.
"published" means the form of the paper. docs/guides/line-search.md says how to choose.`,
		Example: `  privgrad train --epsilon 3 --optimizer dp-blsgd
  privgrad train --epsilon 1 --optimizer dp-blsgd --model logistic --search-form curve`,
	},
	{
		Name:  "convex",
		Short: "Private linear models: noisy-gd, pur-*, outpert-*, objpert, privgene, banco, bassily-sgd",
		Text: `These optimizers train linear models, with noise that follows from public bounds.
--feature-norm scales the features of each record to a public norm, which bounds its
gradient. ε is for replacing one record, unless --neighbouring says otherwise.
docs/guides/convex.md says which optimizer to choose.`,
		Example: "  privgrad train --data csv:adult.data --published-set --epsilon 1 --optimizer noisy-gd",
	},
	{
		Name:    "speed",
		Short:   "Memory, strategies and precision",
		Text:    "These settings change speed and memory. They do not change the guarantee. They change\nresults by rounding at most.",
		Example: "  privgrad train --epsilon 3 --strategy ghost --max-physical-batch 256\n  privgrad train --epsilon 3 --device cuda --precision tf32",
	},
}

// newTopics makes the pages, each with the settings that belong to it.
func newTopics() (all []*cobra.Command) {
	s := newSettings(pflag.NewFlagSet("", pflag.ContinueOnError), everySetting)
	for _, t := range topics {
		t.Sections = s.sections(t.Name)
		if keys := inFiles(t.Name); keys != "" {
			t.Text += "\n\n" + keys
		}
		all = append(all, t.New())
	}
	return all
}

// inFiles names the settings of a topic that have no flag; nothing where there are none.
func inFiles(topic string) string {
	var keys []string
	for _, r := range config.Rows() {
		if r.InFile && r.Group.Topic == topic {
			keys = append(keys, r.Key)
		}
	}
	if keys == nil {
		return ""
	}
	text, width := "", 0
	for word := range strings.FieldsSeq("Without a flag, in a file that you give by -c FILE: " + strings.Join(keys, ", ") + ".") {
		if width += len(word) + 1; width > 88 {
			text, width = text+"\n", len(word)+1
		}
		text += word + " "
	}
	return strings.ReplaceAll(strings.TrimSuffix(text, " "), " \n", "\n")
}

// withSettings adds the settings of train that belong to a command's subject to its help.
func withSettings(c *cobra.Command, topic string) *cobra.Command {
	var b strings.Builder
	cli.WriteSections(&b, newSettings(pflag.NewFlagSet("", pflag.ContinueOnError), everySetting).sections(topic))
	c.Long += "\n" + strings.TrimRight(b.String(), "\n")
	if keys := inFiles(topic); keys != "" {
		c.Long += "\n\n" + keys
	}
	return c
}

func optimizerList() string {
	var b strings.Builder
	cli.Table(&b, 0, func(w io.Writer) {
		for _, k := range config.Kinds() {
			fmt.Fprintf(w, "  %s\t%s\n", k.Name, k.About)
		}
	})
	return strings.TrimRight(b.String(), "\n")
}
