package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/train"
)

// measured is a run by a recipe, on the test files.
type measured struct {
	data         string
	recipe       string // whose settings it took
	epsilon      float64
	seed         int
	accuracy     float64
	seconds, cpu float64 // of the whole command; of all its threads; NaN where the run was no command
	peak         float64 // GiB; likewise
}

var measuredHead = []string{"data", "recipe", "epsilon", "seed", "test_accuracy", "seconds", "processor_seconds", "peak_gib"}

func (m measured) fields() []string {
	return []string{m.data, m.recipe, text(m.epsilon), fmt.Sprint(m.seed), text(m.accuracy), known(m.seconds), known(m.cpu), known(m.peak)}
}

// known is a number, or nothing where it was not measured.
func known(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return text(v)
}

func readMeasured() (all []measured, err error) {
	rows, err := readCSV(measuredFile)
	if err != nil {
		return nil, err
	}
	for _, f := range rows {
		m := measured{data: f[0], recipe: f[1]}
		numbers := map[int]*float64{2: &m.epsilon, 4: &m.accuracy}
		for column, into := range map[int]*float64{5: &m.seconds, 6: &m.cpu, 7: &m.peak} {
			if *into = math.NaN(); f[column] != "" {
				numbers[column] = into
			}
		}
		if err := parse(measuredFile, f, numbers, 3, &m.seed); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// measure runs what is not yet in the file. Every run that ends is in it: none is chosen.
func measure(ctx context.Context, o options) error {
	done, err := readMeasured()
	if err != nil {
		return err
	}
	run := o.once
	if o.together {
		run = (&together{options: o}).run
	}
	for seed := 1; seed <= o.seeds; seed++ {
		for _, data := range o.sets {
			for _, epsilon := range o.epsilons {
				if slices.ContainsFunc(done, func(m measured) bool {
					return m.data == data && m.recipe == cmp.Or(o.recipe, data) && m.epsilon == epsilon && m.seed == seed
				}) {
					continue
				}
				m, err := run(ctx, data, epsilon, seed)
				if err != nil {
					return err
				}
				if err := add(measuredFile, measuredHead, m.fields()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// together makes features once for all runs that have the same, in this process. Their times are not measured.
type together struct {
	options
	by  mappedBy
	set *datasets.Set
}

// mappedBy is what rows depend on.
type mappedBy struct {
	data, features, whiten string
	mirror, deskew         bool
}

func (t *together) run(ctx context.Context, data string, epsilon float64, seed int) (measured, error) {
	m := measured{data: data, recipe: cmp.Or(t.recipe, data), epsilon: epsilon, seed: seed, seconds: math.NaN(), cpu: math.NaN(), peak: math.NaN()}
	r, err := recipes.Find(recipes.Best, m.recipe, [3]int{}, epsilon)
	if err != nil {
		return m, err
	}
	r.Data = data
	if of := (mappedBy{data, r.Features, r.Whiten, r.Mirror, r.Deskew}); t.by != of {
		t.set = nil // before there is another
		set, front, err := opened(t.options.data, r)
		if err != nil {
			return m, err
		}
		set.Train, set.Test = rowsOf(front, set.Train), rowsOf(front, set.Test)
		t.set, t.by = set, of
	}
	c := train.Default()
	delta := 1e-5
	c.Seed, c.Epsilon, c.Delta = uint64(seed), &epsilon, &delta
	result, err := trained(ctx, c, t.set, r.Settings)
	if err != nil {
		return m, err
	}
	if !result.Guarantee || result.TestAccuracy == nil {
		return m, fmt.Errorf("%s at epsilon %g: the run has no guarantee or no accuracy", data, epsilon)
	}
	m.accuracy = *result.TestAccuracy
	return m, nil
}

// once is one process, from raw images to a model and its accuracy.
func (o options) once(ctx context.Context, data string, epsilon float64, seed int) (measured, error) {
	m := measured{data: data, recipe: cmp.Or(o.recipe, data), epsilon: epsilon, seed: seed}
	out, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(out)
	args := []string{
		"train", "--data", data, "--epsilon", text(epsilon), "--delta", "1e-5", "--seed", fmt.Sprint(seed),
		"--out", filepath.Join(out, "run"), "--json", "--progress", "off",
	}
	if m.recipe == data {
		args = append(args, "--recipe", recipes.Best)
	} else {
		r, err := recipes.Find(recipes.Best, m.recipe, [3]int{}, epsilon)
		if err != nil {
			return m, err
		}
		for key, value := range r.Keys() {
			args = append(args, fmt.Sprintf("--%s=%v", strings.ReplaceAll(key, "_", "-"), value))
		}
	}
	if data != "fmnist" { // which is built in
		args = append(args, "--data-dir", filepath.Join(o.data, data), "--published-set")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, o.binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return m, fmt.Errorf("%s: %w: %s", cmd, err, stderr.String())
	}
	var r struct {
		Accuracy  float64 `json:"test_accuracy"`
		Seconds   float64 `json:"seconds"`
		Guarantee bool    `json:"guarantee"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		return m, err
	}
	if !r.Guarantee {
		return m, fmt.Errorf("%s: the run has no guarantee", cmd)
	}
	s := cmd.ProcessState
	m.accuracy, m.seconds = r.Accuracy, r.Seconds
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		m.peak = float64(u.Maxrss) / (1 << 20) // of KiB, on Linux
	}
	m.cpu = (s.UserTime() + s.SystemTime()).Seconds()
	return m, nil
}
