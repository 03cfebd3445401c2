package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/usage"
)

// Gone has the commands and flags of earlier versions, with the end of the sentence that says what
// to write instead. Words with blanks between them have the same.
var Gone = []struct{ Command, Words, Instead string }{
	{"schedule", "noisy-gd", "write `privgrad train --optimizer noisy-gd --model logistic --epsilon E --dry-run`"},
	{"schedule", "outpert-gd", "write `privgrad train --optimizer outpert-gd --model logistic --epsilon E --dry-run`"},
	{"schedule", "pur-constant", "write `privgrad train --optimizer pur-constant --pur-sigma S --model logistic --epsilon E --dry-run`"},

	{"audit", "--list", "`privgrad audit --help` lists what is heard of each optimizer"},

	{"bench compare", "--from", "write `privgrad bench compare FILE`"},
	{"bench compare", "--markdown", "write `--out FILE.md`"},
	{"bench compare", "--models", "write `--model`, which takes several names"},
	{"bench compare", "--plot", "write `--out FILE.svg` or `--out FILE.png`"},
	{"bench linesearch", "--batches --form --tried", "leave it out: 8 candidates on a fresh batch are timed"},
	{"bench sampler", "--records", "write `--public-n`"},
	{"bench scale", "--batches", "write `--batch`, which takes several sizes"},
	{"bench scale", "--dir", "name the folder by the variable TMPDIR"},
	{"bench scale", "--plot", "draw the figures of `--json`"},
	{"bench scale", "--records", "write `--public-n`"},
	{"bench scale", "--sweeps --table", "write `privgrad bench scale batch`, `records` or `disk`"},
	{"bench step", "--input", "write `--image-size`, such as 755x4x4"},

	{"l2p train", "--epsilons", "write `--epsilon`, which takes several"},
	{"l2p train", "--name", "the name is that of the file, by `--out NAME.safetensors`"},
	{"l2p train", "--records", "write `--public-n`"},
	{"l2p train", "--tables", "write `--data csv:PATH`, with commas between several"},
	{"l2p train", "--task-model", "write `--model`"},
	{"l2p train", "--tasks", "write `--data`"},
	{"l2p train", "--batches --block --card-scale --curvature --gamma --hidden --layers --log-sign --lr --odd --pool --runs --scale --scheduler --start --store-every --units --validation",
		"leave it out: it follows from --data and --model"},
}

// init adds the settings of train that have a key and no flag.
func init() {
	for _, r := range config.Rows() {
		if !r.InFile {
			continue
		}
		key := r.Key + ": VALUE"
		if of, name, nested := strings.Cut(r.Key, "."); nested {
			key = of + ": {" + name + ": VALUE}"
		}
		word := "--" + r.Dashed()
		Gone = append(Gone, struct{ Command, Words, Instead string }{"train", word, "write `" + key + "` into a file, and give it by -c FILE"})
	}
}

// instead is what to write in place of a flag or a command that is gone; nil if it never was there.
func instead(cmd *cobra.Command, word string) error {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	word = strings.NewReplacer("_", "-", "normalize", "normalise").Replace(word)
	for _, g := range Gone {
		if g.Command == path && slices.Contains(strings.Fields(g.Words), word) {
			return usage.Errorf("%s of `%s` is gone: %s", word, cmd.CommandPath(), g.Instead)
		}
	}
	return nil
}
