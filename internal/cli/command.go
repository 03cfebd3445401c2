// Package cli is what the commands of privgrad share.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// A Command does something, and prints one result.
type Command struct {
	Use, Short, Long, Example string

	Args     cobra.PositionalArgs   // none are taken where it is nil
	Flags    func(f *pflag.FlagSet) // its own; --progress and --json come after them
	Required []string               // flags that have no default
	Progress bool                   // it takes long and has --progress and --log-format
	Sections func() []Section       // its flags in help; nil for one list
	Run      func(c *Call) error
}

// New is the command for its parent.
func (c Command) New() *cobra.Command {
	cmd := &cobra.Command{Use: c.Use, Short: c.Short, Long: c.Long, Example: c.Example, Args: c.Args}
	if cmd.Args == nil {
		cmd.Args = noArgs
	}
	f := cmd.Flags()
	if c.Flags != nil {
		c.Flags(f)
	}
	if c.Progress {
		consoleFlags(f)
	}
	if f.Lookup("json") == nil {
		JSONFlag(f)
	}
	readPlainly(f)
	if c.Sections != nil {
		sectioned(cmd, c.Sections)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := require(cmd, c.Required); err != nil {
			return err
		}
		return c.Run(&Call{cmd, args})
	}
	return cmd
}

// JSONFlag defines --json, for a command whose other flags come after it.
func JSONFlag(f *pflag.FlagSet) {
	f.Bool("json", false, "print one JSON object and nothing else")
}

// A Call is a command line that is carried out.
type Call struct {
	*cobra.Command
	Arguments []string
}

// Given says whether a flag was.
func (c *Call) Given(flag string) bool { return c.Flags().Changed(flag) }

// JSON says whether the result is to be one JSON object.
func (c *Call) JSON() bool {
	asJSON, err := c.Flags().GetBool("json")
	return err == nil && asJSON
}

// Show prints a result, as one JSON object or as the text that write makes.
func (c *Call) Show(v any, write func(w io.Writer)) error {
	var out strings.Builder
	if c.JSON() {
		if err := writeJSON(&out, v); err != nil {
			return err
		}
	} else {
		write(&out)
	}
	if _, err := io.WriteString(c.OutOrStdout(), out.String()); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Show prints a result, as one JSON object or as the text that write makes of it.
func Show[T any](c *Call, v T, write func(w io.Writer, v T)) error {
	return c.Show(v, func(w io.Writer) { write(w, v) })
}

// Console is the one that --progress and --log-format ask for.
func (c *Call) Console() (*Console, error) {
	mode, err := c.Flags().GetString("progress")
	if err != nil {
		return nil, err
	}
	format, err := c.Flags().GetString("log-format")
	if err != nil {
		return nil, err
	}
	return newConsole(c.ErrOrStderr(), mode, format)
}

// Interruptible gives the console that --progress asks for, which is to be released, and a
// context that the first SIGINT, SIGTERM or SIGHUP cancels, with a notice of what follows from
// that. Until then nobody needs to read what is shown: a closed pipe does not end the work.
func (c *Call) Interruptible(notice string) (context.Context, *Console, error) {
	con, err := c.Console()
	if err != nil {
		return nil, nil, err
	}
	signals := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as they are for a shell's background jobs, and under nohup
			signals = append(signals, s)
		}
	}
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(c.Context(), signals...)
	said := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(said)
		stop()
		con.Notice("interrupted: " + notice + "; interrupt again to quit at once")
	})
	con.Release = sync.OnceFunc(func() {
		if !unhook() {
			<-said // so the notice stands before what the work ends with
		}
		stop()
		signal.Reset(syscall.SIGPIPE)
	})
	return ctx, con, nil
}

// Help is what is said of a setting of train, for commands that take it, too.
func Help(key string) string {
	for _, s := range config.Rows() {
		if s.Key == key {
			return s.Help
		}
	}
	return ""
}

// NewFile refuses to write over a file, which may be the only copy of something. No file is named by "".
func NewFile(flag, path string) error {
	if _, err := os.Lstat(written.Path(path)); path != "" && err == nil {
		return usage.Errorf("%s %s exists already: name another file, or remove it", flag, path)
	}
	return nil
}

// Output refuses a file that could not be replaced, before hours of work. No file is named by "".
func Output(flag, path string) error {
	if _, err := durable.Regular(written.Path(path)); path != "" && err != nil {
		return usage.Errorf("%s %s: %w", flag, path, usage.Cause(err))
	}
	return nil
}
