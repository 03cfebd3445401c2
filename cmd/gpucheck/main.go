// Command gpucheck tests and measures this project on a machine with an NVIDIA GPU, and writes
// a report for people who have none. It needs neither Go nor the sources. As
// make gpu-check-bundle builds it, the one file is also privgrad and the tests, by the name
// under which it is called: what a failing kernel does to a process stays there.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/cmd"
)

const usage = `gpu-check.sh [flags] [OUTDIR]

tests the CUDA device on this machine's GPU, and measures it. It ends within --budget:
each group of steps has a share of it, and a step that its share has no time for is
reported as not run. A failed step does not stop the next one. OUTDIR gets
gpu-check.md, which is to be mailed, gpu-check.json and the logs, all of them after each
step. The exit code is 0 if all passed that could run, and 1 otherwise.

`

func main() {
	switch name := filepath.Base(os.Args[0]); {
	case name == "privgrad":
		cmd.Main(cmd.Options{})
	case suites[name] != nil:
		testing.Main(regexp.MatchString, suites[name], nil, nil)
	default:
		run()
	}
}

func run() {
	c := &check{system: machine{}, budget: 9 * time.Minute, seconds: 1, rounds: 1, python: "python3", limit: time.Hour, atOnce: min(8, runtime.NumCPU())}
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.DurationVar(&c.budget, "budget", c.budget, "time for the whole check; 0: as long as it takes, about an hour")
	only := flag.String("only", "", "run these groups, with commas between: "+strings.Join(groupNames(), ", "))
	models := flag.String("models", "", "measure these, with commas between (default: all)")
	batches := flag.String("batch", "", "records in a step, with commas between: usual (300, or 250 of CIFAR-10 networks) or numbers (default usual,4096)")
	precisions := flag.String("precisions", "", "measure in these, with commas between (default: float32,tf32,bf16)")
	rivals := flag.String("peers", "", "set beside these, with commas between, such as 'jax vmap,opacus ghost' (default: all)")
	flag.Float64Var(&c.seconds, "seconds", c.seconds, "length of every measurement")
	flag.IntVar(&c.rounds, "rounds", c.rounds, "measurements of every peer")
	flag.StringVar(&c.python, "python", c.python, "Python interpreter that has the peers")
	flag.DurationVar(&c.limit, "limit", c.limit, "most time that a step may take, where its own limit is longer")
	flag.Parse()
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(2)
	}
	var err error
	if c.budget < 0 {
		fail(fmt.Errorf("the budget %v is negative: give a time such as 9m, or 0 for no limit", c.budget))
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
		for _, name := range c.only {
			if !slices.Contains(groupNames(), name) {
				fail(fmt.Errorf("there are no steps %q: choose of %s", name, strings.Join(groupNames(), ", ")))
			}
		}
	}
	if c.chosen, err = choose(*models, *batches, *precisions, *rivals); err != nil {
		fail(err)
	}
	self, err := os.Executable()
	if err != nil {
		fail(err)
	}
	c.bundle = filepath.Dir(self)
	switch flag.NArg() {
	case 0:
		c.out = "gpu-check-" + time.Now().UTC().Format("20060102T150405Z")
	case 1:
		c.out = flag.Arg(0)
	default:
		fail(fmt.Errorf("%d directories are given, one is needed", flag.NArg()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	passed, err := c.all(ctx)
	if err != nil {
		fail(err)
	}
	if !passed {
		os.Exit(1)
	}
}
