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
	"testing"
)

// The tutorial's commands work, one after the other in one directory. Training is cut
// to a few steps, and Fashion-MNIST to two classes.
func TestLongTutorial(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	bin, work := t.TempDir(), t.TempDir()
	wrapper := fmt.Sprintf(`#!/bin/sh
if [ "$1" = train ] || [ "$1" = tune ]; then
	set -- "$@" --steps 3
	case " $* " in *" --data "* | *" -c "*) ;; *) set -- "$@" --classes 0,1 ;; esac
	case " $* " in *" dir:photos "*) set -- "$@" --count-records=false ;; esac # there are 16, for 20000
fi
%s=command exec '%s' "$@"
`, childVariable, self)
	check(t, os.WriteFile(filepath.Join(bin, "privgrad"), []byte(wrapper), 0o755))
	photos(t, filepath.Join(work, "photos"))

	page := readFile(t, "..", "docs", "tutorial.md")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	if len(blocks) < 10 {
		t.Fatalf("the tutorial has %d blocks of commands", len(blocks))
	}
	for _, b := range blocks {
		c := exec.Command("sh", "-e", "-c", b[1])
		c.Dir = work
		c.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s%v\n%s", b[1], err, out)
		}
	}
}

// What ten runs cost is the same on all pages that say it: ten of the tutorial's first run, by its summary.
func TestPagesAgreeOnTenRuns(t *testing.T) {
	tutorial, pitfalls := readFile(t, "..", "docs", "tutorial.md"), readFile(t, "..", "docs", "explain", "pitfalls.md")
	find := func(page, pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("no page says %s", pattern)
		}
		return m[1]
	}
	ten := func(noise, rate, steps string) string {
		said := object(t, ok(t, "account", "--noise-multiplier", noise, "--sampling-rate", rate, "--steps", steps+"0", "--delta", "1e-5", "--json"))
		return fmt.Sprintf("%.1f", said["epsilon"])
	}
	first := ten(find(tutorial, `Noise +([\d.]+) × clip norm`), find(tutorial, `probability ([\d.]+), which`), find(tutorial, `(\d+) steps in …`))
	for name, said := range map[string]string{
		"the tutorial":         find(tutorial, `Ten runs like the first one,\s+each at ε = 3, cost about ε = ([\d.]+\d) together`),
		"the page of mistakes": find(pitfalls, `Ten such runs cost\s+ε ≈ ([\d.]+\d) together`),
	} {
		if said != first {
			t.Errorf("%s says that ten runs cost %s; they cost %s", name, said, first)
		}
	}
	account := regexp.MustCompile(`account --noise-multiplier (\S+) --sampling-rate (\S+) --steps (\S+) `).FindStringSubmatch(tutorial)
	if account == nil || ten(account[1], account[2], account[3]) != first {
		t.Errorf("the tutorial prices another run than the first: %q", account)
	}
}

// photos writes the tutorial's folder of images: eight to a class, bright or dark.
func photos(t *testing.T, dir string) {
	t.Helper()
	for _, part := range []string{"train", "test"} {
		for class, name := range []string{"cat", "dog"} {
			folder := filepath.Join(dir, part, name)
			check(t, os.MkdirAll(folder, 0o755))
			for i := range 8 {
				m := image.NewRGBA(image.Rect(0, 0, 40, 32))
				for p := range m.Pix {
					m.Pix[p] = uint8(class*128 + (p*(i+1))%100)
				}
				m.Set(0, 0, color.White)
				f, err := os.Create(filepath.Join(folder, fmt.Sprintf("%d.png", i)))
				check(t, err)
				check(t, png.Encode(f, m))
				check(t, f.Close())
			}
		}
	}
}
