package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// entryHead is what the scoreboard asks of a submission, in its own keys.
const entryHead = `# An entry for the table "CIFAR-10, no public data" of https://private-machinelearning.github.io.
# Written by: go run ./cmd/accuracy page. The runs are in ../accuracy.csv.
- name: Differentially private linear models on features from synthetic images (privgrad)
  url: https://github.com/privgrad/privgrad/blob/main/docs/explain/accuracy.md
  authors: the authors of privgrad
  code: https://github.com/privgrad/privgrad
  venue: software
  claims:
`

// fewest is how many runs a row has that is submitted.
const fewest = 5

// writeEntry writes the rows of CIFAR-10 in the form that a public scoreboard takes.
func writeEntry(all []measured, o options) error {
	var b bytes.Buffer
	b.WriteString(entryHead)
	const data = "cifar10"
	rows := 0
	for _, epsilon := range o.epsilons {
		c := of(all, data, data, epsilon)
		if c.runs < fewest {
			continue
		}
		rows++
		fmt.Fprintf(&b, "    - model: ScatterNet, patches and random patches of patches + Linear\n      epsilon: %g\n      delta: 1e-5\n      private_accuracy: %.1f%%\n", epsilon, c.accuracy)
		fmt.Fprintf(&b, "      dp_accountant: PLD, upper end\n      # mean of %d runs: %s, from %.2f to %.2f; a run takes %.0f seconds of two cores\n", c.runs, c, c.least, c.most, c.seconds)
		fmt.Fprintf(&b, "      # privgrad train --epsilon %g --data cifar10 --data-dir data/cifar10 --published-set\n", epsilon)
	}
	if rows == 0 {
		return errors.New(measuredFile + " has too few runs of " + data + ": make accuracy makes them")
	}
	return os.WriteFile(entryFile, b.Bytes(), 0o644)
}
