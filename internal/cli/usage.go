package cli

import (
	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/usage"
)

// noArgs wants no argument.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage.Errorf("%s takes no argument, but was given %q%s: `%[1]s --help` shows its flags", cmd.CommandPath(), args[0], spaces(cmd))
}

// spaces says what may have torn a list apart.
func spaces(cmd *cobra.Command) string {
	if cmd.Flags().Changed("class-names") {
		return " (write --class-names a,b with no spaces after commas)"
	}
	return ""
}

// OneArg wants one argument, and says what it is.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return usage.Errorf("%s takes one argument, %s, but was given %d%s: `%[1]s --help` shows an example", cmd.CommandPath(), what, len(args), spaces(cmd))
	}
}

// SomeArgs wants two arguments or more, and says what the first and the others are.
func SomeArgs(first, others string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= 2 {
			return nil
		}
		return usage.Errorf("%s takes %s and %s, but was given %d: `%[1]s --help` shows an example", cmd.CommandPath(), first, others, len(args))
	}
}

// require refuses a command line that leaves out a flag without a default.
func require(cmd *cobra.Command, names []string) error {
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			what := cmd.Flags().Lookup(name).Usage
			return usage.Errorf("--%s is missing (%s): `%s --help` shows an example", name, what, cmd.CommandPath())
		}
	}
	return nil
}

// CheckThreads refuses a --threads that is no number of threads.
func CheckThreads(n int) error {
	if n < 0 {
		return usage.Errorf("threads %d: must be 1 or more, or 0 for all", n)
	}
	return nil
}
