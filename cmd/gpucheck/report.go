package main

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"time"

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
	Date         string            `json:"date"`           // UTC, of the start
	Passed       bool              `json:"passed"`         // nothing failed
	Done         bool              `json:"done"`           // not cut short
	GPU          string            `json:"gpu"`            // the first, "" where there is none
	Budget       float64           `json:"budget_seconds"` // 0 for no bound
	Seconds      float64           `json:"seconds"`        // until now
	Measurements []measurement     `json:"measurements"`
	Peers        []peerMeasurement `json:"peers"`
	Steps        []*step           `json:"steps"`

	began time.Time
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
	c.report.Passed, c.report.Seconds = c.failures() == 0, c.system.Now().Sub(c.report.began).Seconds()
	// Where programs lay on this machine tells readers nothing.
	dirs := []string{c.bundle + string(filepath.Separator), "", c.scratch, "SCRATCH"}
	if dir := filepath.Dir(c.interpreter); dir != "." {
		dirs = append(dirs, dir+string(filepath.Separator), "")
	}
	paths := strings.NewReplacer(dirs...)
	file := func(name string, text []byte) error {
		return durable.WriteFile(filepath.Join(c.out, name), func(w io.Writer) error {
			_, err := paths.WriteString(w, string(text))
			return err
		})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(c.report); err != nil {
		return err
	}
	if err := file("gpu-check.json", b.Bytes()); err != nil {
		return err
	}
	return file("gpu-check.md", c.report.markdown())
}
