package train

import (
	"errors"
	"fmt"
)

// A UsageError is a request that cannot be met as it stands: a bad setting, a
// bad file, a directory that is taken. Nothing was changed.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usage(format string, a ...any) error { return &UsageError{fmt.Errorf(format, a...)} }

// asUsage marks an error of somebody else as the user's to mend.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

// ErrInterrupted says that a run stopped early because it was asked to, saved.
var ErrInterrupted = errors.New("interrupted")
