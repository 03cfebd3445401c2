package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/internal/durable"
)

// How a step ended.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "not run"
)

// report is gpu-check.json.
type report struct {
	Date   string  `json:"date"`   // UTC, of the start
	Passed bool    `json:"passed"` // nothing failed
	Done   bool    `json:"done"`   // not cut short
	Steps  []*step `json:"steps"`
}

// step is one command and how it ended.
type step struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	Reason  string  `json:"reason,omitempty"` // of a failure, or for not running
	Seconds float64 `json:"seconds"`
	Limit   float64 `json:"limit_seconds"`
	Command string  `json:"command,omitempty"`
	LogFile string  `json:"log_file,omitempty"`
	Log     string  `json:"log,omitempty"`    // the end of a failure's
	Result  any     `json:"result,omitempty"` // what the step is for, where it gives figures
}

func (c *check) failures() (n int) {
	for _, s := range c.report.Steps {
		if s.Status == failed {
			n++
		}
	}
	return n
}

func (c *check) write() error {
	c.report.Passed = c.failures() == 0
	err := durable.WriteFile(filepath.Join(c.out, "gpu-check.json"), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(c.report)
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.out, "gpu-check.txt"), c.text(), 0o644)
}

// text is the report for people: steps, figures, then failures at length.
func (c *check) text() []byte {
	var b bytes.Buffer
	r := c.report
	fmt.Fprintf(&b, "gpu-check of %s: %d steps, %d failed\n\n", r.Date, len(r.Steps), c.failures())
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "%-8s %8.1f s  %s", s.Status, s.Seconds, s.Name)
		if s.Reason != "" {
			fmt.Fprintf(&b, ": %s", s.Reason)
		}
		fmt.Fprintln(&b)
	}
	for _, s := range r.Steps {
		if s.Result == nil {
			continue
		}
		result, err := json.MarshalIndent(s.Result, "", "  ")
		if err == nil {
			fmt.Fprintf(&b, "\n=== %s\n%s\n", s.Name, result)
		}
	}
	for _, s := range r.Steps {
		if s.Status == failed {
			fmt.Fprintf(&b, "\n=== failed: %s\n%s\n%s\n%s\n", s.Name, s.Command, s.Reason, strings.TrimSpace(s.Log))
		}
	}
	return b.Bytes()
}
