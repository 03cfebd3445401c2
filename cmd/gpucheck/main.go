// Command gpucheck tests and measures on a machine with an NVIDIA GPU what
// make gpu-check-bundle has built beside it. It needs neither Go nor the
// sources, and writes a report to be read by people who have no GPU.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const usage = `gpu-check.sh [flags] [OUTDIR]

tests the CUDA device on this machine's GPU, and measures it. Every step has a
time limit and none stops the next. OUTDIR gets gpu-check.json, gpu-check.txt and
the logs. The exit code is 0 if all passed that could run, and 1 otherwise.

`

func main() {
	c := &check{seconds: 3, rounds: 3, python: "python3", limit: time.Hour}
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	only := flag.String("only", "", "run these groups, with commas between: "+strings.Join(groupNames(), ", "))
	flag.Float64Var(&c.seconds, "seconds", c.seconds, "length of every measurement")
	flag.IntVar(&c.rounds, "rounds", c.rounds, "measurements of every peer")
	flag.StringVar(&c.python, "python", c.python, "Python interpreter that has the peers")
	flag.DurationVar(&c.limit, "limit", c.limit, "most time that a step may take, where its own limit is longer")
	flag.Parse()
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(2)
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
		for _, name := range c.only {
			if !slices.Contains(groupNames(), name) {
				fail(fmt.Errorf("there are no steps %q: choose of %s", name, strings.Join(groupNames(), ", ")))
			}
		}
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
