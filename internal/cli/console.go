package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/privgrad/privgrad/internal/usage"
)

// A Console is standard error: with at most one progress bar, or with lines that say how
// far the work is. It is a slog.Handler.
type Console struct {
	Release func() // leaves signals to what they do by themselves
	w       io.Writer
	bars    bool
	lines   bool         // where there is no bar
	columns func() int   // of the terminal, 0 if there is none
	json    slog.Handler // nil: lines are prose

	mu  sync.Mutex
	bar *progressbar.ProgressBar
}

func consoleFlags(f *pflag.FlagSet) {
	f.String("progress", "auto", "auto (a bar on a terminal, else lines), on or off")
	NameArgument(f.Lookup("progress"), "MODE")
	f.String("log-format", "text", "lines on standard error as text or json")
	NameArgument(f.Lookup("log-format"), "FORMAT")
}

func newConsole(w io.Writer, mode, format string) (*Console, error) {
	c := &Console{w: w, columns: func() int { return 0 }}
	f, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	if terminal {
		c.columns = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 0
			}
			return width
		}
	}
	switch format {
	case "text":
	case "json":
		c.json = slog.NewJSONHandler(lineWriter{c}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey { // the time of a step depends on its batch
				return slog.Attr{}
			}
			return a
		}})
	default:
		return nil, usage.Unknown("--log-format", format, []string{"text", "json"})
	}
	switch mode {
	case "on":
		c.bars = true
	case "off":
	case "auto":
		c.bars = terminal && c.json == nil
		c.lines = !c.bars
	default:
		return nil, usage.Unknown("--progress", mode, []string{"auto", "on", "off"})
	}
	return c, nil
}

// Line writes a line of its own.
func (c *Console) Line(text string) { fmt.Fprintln(lineWriter{c}, text) }

// Notice writes a line about the work, as text or JSON.
func (c *Console) Notice(text string) { slog.New(c).Info(text) }

// Doing says in a line what is done now, unless progress is off.
func (c *Console) Doing(text string) {
	if c.lines || c.bars {
		c.Notice(text)
	}
}

// lineWriter writes whole lines, over the bar.
type lineWriter struct{ *Console }

func (l lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bar != nil {
		_ = l.bar.Clear() // a bar that cannot be cleared only looks worse
	}
	return l.w.Write(line)
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
		progressbar.OptionSetWidth(c.barWidth()),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
	}, more...)...)
}

// What stands around a bar of percent, and the width of the bar itself.
const (
	frame      = len(" 100% |") + len("|   ")
	wide, slim = 20, 8
)

func (c *Console) barWidth() int {
	if columns := c.columns(); columns > 0 && columns < 80 {
		return slim
	}
	return wide
}

// fit cuts a text to what a line has room for beside the bar: a longer one would scroll at
// every update. It ends before the first part, by commas, that does not fit.
func (c *Console) fit(text string) string {
	columns := c.columns()
	room := columns - frame - c.barWidth() - 1
	if columns == 0 || utf8.RuneCountInString(text) <= room {
		return text
	}
	short := ""
	for part := range strings.SplitAfterSeq(text, ", ") {
		if utf8.RuneCountInString(strings.TrimSuffix(short+part, ", ")) > room {
			break
		}
		short += part
	}
	return strings.TrimSuffix(short, ", ")
}

// Update moves the bar. Nothing depends on whether it could be drawn.
func (c *Console) Update(done int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		c.bar.Describe(c.fit(text))
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
func (c *Console) Handle(ctx context.Context, r slog.Record) error {
	if c.json != nil {
		return c.json.Handle(ctx, r)
	}
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
