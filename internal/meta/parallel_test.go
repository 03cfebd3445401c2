package meta

import (
	"testing"

	"github.com/privgrad/privgrad/internal/fault"
)

// A fault of one of them is the caller's.
func TestFaultInParallel(t *testing.T) {
	err := func() (err error) {
		defer fault.Recover(&err)
		parallel(20, 4, func(i int) { _ = make([]int, 3)[i] })
		return nil
	}()
	if err == nil {
		t.Error("nobody was told")
	}
}
