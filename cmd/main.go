// Package cmd is the command line of privgrad. Import it to add your own networks:
//
//	func main() {
//		cmd.Main(cmd.Options{Networks: map[string]nn.Builder{"mine": build}})
//	}
//
// Your program then has every command of privgrad. train takes --model mine, and eval, predict,
// export and resume work on such runs.
package cmd

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/bench"
	"github.com/privgrad/privgrad/internal/cli/budget"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/cli/l2p"
	"github.com/privgrad/privgrad/internal/cli/machine"
	"github.com/privgrad/privgrad/internal/cli/model"
	"github.com/privgrad/privgrad/internal/cli/price"
	"github.com/privgrad/privgrad/internal/cli/slice"
	"github.com/privgrad/privgrad/nn"
)

// commands are all of them.
var commands = []func() *cobra.Command{
	newTrain,
	newResume,
	newTune,
	slice.New,
	budget.New,
	model.Eval,
	model.Predict,
	model.Export,
	newReport,
	newVerify,
	price.Account,
	price.Calibrate,
	price.Schedule,
	newAudit,
	newReproduce,
	func() *cobra.Command { return withSettings(l2p.New(), "l2p") },
	bench.New,
	data.New,
	newInfo,
}

// Options are what a program adds to the commands.
type Options struct {
	// Networks have names, which --model takes, beside those of the named models. What their functions
	// build must not depend on training data; a result lists that as an assumption.
	Networks map[string]nn.Builder
}

// register makes the networks known, in the order of their names.
func (o Options) register() error {
	for _, name := range slices.Sorted(maps.Keys(o.Networks)) {
		if err := nn.Register(name, o.Networks[name]); err != nil {
			return err
		}
	}
	return nil
}

// Main runs the command line of this process, and ends it.
func Main(o Options) {
	if err := o.register(); err != nil {
		fmt.Fprintln(os.Stderr, "privgrad:", err)
		os.Exit(cli.ExitUsage)
	}
	tameSignals()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Execute(root, args)
}

func newRoot() *cobra.Command {
	var all []*cobra.Command
	for _, command := range commands {
		all = append(all, command())
	}
	all = append(all, newTopics()...)
	return cli.Root(&cobra.Command{
		Use:   "privgrad",
		Short: "Train neural networks with differential privacy",
		Long: `privgrad trains neural networks with differential privacy. You choose a privacy budget
ε; privgrad clips each record's gradient, adds the noise that ε requires, and writes a
model with a guarantee you can publish. Fashion-MNIST is built in, so a first run needs
nothing else.

Results go to standard output, logs and progress to standard error. Exit codes: 0 done,
1 failed while running, 2 bad usage or input, 3 the privacy budget does not allow it,
130 interrupted and saved.`,
		Example: `  privgrad train --epsilon 3 --out runs/first   # Fashion-MNIST, a minute
  privgrad eval runs/first                      # its accuracy and confusion matrix
  privgrad account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5`,
		Version: machine.Version().String(),
	}, all...)
}
