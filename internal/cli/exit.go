package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1   // while running
	ExitUsage       = 2   // bad usage or bad input
	ExitRefused     = 3   // the privacy budget does not allow it
	ExitInterrupted = 130 // by SIGINT, SIGTERM or SIGHUP, and in good order
)

// Execute runs a command line and turns how it ended into an exit code and, where it failed, into a
// line and an object for who asked for JSON.
func Execute(root *cobra.Command, args []string) int {
	out := &noting{w: root.OutOrStdout()}
	root.SetArgs(args)
	root.SetContext(context.WithValue(context.Background(), commandLine{}, args))
	root.SetOut(out)
	err := guarded(root.Execute)
	if err == nil {
		return ExitDone
	}
	code := exitCode(err)
	text := oneLine(err)
	fmt.Fprintln(root.ErrOrStderr(), root.Name()+": "+text)
	if wantsJSON(args) && !out.written { // a result that was printed stays the only object
		var failure struct {
			Error struct {
				Message  string `json:"message"`
				ExitCode int    `json:"exit_code"`
			} `json:"error"`
		}
		failure.Error.Message, failure.Error.ExitCode = text, code
		_ = writeJSON(out, failure) // the line and the code have said it
	}
	return code
}

// commandLine is the key of a command's arguments as they were given, in its context.
type commandLine struct{}

// noting notes whether anything was written.
type noting struct {
	w       io.Writer
	written bool
}

func (n *noting) Write(b []byte) (int, error) {
	n.written = true
	return n.w.Write(b)
}

// wantsJSON reads the flag itself: an error may have kept the command line from being parsed.
func wantsJSON(args []string) bool {
	asJSON := false
	for _, a := range args {
		if a == "--" {
			break
		}
		value, given := strings.CutPrefix(a, "--json=")
		if on, err := strconv.ParseBool(value); given && err == nil {
			asJSON = on
		}
		asJSON = asJSON || a == "--json"
	}
	return asJSON
}

// writeJSON writes one JSON object.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func exitCode(err error) int {
	var refused *usage.Error
	switch {
	case errors.Is(err, ledger.ErrExhausted), errors.Is(err, accountant.ErrBudget):
		return ExitRefused
	case errors.As(err, &refused):
		return ExitUsage
	case errors.Is(err, train.ErrInterrupted), errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return ExitFailed
}

// oneLine is an error's text on one line, without Go's words for an interrupt.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	if errors.Is(err, context.Canceled) {
		text = strings.Replace(text, context.Canceled.Error(), train.ErrInterrupted.Error(), 1)
	}
	return text
}

// guarded makes an error of a fault of the program.
func guarded(f func() error) (err error) {
	defer fault.Recover(&err)
	return f()
}
