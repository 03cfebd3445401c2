package durable

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/privgrad/privgrad/internal/written"
)

// A Log is a file of lines that grows at its end, such as metrics.jsonl. A line
// is on the disk when Append returns. One goroutine at a time may use it.
type Log struct {
	sys  system
	path string
	f    file
	size int64 // bytes of whole lines
	err  error // the first failure, after which the file's end is unknown
}

// OpenLog opens the log at path, creating it when missing. A last line that a
// crash left incomplete is cut off: it has no newline, or it holds zero bytes
// that a power loss left in place of data.
func OpenLog(path string) (*Log, error) { return openLog(disk{}, path) }

func openLog(sys system, path string) (*Log, error) {
	l := &Log{sys: sys, path: written.Path(path)}
	if err := l.open(); err != nil {
		return nil, explain("opening", path, err)
	}
	return l, nil
}

func (l *Log) open() (err error) {
	if _, err := Regular(l.path); err != nil {
		return err
	}
	f, err := l.sys.openLog(l.path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	data, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	if last := bytes.LastIndexByte(bytes.TrimSuffix(whole, []byte("\n")), '\n') + 1; bytes.IndexByte(whole[last:], 0) >= 0 {
		whole = whole[:last]
	}
	if len(whole) < len(data) {
		if err := f.Truncate(int64(len(whole))); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	// The file may be new: its name has to survive as well.
	if err := l.sys.syncDir(filepath.Dir(l.path)); err != nil {
		return err
	}
	l.f, l.size = f, int64(len(whole))
	return nil
}

// Append adds line and a newline, durably. The line may hold neither a newline
// nor a zero byte. After an error of the disk the line is cut off again as far as
// the disk allows, and the log takes no more lines: open it anew.
func (l *Log) Append(line []byte) error {
	if l.err != nil {
		return l.err
	}
	if bytes.ContainsAny(line, "\n\x00") {
		return fmt.Errorf("appending to %s: the line holds a newline or a zero byte: encode it first", l.path)
	}
	n, err := l.f.Write(append(bytes.Clone(line), '\n'))
	if err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		_ = l.f.Truncate(l.size) // OpenLog repairs what this cannot
		return l.fail("appending to", err)
	}
	l.size += int64(n)
	return nil
}

// Rewrite drops, atomically, the lines for which keep reports false: a run that
// resumes from a checkpoint drops the lines written after it. keep sees each line
// without its newline and may not retain it.
func (l *Log) Rewrite(keep func(line []byte) bool) error {
	if l.err != nil {
		return l.err
	}
	data := make([]byte, l.size)
	if _, err := io.ReadFull(io.NewSectionReader(l.f, 0, l.size), data); err != nil {
		return l.fail("reading", err)
	}
	var kept []byte
	for line := range bytes.Lines(data) {
		if keep(line[:len(line)-1]) {
			kept = append(kept, line...)
		}
	}
	if len(kept) == len(data) {
		return nil
	}
	err := writeFile(l.sys, l.path, func(w io.Writer) error {
		_, err := w.Write(kept)
		return err
	})
	if err != nil {
		l.err = err
		return err
	}
	replaced := l.f
	if err := l.open(); err != nil {
		return l.fail("reopening", err)
	}
	_ = replaced.Close() // nothing unsynced is left in it
	return nil
}

// Close closes the log. Every appended line is already on the disk.
func (l *Log) Close() error { return explain("closing", l.path, l.f.Close()) }

func (l *Log) fail(doing string, err error) error {
	l.err = explain(doing, l.path, err)
	return l.err
}
