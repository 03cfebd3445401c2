package main

import (
	"bytes"
	"os"
	"path/filepath"
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
