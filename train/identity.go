package train

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// matches says whether a run directory's stored configuration is this one, up
// to where the data lie and what computes; else it names what differs.
func (c Config) matches(stored Config, path string) error {
	f1, err := c.fingerprint()
	if err != nil {
		return err
	}
	f2, err := stored.fingerprint()
	if err != nil {
		return err
	}
	if f1 == f2 {
		return nil
	}
	now, was, err := settings(c, stored)
	if err != nil {
		return err
	}
	var differ []string
	for k := range now {
		if fmt.Sprint(now[k]) != fmt.Sprint(was[k]) && !c.free(k) {
			differ = append(differ, fmt.Sprintf("%s is %v, was %v", k, now[k], was[k]))
		}
	}
	for k := range was {
		if _, ok := now[k]; !ok && !c.free(k) {
			differ = append(differ, fmt.Sprintf("%s is not given, was %v", k, was[k]))
		}
	}
	return usage.Errorf("the run in %s has different settings (%s): resume it with the same flags, or choose another --out", path, strings.Join(differ, "; "))
}

// free settings may change between a run and its resumption.
func (c Config) free(key string) bool {
	switch key {
	case "data_dir", "device", "threads":
		return true
	case "memory", "max_physical_batch":
		return c.Noise != noiseSeeded
	}
	return false
}

// survivesYAML refuses the odd string that a YAML file would not give back.
func (c Config) survivesYAML(fingerprint string) error {
	b, err := c.YAML()
	if err != nil {
		return err
	}
	var back Config
	if err := yaml.Unmarshal(b, &back); err == nil {
		if f, err := back.fingerprint(); err == nil && f == fingerprint && back.DataDir == c.DataDir {
			return nil
		}
	}
	return usage.Errorf("the settings cannot be written to %s and read back: use plain file names in --data, --data-dir, --schema and --init", rundir.Config)
}

func settings(a, b Config) (x, y map[string]any, err error) {
	read := func(c Config) (m map[string]any, err error) {
		b, err := c.YAML()
		if err != nil {
			return nil, err
		}
		return m, yaml.Unmarshal(b, &m)
	}
	x, e1 := read(a)
	y, e2 := read(b)
	return x, y, errors.Join(e1, e2)
}
