package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/privgrad/privgrad/internal/usage"
)

// A Console is standard error with at most one progress bar. It is a slog.Handler.
type Console struct {
	Release func() // leaves signals to what they do by themselves
	w       io.Writer
	bars    bool

	mu  sync.Mutex
	bar *progressbar.ProgressBar
}

func newConsole(w io.Writer, mode string) (*Console, error) {
	c := &Console{w: w}
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

// Line writes a line of its own.
func (c *Console) Line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		_ = c.bar.Clear() // a bar that cannot be cleared only looks worse
	}
	fmt.Fprintln(c.w, text)
}

// Start shows a bar of so many steps.
func (c *Console) Start(total int) { c.start(total) }

// StartBytes shows a bar of so many bytes.
func (c *Console) StartBytes(total int) {
	c.start(total, progressbar.OptionShowBytes(true), progressbar.OptionShowCount())
}

func (c *Console) start(total int, more ...progressbar.Option) {
	if !c.bars || total < 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bar = progressbar.NewOptions(total, append([]progressbar.Option{
		progressbar.OptionSetWriter(c.w),
		progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionClearOnFinish(),
	}, more...)...)
}

// Update moves the bar. Nothing depends on whether it could be drawn.
func (c *Console) Update(done int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		c.bar.Describe(text)
		_ = c.bar.Set(done)
	}
}

// Finish takes the bar away.
func (c *Console) Finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		_ = c.bar.Clear()
		c.bar = nil
	}
}

// Enabled is of slog.Handler.
func (c *Console) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle writes a record as a line.
func (c *Console) Handle(_ context.Context, r slog.Record) error {
	text := "privgrad: "
	if r.Level >= slog.LevelWarn {
		text += "warning: "
	}
	text += r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	c.Line(text)
	return nil
}

// WithAttrs leaves the console as it is: its lines are prose.
func (c *Console) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup does nothing either.
func (c *Console) WithGroup(string) slog.Handler { return c }
