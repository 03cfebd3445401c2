package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"strconv"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/rundir"
)

// ModelFacts are what a model's file says of the model: how to use it without this program, and what it
// guarantees. They follow from the settings alone.
func (p *Plan) ModelFacts() map[string]string {
	c, s := &p.Config, p.Set.Train.Shape
	names, _ := json.Marshal(ClassNames(p.Set)) // fails on no strings
	facts := map[string]string{
		"format": "pt", "model": c.Model, "activation": c.Activation, "loss": p.Network.Program.Loss.String(),
		rundir.Shape: fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]), rundir.Input: Reading(p.Set.Train, p.Front != nil), rundir.Classes: string(names),
		rundir.FeatureNorm: c.NormText(), "features": noFeatures, "whiten": "none", "mirror": strconv.FormatBool(c.Mirror), "deskew": strconv.FormatBool(c.Deskew),
		"privgrad_version": version(),
	}
	maps.Copy(facts, p.Guarantee.Facts())
	if p.Set.Schema != "" {
		facts[rundir.Schema] = p.Set.Schema
	}
	if b := p.Set.Bounds; b != (datasets.Bounds{}) {
		text, _ := json.Marshal(b) // fails on no finite numbers
		facts[rundir.LabelBounds] = string(text)
	}
	if p.Front != nil {
		facts["features"], facts["whiten"], facts[rundir.FeaturesDigest] = c.Features, c.Whiten, p.FrontDigest
		if !p.Front.IsFunc() {
			facts["features_file"] = rundir.Features
		}
	}
	return facts
}

// NormText is the bound on the norm of features in words of a model's file.
func (c *Config) NormText() string {
	if c.FeatureNorm == nil {
		return "none"
	}
	return strconv.FormatFloat(*c.FeatureNorm, 'g', -1, 64)
}

// Reading is what becomes of a value x of a split before the network, or the front end in front of it, reads it. It is
// the split's form, not its records: Values of a set of floating-point images are not nil where there is no record.
func Reading(s datasets.Split, front bool) string {
	switch {
	case s.Values != nil || s.Features == nil && s.Unit:
		return rundir.AsIs
	case s.Unit || front:
		return rundir.Fraction
	}
	return rundir.Symmetric
}

// ClassNames are those of a set's classes; numbers stand for names that nobody gave.
func ClassNames(s *datasets.Set) (names []string) {
	for i := range s.Classes {
		if i < len(s.ClassNames) {
			names = append(names, s.ClassNames[i])
		} else {
			names = append(names, strconv.Itoa(i))
		}
	}
	return names
}

// module is this program's, also where it is a part of another program.
const module = "github.com/privgrad/privgrad"

// version is that of this module in the program that runs.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	of := info.Main
	for _, d := range info.Deps {
		if d.Path == module {
			of = *d
		}
	}
	if of.Path != module || of.Version == "" {
		return "unknown"
	}
	return of.Version
}
