// Command privgrad trains neural networks with differential privacy.
package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/bench"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/cli/l2p"
	"github.com/privgrad/privgrad/internal/cli/machine"
	"github.com/privgrad/privgrad/internal/cli/price"
)

// commands are all of them.
var commands = []func() *cobra.Command{
	newTrain,
	newEval,
	newReport,
	newVerify,
	price.Account,
	price.Calibrate,
	price.Schedule,
	newAudit,
	newReproduce,
	l2p.New,
	bench.New,
	data.New,
	newInfo,
}

func main() {
	tameSignals()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Execute(root)
}

func newRoot() *cobra.Command {
	var all []*cobra.Command
	for _, command := range commands {
		all = append(all, command())
	}
	return cli.Root(&cobra.Command{
		Use:   "privgrad",
		Short: "Train neural networks with differential privacy",
		Long: `privgrad trains neural networks with differential privacy: every example's
gradient is clipped, noise is added to the sum, and an accountant says what the
whole run costs in (ε, δ). Fashion-MNIST is built in, so that a first run needs
nothing else.

Results go to standard output, logs and progress to standard error. Exit codes:
0 done, 1 failed while running, 2 bad usage or input, 3 refused, because the
privacy budget does not allow it, 130 interrupted, with what can go on saved.`,
		Example: `  privgrad train --epsilon 3 --out runs/first   # a CNN on Fashion-MNIST at ε = 3
  privgrad eval runs/first                      # its accuracy and confusion matrix
  privgrad account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5`,
		Version: machine.Version().String(),
	}, all...)
}
