package train

import (
	"errors"

	"github.com/privgrad/privgrad/internal/usage"
)

// A UsageError is a request that cannot be met as it stands: a bad setting, a
// bad file, a directory that is taken. Nothing was changed.
type UsageError = usage.Error

// ErrInterrupted says that a run stopped early because it was asked to, saved.
var ErrInterrupted = errors.New("interrupted")
