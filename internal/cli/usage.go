package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/usage"
)

// noArgs wants no argument.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage.Errorf("%s takes no argument, but was given %q%s: `%[1]s --help` shows its flags", cmd.CommandPath(), args[0], apart(cmd, args))
}

// apart says what may have torn a flag's value apart.
func apart(cmd *cobra.Command, args []string) string {
	if joined := unjoined(cmd, args); joined != "" {
		return " (write " + joined + ")"
	}
	if cmd.Flags().Changed("class-names") {
		return " (write --class-names a,b with no spaces after commas)"
	}
	return ""
}

// unjoined is how to write the first flag that takes a value behind an equals sign alone, as those of
// bool do, and has one behind a blank, which became an argument.
func unjoined(cmd *cobra.Command, args []string) string {
	if cmd.Context() == nil {
		return ""
	}
	line, _ := cmd.Context().Value(commandLine{}).([]string)
	for i, word := range line {
		if word == "--" {
			break
		}
		if i == 0 || !slices.Contains(args, word) {
			continue
		}
		name, long := strings.CutPrefix(line[i-1], "--")
		f := cmd.Flags().Lookup(name)
		// The command is refused, so it does not matter what Set changes.
		if long && f != nil && f.NoOptDefVal != "" && f.Value.Set(word) == nil {
			return line[i-1] + "=" + word
		}
	}
	return ""
}

// OneArg wants one argument, and says what it is.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return usage.Errorf("%s takes one argument, %s, but was given %d%s: `%[1]s --help` shows an example", cmd.CommandPath(), what, len(args), apart(cmd, args))
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
