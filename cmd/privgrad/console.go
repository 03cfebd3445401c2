package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/privgrad/privgrad/internal/usage"
)

// progressFlag says when a bar is shown.
func progressFlag(cmd *cobra.Command, mode *string) {
	cmd.Flags().StringVar(mode, "progress", "auto", "progress bar on standard error: auto (on a terminal only), on, off")
}

// A console is standard error with at most one progress bar, which makes room
// for lines. It is a slog.Handler.
type console struct {
	w    io.Writer
	bars bool

	mu  sync.Mutex
	bar *progressbar.ProgressBar
}

func newConsole(w io.Writer, mode string) (*console, error) {
	c := &console{w: w}
	switch mode {
	case "on":
		c.bars = true
	case "off":
	case "auto":
		f, ok := w.(*os.File)
		c.bars = ok && term.IsTerminal(int(f.Fd()))
	default:
		return nil, usage.Errorf("progress %q: choose auto, on or off", mode)
	}
	return c, nil
}

func (c *console) line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		_ = c.bar.Clear() // a bar that cannot be cleared only looks worse
	}
	fmt.Fprintln(c.w, text)
}

// start shows a bar; total is in steps or, where so said, in bytes.
func (c *console) start(total int64, bytes bool) {
	if !c.bars || total < 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	options := []progressbar.Option{
		progressbar.OptionSetWriter(c.w),
		progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionClearOnFinish(),
	}
	if bytes {
		options = append(options, progressbar.OptionShowBytes(true), progressbar.OptionShowCount())
	}
	c.bar = progressbar.NewOptions64(total, options...)
}

// update moves the bar. Nothing depends on whether it could be drawn.
func (c *console) update(done int64, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		c.bar.Describe(text)
		_ = c.bar.Set64(done)
	}
}

func (c *console) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		_ = c.bar.Clear()
		c.bar = nil
	}
}

func (c *console) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (c *console) Handle(_ context.Context, r slog.Record) error {
	text := "privgrad: "
	if r.Level >= slog.LevelWarn {
		text += "warning: "
	}
	text += r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	c.line(text)
	return nil
}

// WithAttrs and WithGroup leave the console as it is: its lines are prose.
func (c *console) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *console) WithGroup(string) slog.Handler      { return c }

// interruptible gives a context that the first SIGINT or SIGTERM cancels; the
// second ends the process in the ordinary way. The returned function undoes it.
func interruptible(parent context.Context, c *console, notice string) (context.Context, func()) {
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(os.Interrupt) { // as it is for a shell's background jobs
		signals = append(signals, os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(parent, signals...)
	unhook := context.AfterFunc(ctx, func() {
		stop()
		c.line("privgrad: interrupted: " + notice + "; interrupt again to quit at once")
	})
	return ctx, func() {
		unhook()
		stop()
	}
}

// steps shows how a run goes, as a train.Progress. It sees public figures only.
type steps struct {
	*console
	notPrivate   string // why ε is none, where it is not
	total, first int
	started      time.Time
}

func (s *steps) Start(total int) {
	s.total, s.first, s.started = total, -1, time.Now()
	s.start(int64(total), false)
}

func (s *steps) Step(done int, epsilon, testAccuracy *float64) {
	if s.first < 0 {
		s.first = done - 1 // a resumed run starts in the middle
	}
	text := fmt.Sprintf("step %d/%d", done, s.total)
	if epsilon != nil {
		text += fmt.Sprintf(", ε %.3g", *epsilon)
	}
	if s.notPrivate != "" {
		text += " (" + s.notPrivate + ")"
	}
	if testAccuracy != nil {
		text += fmt.Sprintf(", test %.1f%%", 100**testAccuracy)
	}
	if ran := done - s.first; ran >= 10 {
		text += fmt.Sprintf(", %s left", coarse(time.Since(s.started)/time.Duration(ran)*time.Duration(s.total-done)))
	}
	s.update(int64(done), text)
}

// coarse rounds a time left to what may be shown of it: single steps' times depend on the
// data. For the same reason it comes from the mean over the whole run, of ten steps or more.
func coarse(left time.Duration) time.Duration {
	unit := 5 * time.Second
	for _, u := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour} {
		if left >= 10*u {
			unit = u
		}
	}
	return left.Round(unit)
}

func (s *steps) Finish() { s.finish() }
