package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// identity is the configuration without what a resumed run with such noise may change.
func (c Config) identity(noise string) Config {
	for _, r := range rows {
		if r.Resume.Allowed(noise == dpoptim.Seeded) {
			r.Value(&c).SetZero()
		}
	}
	if c.CountRecords != nil && !*c.CountRecords {
		c.CountRecords = nil // as in runs from before there were counts
	}
	if c.ModelVersion == 1 {
		c.ModelVersion = 0 // as in runs from before there were others
	}
	return c
}

// Fingerprint identifies everything that must not change between a run and its
// resumption. Ledgers hold it.
func (c Config) Fingerprint() (string, error) {
	id := c.identity(c.Noise)
	if id.Precision == device.Float32.String() {
		id.Precision = "" // as in runs from before there were others
	}
	b, err := id.YAML()
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), nil
}

// Matches says whether a run directory's stored configuration is this one, up
// to what a resumed run may change; else it names what differs.
func (c Config) Matches(stored Config, path string) error {
	differ, err := c.Differs(stored)
	if err != nil || differ == nil {
		return err
	}
	return usage.Errorf("the run in %s has different settings (%s): resume it with the same flags, by `privgrad resume`, which takes the settings of the run, or choose another --out", path, strings.Join(differ, "; "))
}

// Differs names what differs from a stored configuration, of what a resumed run may not change, with both values.
func (c Config) Differs(stored Config) (differ []string, err error) {
	f1, err := c.Fingerprint()
	if err != nil {
		return nil, err
	}
	f2, err := stored.Fingerprint()
	if err != nil || f1 == f2 {
		return nil, err
	}
	now, err := c.identity(c.Noise).byKey()
	if err != nil {
		return nil, err
	}
	was, err := stored.identity(c.Noise).byKey()
	if err != nil {
		return nil, err
	}
	for k, v := range now {
		if fmt.Sprint(v) != fmt.Sprint(was[k]) {
			differ = append(differ, fmt.Sprintf("%s is %s, was %s", k, shown(v), shown(was[k])))
		}
	}
	for k, v := range was {
		if _, ok := now[k]; !ok {
			differ = append(differ, fmt.Sprintf("%s is not given, was %s", k, shown(v)))
		}
	}
	slices.Sort(differ)
	return differ, nil
}

// Identity is what a resumed run may not change, as a file.
func (c Config) Identity() ([]byte, error) { return c.identity(c.Noise).YAML() }

// shown is a value as a person would write it.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "not given"
	case []any:
		words := make([]string, len(v))
		for i, w := range v {
			words[i] = shown(w)
		}
		return strings.Join(words, ",")
	case map[string]any:
		var words []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			words = append(words, k+" "+shown(v[k]))
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprint(v)
}

// byKey is the configuration as a file holds it.
func (c Config) byKey() (m map[string]any, err error) {
	b, err := c.YAML()
	if err != nil {
		return nil, err
	}
	return m, yaml.Unmarshal(b, &m)
}

// SurvivesYAML refuses the odd string that a YAML file would not give back.
func (c Config) SurvivesYAML(fingerprint string) error {
	b, err := c.YAML()
	if err != nil {
		return err
	}
	var back Config
	if err := yaml.Unmarshal(b, &back); err == nil {
		if f, err := back.Fingerprint(); err == nil && f == fingerprint && back.DataDir == c.DataDir {
			return nil
		}
	}
	return usage.Errorf("the settings cannot be written to %s and read back: use plain file names in --data, --data-dir, --schema and --init", rundir.Config)
}

// Changed names the settings in which a configuration is another than the one with which the run of a directory began. Mismatch says
// so by digests, and kind is what it is in a few words.
func (c Config) Changed(dir rundir.Dir, mismatch, kind error) error {
	var begun Config
	if !dir.Has(rundir.Begun) || Read(dir.Path(rundir.Begun), &begun) != nil {
		return fmt.Errorf("%w. If they are the same, an earlier version of privgrad began the run, and this one works out other noise for its ε: go on with that version", mismatch)
	}
	differ, err := c.Differs(begun)
	switch {
	case err != nil:
		return errors.Join(mismatch, err)
	case differ == nil:
		return fmt.Errorf("%w; its settings are those of the start, so that the network, a method of your own or the version of privgrad is another", mismatch)
	}
	return fmt.Errorf("%w: the run in %s began with other settings (%s): put them back into %s, or start a new run in another directory", kind, dir, strings.Join(differ, "; "), rundir.Config)
}
