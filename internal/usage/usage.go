// Package usage has the error of a request that cannot be met as it stands. Nothing was changed.
package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// An Error is the user's to mend.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Errorf is fmt.Errorf as an Error.
func Errorf(format string, a ...any) error { return &Error{fmt.Errorf(format, a...)} }

// Wrap marks an error of somebody else as the user's to mend; nil stays nil.
func Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}

// Cause is why a file could not be used, without the name of the call that failed and the path,
// which the message around it says.
func Cause(err error) error {
	if failed := new(fs.PathError); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// Quote makes a text one word of a shell, for commands that people copy.
func Quote(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
