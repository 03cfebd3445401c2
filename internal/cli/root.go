package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/usage"
)

// Root completes the command that has all others: with help, and with errors that teach.
func Root(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(commands...)
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	root.SetGlobalNormalizationFunc(spell)
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			group(c)
		}
	}
	return group(root)
}

// spell lets Americans write their way.
func spell(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "neighboring" {
		name = "neighbouring"
	}
	return pflag.NormalizedName(name)
}

// elsewhere are names that other programs and libraries have for flags.
var elsewhere = map[string]string{
	"learning-rate": "lr", "learning_rate": "lr", "batch-size": "batch", "batch_size": "batch", "dataset": "data", "arch": "model",
	"max-grad-norm": "clip", "max_grad_norm": "clip", "l2-norm-clip": "clip", "l2_norm_clip": "clip", "clip-norm": "clip", "max-per-sample-grad-norm": "clip",
	"sigma": "noise-multiplier", "target-epsilon": "epsilon", "target_epsilon": "epsilon", "target-delta": "delta", "target_delta": "delta",
	"sample-rate": "sampling-rate", "sample_rate": "sampling-rate", "output": "out", "output-dir": "out", "weight-decay": "l2",
	"n": "public-n", "records": "public-n", "num-records": "public-n", "num-examples": "public-n", "dataset-size": "public-n", "dataset_size": "public-n", "sample-size": "public-n",
}

// flagError says what is wrong with a flag. Behind an unknown command it is the command.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	meant := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if err := instead(cmd, "--"+unknown.GetSpecifiedName()); err != nil {
			return err
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		meant = usage.Meant("--"+unknown.GetSpecifiedName(), known)
		if name, ok := elsewhere[unknown.GetSpecifiedName()]; ok && cmd.Flags().Lookup(name) != nil {
			meant = fmt.Sprintf(" (here it is --%s)", name)
		}
	}
	return usage.Errorf("%w%s; `%s --help` shows its flags", misread(err), meant, cmd.CommandPath())
}

// readable is what functions of package strconv read.
var readable = map[string]string{
	"Atoi":       "a whole number",
	"ParseInt":   "a whole number",
	"ParseUint":  "a whole number, 0 or more",
	"ParseFloat": "a number",
	"ParseBool":  "true or false",
}

// misread says what a flag takes where package strconv could not read its value.
func misread(err error) error {
	var invalid *pflag.InvalidValueError
	var unread *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &unread) {
		return err
	}
	why := "not " + readable[unread.Func]
	switch kind := invalid.GetFlag().Value.Type(); {
	case errors.Is(err, strconv.ErrRange):
		why = "out of range"
	case kind == "ints" || kind == "intSlice":
		why = "not a list of whole numbers such as 3,5"
	}
	return errors.New(strings.TrimSuffix(invalid.Error(), invalid.Unwrap().Error()) + why)
}

// group makes a command show its help, and refuse what is no subcommand.
func group(c *cobra.Command) *cobra.Command {
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
	if err := instead(parent, name); err != nil {
		return err
	}
	var known []string
	for _, c := range parent.Commands() {
		known = append(known, c.Name())
	}
	meant := usage.Meant(name, known)
	if parent.Flags().Lookup(name) != nil {
		meant = fmt.Sprintf(" (it is a flag: --%s)", name)
	}
	return usage.Errorf("unknown command %q for %q%s; `%[2]s --help` lists them", name, parent.CommandPath(), meant)
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		Short:   "Explain a command or a topic",
		Long:    "help shows what a command does, its flags and an example. Topics explain settings of train.",
		Example: "  privgrad help train\n  privgrad help privacy",
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
