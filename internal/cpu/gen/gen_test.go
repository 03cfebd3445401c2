package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// files are what the generator writes.
var files = sync.OnceValue(rendered)

func TestCommittedFilesAreCurrent(t *testing.T) {
	for path, want := range files() {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the generator writes: run go generate in its directory", path)
		}
	}
}

// TestNoLegacyMoves: an SSE move amid AVX instructions waits for the upper halves of the registers, a hundred
// nanoseconds on some processors. Load and Store of avo write such moves for floats.
func TestNoLegacyMoves(t *testing.T) {
	legacy := regexp.MustCompile(`(?m)^\s+MOV(SS|SD|UPS|UPD|APS|APD)\s.*`)
	for path, text := range files() {
		if line := legacy.Find(text); line != nil && strings.HasSuffix(path, "_amd64.s") {
			t.Errorf("%s has%s", path, line)
		}
	}
}
