package reproduce

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/train"
)

// Env is what figures see.
type Env struct {
	Options
	Learned *Protection // nil: the figure has none
	skipped []string
	labels  []string
	lessons map[string]*Lesson
}

// Steps scales a number of steps, or of anything else that is work.
func (e *Env) Steps(full int) int { return max(int(math.Round(e.Work*float64(full))), 2) }

// Skip leaves something out and says so, once.
func (e *Env) Skip(format string, a ...any) {
	line := fmt.Sprintf(format, a...)
	if slices.Contains(e.skipped, line) {
		return
	}
	e.skipped = append(e.skipped, line)
	if e.Notice != nil {
		e.Notice(line)
	}
}

// Label adds what must be said beside every figure.
func (e *Env) Label(text string) {
	if !slices.Contains(e.labels, text) {
		e.labels = append(e.labels, text)
	}
}

// Labels are those so far.
func (e *Env) Labels() []string { return e.labels }

// Find looks for a file, or the same with .gz, in the data directory and in a folder of it.
func (e *Env) Find(folder, name string) string {
	if e.DataDir == "" || name == "" {
		return ""
	}
	for _, path := range []string{filepath.Join(e.DataDir, name), filepath.Join(e.DataDir, folder, name)} {
		for _, end := range []string{"", ".gz"} {
			if _, err := os.Stat(path + end); err == nil {
				return path + end
			}
		}
	}
	return ""
}

// Images completes a configuration with an image set; false where it is not there.
func (e *Env) Images(c *train.Config, name string) bool {
	s, ok := e.Sources[name]
	c.Data = name
	if ok && s.BuiltIn {
		return true
	}
	marks := map[string]string{"mnist": "train-images-idx3-ubyte", "cifar10": "data_batch_1.bin"}
	path := e.Find(name, marks[name])
	if !ok || path == "" {
		e.Skip("%s is left out: --data-dir DIR (or %s) has no files of it in DIR or DIR/%[1]s; get them with `privgrad data fetch %[1]s --data-dir DIR/%[1]s`", name, config.DataDirVariable)
		return false
	}
	c.DataDir, c.PublishedSet = filepath.Dir(path), true
	return true
}

// OnGPU says whether runs are made on one.
func (e *Env) OnGPU() bool { return strings.HasPrefix(e.Device, "cuda") }

// cached opens every data set once for all runs, which only read it.
func cached(sources map[string]train.Source) map[string]train.Source {
	all := map[string]train.Source{}
	for name, s := range sources {
		var opened sync.Map // by directory
		all[name] = train.Source{BuiltIn: s.BuiltIn, Open: func(dir string) (*datasets.Set, error) {
			type open = func() (*datasets.Set, error)
			once, _ := opened.LoadOrStore(dir, open(sync.OnceValues(func() (*datasets.Set, error) { return s.Open(dir) })))
			return once.(open)()
		}}
	}
	return all
}

// Evenly gives about so many of a list, the ends among them.
func Evenly[T any](all []T, count int) []T {
	if count >= len(all) {
		return all
	}
	var some []T
	for i := range count {
		some = append(some, all[i*(len(all)-1)/max(count-1, 1)])
	}
	return some
}
