package cli

import (
	"context"
	"errors"
	"fmt"
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
	ExitInterrupted = 130 // by SIGINT or SIGTERM, and in good order
)

// Execute runs a command and turns how it ended into a line and an exit code.
func Execute(root *cobra.Command) int {
	err := guarded(root.Execute)
	if err == nil {
		return ExitDone
	}
	complain(root, err)
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
