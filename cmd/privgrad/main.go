// Command privgrad trains neural networks with differential privacy and says
// what that cost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1   // while running
	exitUsage       = 2   // bad usage or bad input
	exitRefused     = 3   // the privacy budget does not allow it
	exitInterrupted = 130 // by SIGINT or SIGTERM, and in good order
)

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
	return execute(root)
}

// execute runs a command and turns how it ended into a line and an exit code.
func execute(root *cobra.Command) int {
	err := guarded(root.Execute)
	if err == nil {
		return exitDone
	}
	complain(root, err)
	var refused *usage.Error
	switch {
	case errors.Is(err, ledger.ErrExhausted), errors.Is(err, accountant.ErrBudget):
		return exitRefused
	case errors.As(err, &refused):
		return exitUsage
	case errors.Is(err, train.ErrInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// complain writes an error as one line.
func complain(root *cobra.Command, err error) {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	fmt.Fprintln(root.ErrOrStderr(), "privgrad: "+strings.Join(lines, "; "))
}

// guarded makes an error of a fault of the program.
func guarded(f func() error) (err error) {
	defer fault.Recover(&err)
	return f()
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
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
		Version:       version().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage.Errorf("%w; `%s --help` shows its flags", err, cmd.CommandPath())
	})
	root.AddCommand(newTrain(), newEval(), newAccount(), newCalibrate(), newSchedule(), newL2P(), newAudit(), newBench(), newReproduce(), newData(), newInfo())
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			group(c)
		}
	}
	return group(root)
}

// group makes a command that only has subcommands show its help, and refuse
// what it does not know.
func group(c *cobra.Command) *cobra.Command {
	c.SuggestionsMinimumDistance = 2
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return c
}

func unknownCommand(parent *cobra.Command, name string) error {
	meant := ""
	if s := parent.SuggestionsFor(name); len(s) > 0 {
		meant = fmt.Sprintf(" (did you mean %s?)", strings.Join(s, " or "))
	}
	return usage.Errorf("unknown command %q for %q%s; `%[2]s --help` lists them", name, parent.CommandPath(), meant)
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Long:    "help shows what a command does, its flags and an example.",
		Example: "  privgrad help train",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usage.Errorf("%w", err)
			}
			if len(rest) > 0 {
				return unknownCommand(c, rest[0])
			}
			c.InitDefaultHelpFlag() // as running it would
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	}
}

// noArgs and oneArg check the number of arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage.Errorf("%s takes no argument, but was given %q: `%[1]s --help` shows its flags", cmd.CommandPath(), args[0])
}

func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return usage.Errorf("%s takes one argument, %s, but was given %d: `%[1]s --help` shows an example", cmd.CommandPath(), what, len(args))
	}
}

func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print one JSON object and nothing else on standard output")
}

// show prints a result, as one JSON object or as the text that write makes.
func show(cmd *cobra.Command, asJSON bool, v any, write func(w io.Writer)) error {
	var out strings.Builder
	if asJSON {
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(v); err != nil {
			return err
		}
	} else {
		write(&out)
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), out.String()); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// table lines up columns that write separates by tabs.
func table(w io.Writer, flags uint, write func(w io.Writer)) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	write(t)
	t.Flush()
}
