// Package machine says which program runs, and on what.
package machine

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
)

// Build says which program this is; empty where the build did not record it.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Time     string `json:"revision_time"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Version is this program's.
func Version() Build {
	b := Build{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b Build) String() string {
	s := b.Version
	if b.Revision != "" {
		s += fmt.Sprintf(" (%.12s of %s", b.Revision, b.Time)
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s + ", " + b.Go + " " + b.OS + "/" + b.Arch
}

// Machine is this program and the machine that it runs on.
type Machine struct {
	Build
	CPU     string `json:"cpu"`
	Kernels string `json:"kernels"`
	Threads int    `json:"threads"`
	Memory  *int64 `json:"memory_bytes"` // null where the system does not say
}

// This is this machine.
func This() Machine {
	m := Machine{Build: Version(), Kernels: gemm.ISA(), Threads: runtime.GOMAXPROCS(0)}
	m.CPU = cmp.Or(field("/proc/cpuinfo", "model name"), runtime.GOARCH)
	if kb, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = new(kb << 10)
	}
	return m
}

// field reads a "name: value" line of one of the kernel's text files.
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Load is the system's load average of the last minute, nil where it keeps none.
func Load() *float64 {
	b, _ := os.ReadFile("/proc/loadavg") // which is empty where there is none
	first, _, _ := strings.Cut(string(b), " ")
	if x, err := strconv.ParseFloat(first, 64); err == nil {
		return &x
	}
	return nil
}
