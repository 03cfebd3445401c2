//go:build linux || darwin

package stream

import (
	"bytes"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec/guard"
)

// What is filled lies in turn directly before and after memory that faults.
func TestNothingOutsideIsTouched(t *testing.T) {
	region := guard.New(t, 4096)
	eachImplementation(t, func(t *testing.T) {
		for _, c := range ciphers {
			s := newStream(t, c, KeyFromSeed(1, "guard"))
			for n := range 1300 {
				for _, end := range []bool{false, true} {
					want := make([]byte, n)
					s.Fill(want, 1, 2)
					got := region.Bytes(n, end)
					s.Fill(got, 1, 2)
					if !bytes.Equal(got, want) {
						t.Fatalf("%v: %d bytes are others at another address", c, n)
					}
				}
			}
		}
	})
}
