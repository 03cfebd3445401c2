package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestCommittedFilesAreCurrent(t *testing.T) {
	for _, u := range units {
		files, err := u.render()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			path := filepath.Join(filepath.FromSlash(u.dir), name)
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs from what the generator writes: run go generate in %s", path, u.dir)
			}
		}
	}
}

// TestNoLegacyMoves: an SSE move amid AVX instructions waits for the upper halves of the registers, a hundred
// nanoseconds on some processors. Load and Store of avo write such moves for floats.
func TestNoLegacyMoves(t *testing.T) {
	legacy := regexp.MustCompile(`(?m)^\s+MOV(SS|SD|UPS|UPD|APS|APD)\s.*`)
	for _, u := range units {
		files, err := u.render()
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if line := legacy.Find(text); line != nil {
				t.Errorf("%s/%s has%s", u.dir, name, line)
			}
		}
	}
}
