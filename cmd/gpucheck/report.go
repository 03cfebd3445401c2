package main

import (
	"encoding/json"
	"io"
	"path/filepath"
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
	err := durable.WriteFile(filepath.Join(c.out, "gpu-check.json"), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(c.report)
	})
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(c.out, "gpu-check.md"), func(w io.Writer) error {
		_, err := w.Write(c.report.markdown())
		return err
	})
}
