//go:build linux || darwin

package stream

import (
	"bytes"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec/guard"
)

// Every slice lies in turn directly before and after memory that faults.
func TestNothingOutsideIsTouched(t *testing.T) {
	var regions [3]guard.Region
	for i := range regions {
		regions[i] = guard.New(t, 16384)
	}
	eachImplementation(t, func(t *testing.T) {
		for _, c := range ciphers {
			s := newStream(t, c, KeyFromSeed(1, "guard"))
			for n := range 1300 {
				for _, end := range []bool{false, true} {
					want := make([]byte, n)
					s.Fill(want, 1, 2)
					got := regions[0].Bytes(n, end)
					s.Fill(got, 1, 2)
					if !bytes.Equal(got, want) {
						t.Fatalf("%v: %d bytes are others at another address", c, n)
					}
				}
			}
			for n := range 150 {
				for _, end := range []bool{false, true} {
					for skip := range 2 {
						dst, src := regions[0].Floats(n, end), regions[1].Floats(n, end)
						for i := range src {
							src[i] = float32(i)
						}
						raw := regions[2].Bytes((skip+n+1)/2*16, end)
						s.Fill(raw, 0, 0)
						want := make([]float32, n)
						s.AddNormals(want, src, 0.5, 0, 0, skip)
						use.addNormals(dst, src, raw, skip, 0.5)
						if !slices.Equal(dst, want) {
							t.Fatalf("%d normals are others at another address", n)
						}
					}
				}
			}
		}
	})
}
