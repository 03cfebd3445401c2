package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/train"
)

// Usagef is an error about what the user gave.
func Usagef(format string, a ...any) error {
	return &train.UsageError{Err: fmt.Errorf(format, a...)}
}

// AsUsage marks an error about what the user gave.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return &train.UsageError{Err: err}
}

// noArgs wants no argument.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usagef("%s takes no argument, but was given %q: `%[1]s --help` shows its flags", cmd.CommandPath(), args[0])
}

// OneArg wants one argument, and says what it is.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return Usagef("%s takes one argument, %s, but was given %d: `%[1]s --help` shows an example", cmd.CommandPath(), what, len(args))
	}
}

// require refuses a command line that leaves out a flag without a default.
func require(cmd *cobra.Command, names []string) error {
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			usage := cmd.Flags().Lookup(name).Usage
			return Usagef("--%s is missing (%s): `%s --help` shows an example", name, usage, cmd.CommandPath())
		}
	}
	return nil
}

// CheckThreads refuses a --threads that is no number of threads.
func CheckThreads(n int) error {
	if n < 0 {
		return Usagef("threads %d: must be 1 or more, or 0 for all", n)
	}
	return nil
}
