//go:build (!amd64 && !arm64) || noasm

package gemm

import "testing"

func eachImplementation(t *testing.T, test func(t *testing.T)) { t.Run("portable", test) }
