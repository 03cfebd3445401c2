package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A system is what a check asks of the machine that it runs on. Tests have one with planned
// commands and a clock of its own.
type system interface {
	Now() time.Time
	// Find gives the path of a program.
	Find(name string) (string, error)
	// Run runs a command in a directory. The error is a tooLate if it took longer than limit.
	Run(ctx context.Context, dir string, j job, limit time.Duration, stdout, stderr io.Writer) error
}

// check runs steps and keeps their report.
type check struct {
	system      system
	bundle, out string
	budget      time.Duration // of all steps, 0 for no bound
	only        []string      // groups, nil for all
	chosen      choice
	seconds     float64
	rounds      int
	python      string
	interpreter string // what it names, once it was found
	limit       time.Duration
	atOnce      int // jobs of a group that measures nothing

	adding  sync.Mutex // of steps to the report
	report  report
	end     time.Time // of the present group's share; zero for no bound
	scratch string    // emptied at the end
}

// A job is a command with its limit.
type job struct {
	name    string
	limit   time.Duration
	needs   time.Duration // about what it takes: with less time left it does not start
	env     []string
	command []string
	idle    string // printed by a tool that had nothing to watch, which is no failure of a test that ended well
}

// left is what remains of the present group's share of the budget.
func (c *check) left() time.Duration {
	if c.end.IsZero() {
		return math.MaxInt64
	}
	return c.end.Sub(c.system.Now())
}

// together runs jobs that measure nothing, several at once: they wait for the processor more than for
// the GPU.
func (c *check) together(ctx context.Context, jobs []job, judge func(s *step, stdout []byte) error) {
	var wait sync.WaitGroup
	defer wait.Wait()
	free := make(chan struct{}, c.atOnce)
	for _, j := range jobs {
		if c.atOnce <= 1 { // as tests want it
			c.run(ctx, j, judge)
			continue
		}
		free <- struct{}{}
		wait.Go(func() {
			c.run(ctx, j, judge)
			<-free
		})
	}
}

// run runs a job, reports it, and gives the step and what it printed on stdout.
// judge, where it is not nil, looks at what exited with 0.
func (c *check) run(ctx context.Context, j job, judge func(s *step, stdout []byte) error) (*step, []byte) {
	own := min(j.limit, c.limit)
	left := c.left()
	limit := min(own, max(left, 0))
	s := &step{Name: j.name, Command: strings.Join(append(j.env, j.command...), " "), Limit: limit.Seconds()}
	var out bytes.Buffer
	var both shared
	began := c.system.Now()
	var err error
	switch {
	case ctx.Err() != nil:
		err = notRun("interrupted before it")
	case left < j.needs:
		err = notRun(fmt.Sprintf("it needs about %v, and less is left of its share of the %v", j.needs, c.budget))
	default:
		err = c.system.Run(ctx, c.scratch, j, limit, io.MultiWriter(&out, &both), &both)
	}
	stdout, log := out.Bytes(), both.all.Bytes()
	switch {
	case err != nil && j.idle != "" && bytes.Contains(log, []byte(j.idle)) && passedOrSkipped.Match(log):
		why := j.idle
		if skips.Match(log) {
			why = complaint(stdout, why)
		}
		err = notRun(why)
	case err == nil && judge != nil:
		err = judge(s, stdout)
	case errors.As(err, new(tooLate)) && limit < own && !bytes.Contains(log, []byte("--- FAIL: ")):
		err = notRun(fmt.Sprintf("stopped after %v, at the end of its share of the %v", limit.Round(time.Second), c.budget))
	}
	s.Seconds = c.system.Now().Sub(began).Seconds()
	switch {
	case err == nil:
		s.Status = passed
	case errors.As(err, new(notRun)):
		s.Status, s.Reason = skipped, err.Error()
	default:
		s.Status, s.Reason, s.Log = failed, err.Error(), tail(log)
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			s.Reason = complaint(log, s.Reason)
		}
	}
	c.add(s, log)
	return s, stdout
}

// ask runs a short command that is no step.
func (c *check) ask(ctx context.Context, command ...string) ([]byte, error) {
	var out bytes.Buffer
	err := c.system.Run(ctx, c.scratch, job{command: command}, min(3*time.Minute, max(c.left(), 0)), &out, io.Discard)
	return out.Bytes(), err
}

// tooLate is the limit that a command did not keep.
type tooLate time.Duration

func (t tooLate) Error() string { return fmt.Sprintf("not done after %v", time.Duration(t)) }

// machine is the machine that the check runs on.
type machine struct{}

func (machine) Now() time.Time { return time.Now() }

func (machine) Find(name string) (string, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(program) // commands run elsewhere
}

func (machine) Run(ctx context.Context, dir string, j job, limit time.Duration, stdout, stderr io.Writer) error {
	inner, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.CommandContext(inner, j.command[0], j.command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), j.env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// An interrupt lets a command stop its own children.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case inner.Err() != nil:
		return tooLate(limit)
	}
	return err
}

// shared is what a command prints on both of its streams, each of which comes from a
// goroutine of its own.
type shared struct {
	mu  sync.Mutex
	all bytes.Buffer // not embedded: its ReadFrom knows no lock
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

// notRun is why a step could not run, which is no failure.
type notRun string

func (n notRun) Error() string { return string(n) }

// skip reports a step that cannot run here.
func (c *check) skip(name, why string) {
	c.add(&step{Name: name, Status: skipped, Reason: why}, nil)
}

// add reports a step. A report is complete after every one, so that a machine
// that is taken away leaves what was found.
func (c *check) add(s *step, log []byte) {
	c.adding.Lock()
	defer c.adding.Unlock()
	c.report.Steps = append(c.report.Steps, s)
	fmt.Printf("%-8s %8.1f s  %s", s.Status, s.Seconds, s.Name)
	if s.Reason != "" {
		fmt.Printf(": %s", s.Reason)
	}
	fmt.Println()
	if len(log) > 0 {
		s.LogFile = filepath.ToSlash(filepath.Join("logs", strings.NewReplacer("/", "-", " ", "-").Replace(s.Name)+".txt"))
		if err := os.WriteFile(filepath.Join(c.out, filepath.FromSlash(s.LogFile)), log, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gpucheck: ", err)
		}
	}
	if err := c.write(); err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck: ", err)
	}
}

var tested = regexp.MustCompile(`(?m)^ *\w+_test\.go:\d+: .*`)

// complaint is the first line in which a test says what is wrong, or the last that a command
// printed, or what is given where there is none.
func complaint(log []byte, exit string) string {
	text := strings.TrimSpace(string(log))
	line := text[strings.LastIndexByte(text, '\n')+1:]
	if first := tested.FindString(text); first != "" {
		line = first
	}
	if line = strings.TrimSpace(line); line == "" {
		return exit
	}
	const most = 300
	if r := []rune(line); len(r) > most {
		line = string(r[:most]) + "…"
	}
	return line
}

// tail is the end of a log, and of Go's tests the lines that say what failed
// wherever they are.
func tail(log []byte) string {
	const most = 100
	lines := strings.Split(strings.TrimRight(string(log), "\n"), "\n")
	if len(lines) <= most {
		return strings.Join(lines, "\n")
	}
	var kept []string
	for _, l := range lines[:len(lines)-most] {
		if said.MatchString(l) && len(kept) < most {
			kept = append(kept, l)
		}
	}
	return strings.Join(append(append(kept, "…"), lines[len(lines)-most:]...), "\n")
}

var said = regexp.MustCompile(`--- FAIL|_test\.go:\d+:|[a-z]+\.go:\d+: |^panic|ERROR|========= `)
