//go:build unix

package cmd

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notYet are the commands of the tutorial that this version does not have. They are
// run like the others, and must fail: one that works has to leave this list.
var notYet = []string{
	"calibrate --advantage", "--data dir:", "--dry-run", "privgrad resume", "privgrad report", "privgrad export", "privgrad verify",
}

// The tutorial's commands work, one after the other in one directory. Training is cut
// to a few steps.
func TestLongTutorial(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, work := t.TempDir(), t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = train ]; then set -- \"$@\" --steps 3; fi\n%s=command exec '%s' \"$@\"\n", childVariable, self)
	if err := os.WriteFile(filepath.Join(bin, "privgrad"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	photos(t, filepath.Join(work, "photos"))

	page := readFile(t, "..", "..", "docs", "tutorial.md")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	if len(blocks) < 10 {
		t.Fatalf("the tutorial has %d blocks of commands", len(blocks))
	}
	used := map[string]bool{}
	for _, b := range blocks {
		missing := slices.IndexFunc(notYet, func(what string) bool { return strings.Contains(b[1], what) })
		c := exec.Command("sh", "-e", "-c", b[1])
		c.Dir = work
		c.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		switch {
		case missing < 0 && err != nil:
			t.Errorf("%s%v\n%s", b[1], err, out)
		case missing >= 0 && err == nil:
			t.Errorf("this works: take %q out of the list\n%s", notYet[missing], b[1])
		}
		if missing >= 0 {
			used[notYet[missing]] = true
		}
	}
	for _, what := range notYet {
		if !used[what] {
			t.Errorf("no command of the tutorial has %q", what)
		}
	}
}

// photos writes the tutorial's folder of images: eight to a class, bright or dark.
func photos(t *testing.T, dir string) {
	t.Helper()
	for _, part := range []string{"train", "test"} {
		for class, name := range []string{"cat", "dog"} {
			folder := filepath.Join(dir, part, name)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range 8 {
				m := image.NewRGBA(image.Rect(0, 0, 40, 32))
				for p := range m.Pix {
					m.Pix[p] = uint8(class*128 + (p*(i+1))%100)
				}
				m.Set(0, 0, color.White)
				f, err := os.Create(filepath.Join(folder, fmt.Sprintf("%d.png", i)))
				if err != nil {
					t.Fatal(err)
				}
				if err := png.Encode(f, m); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
