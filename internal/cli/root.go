package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/usage"
)

// Root completes the command that has all others: with help, and with errors that teach.
func Root(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage.Errorf("%w; `%s --help` shows its flags", err, cmd.CommandPath())
	})
	root.AddCommand(commands...)
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			group(c)
		}
	}
	return group(root)
}

// group makes a command show its help, and refuse what is no subcommand.
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
