package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/usage"
)

// Gone has the commands and flags of earlier versions, with what to write instead: the end of a
// sentence. A key is the command line up to what is gone, without the program's name.
var Gone = map[string]string{
	"schedule noisy-gd":     "write `privgrad train --optimizer noisy-gd --model logistic --epsilon E --dry-run`",
	"schedule outpert-gd":   "write `privgrad train --optimizer outpert-gd --model logistic --epsilon E --dry-run`",
	"schedule pur-constant": "write `privgrad train --optimizer pur-constant --pur-sigma S --model logistic --epsilon E --dry-run`",

	"audit --list": "`privgrad audit --help` lists what is heard of each optimizer",

	"bench compare --from":       "write `privgrad bench compare FILE`",
	"bench compare --markdown":   "write `--out FILE.md`",
	"bench compare --models":     "write `--model`, which takes several names",
	"bench compare --plot":       "write `--out FILE.svg` or `--out FILE.png`",
	"bench linesearch --batches": "leave it out: 8 candidates on a fresh batch are timed",
	"bench linesearch --form":    "leave it out: 8 candidates on a fresh batch are timed",
	"bench linesearch --tried":   "leave it out: 8 candidates on a fresh batch are timed",
	"bench sampler --records":    "write `--public-n`",
	"bench scale --batches":      "write `--batch`, which takes several sizes",
	"bench scale --dir":          "write `privgrad bench scale disk`, and name the folder by the variable TMPDIR",
	"bench scale --plot":         "write `--out FILE.svg` or `--out FILE.png`",
	"bench scale --records":      "write `--public-n`",
	"bench scale --sweeps":       "write `privgrad bench scale batch`, `records` or `disk`",
	"bench scale --table":        "write `privgrad bench scale disk`",
	"bench step --input":         "write `--image-size`, such as 755x4x4",

	"l2p train --batches":     fixed,
	"l2p train --block":       fixed,
	"l2p train --card-scale":  fixed,
	"l2p train --curvature":   fixed,
	"l2p train --epsilons":    "write `--epsilon`, which takes several",
	"l2p train --gamma":       fixed,
	"l2p train --hidden":      fixed,
	"l2p train --layers":      fixed,
	"l2p train --log-sign":    fixed,
	"l2p train --lr":          fixed,
	"l2p train --name":        "the name is that of the file, by `--out NAME.safetensors`",
	"l2p train --odd":         fixed,
	"l2p train --pool":        fixed,
	"l2p train --records":     "write `--public-n`",
	"l2p train --runs":        fixed,
	"l2p train --scale":       fixed,
	"l2p train --scheduler":   fixed,
	"l2p train --start":       fixed,
	"l2p train --store-every": fixed,
	"l2p train --tables":      "write `--data csv:PATH`, with commas between several",
	"l2p train --task-model":  "write `--model`",
	"l2p train --tasks":       "write `--data`",
	"l2p train --units":       fixed,
	"l2p train --validation":  fixed,
}

// fixed is said of a setting that only research on protectors changes.
const fixed = "leave it out, as it follows from --data and --model; Go programs set it in dpoptim/l2p/meta"

// instead is what to write in place of a flag or a command that is gone; nil if it never was there.
func instead(cmd *cobra.Command, word string) error {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	if advice, was := Gone[strings.TrimSpace(path+" "+word)]; was {
		return usage.Errorf("%s of `%s` is gone: %s", word, cmd.CommandPath(), advice)
	}
	return nil
}
