package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"strconv"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// ModelFacts are what a model's file says of the model: how to use it without this program, and what it
// guarantees. They follow from the settings alone.
func (p *Plan) ModelFacts() map[string]string {
	c, s := &p.Config, p.Set.Train.Shape
	names, _ := json.Marshal(p.Set.Names()) // fails on no strings
	facts := map[string]string{
		"format": "pt", "model": c.Model, "activation": c.Activation, "loss": p.Network.Program.Loss.String(),
		rundir.Shape: fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]), rundir.Input: Reading(p.Set.Train, p.Front != nil || p.Imported != nil), rundir.Classes: string(names),
		rundir.FeatureNorm: c.NormText(), "features": config.NoFeatures, "whiten": "none", "mirror": strconv.FormatBool(c.Mirror), "deskew": strconv.FormatBool(c.Deskew),
		"privgrad_version": version(),
	}
	if c.ModelVersion > 1 {
		facts["model_version"] = strconv.Itoa(c.ModelVersion)
	}
	maps.Copy(facts, p.Guarantee.Facts())
	if p.Set.Schema != "" {
		facts[rundir.Schema] = p.Set.Schema
	}
	if b := p.Set.Bounds; b != (datasets.Bounds{}) {
		text, _ := json.Marshal(b) // fails on no finite numbers
		facts[rundir.LabelBounds] = string(text)
	}
	if p.Imported != nil {
		facts["network_file"], facts[rundir.Normalize], facts[rundir.NetworkDigest] = rundir.Network, c.NormalizeText(), p.networkDigest
		facts["network_names"] = namesInFile(p.Network.Program)
	}
	if p.Front != nil {
		facts["features"], facts["whiten"], facts[rundir.FeaturesDigest] = p.Front.Spec().Kind, string(p.Front.Spec().Whiten), p.FrontDigest
		if !p.Front.IsFunc() {
			facts["features_file"] = p.FrontFile()
		}
	}
	return facts
}

// namesInFile pairs each tensor's name with the one in the network's file, in the order of the network, as JSON.
func namesInFile(p *ir.Program) string {
	names := [][2]string{}
	for _, q := range p.Params {
		names = append(names, [2]string{q.Name, q.Node})
	}
	text, _ := json.Marshal(names) // fails on no strings
	return string(text)
}

// FrontFile is the file of a run that has its front end.
func (p *Plan) FrontFile() string {
	if p.Imported != nil {
		return rundir.Frozen
	}
	return rundir.Features
}

// Reading is what becomes of a value x of a split before the network, or the front end in front of it, reads it. It is
// the split's form, not its records: Values of a set of floating-point images are not nil where there is no record.
func Reading(s datasets.Split, fractions bool) string {
	switch {
	case s.Values != nil || s.Features == nil && s.Unit:
		return rundir.AsIs
	case s.Unit || fractions:
		return rundir.Fraction
	}
	return rundir.Symmetric
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

// Model describes a named model; Input is the shape of Fashion-MNIST where
// the model takes any.
func Model(name string) (nn.Info, error) {
	for _, m := range nn.Names() {
		if m.Name == name {
			if m.Input == [3]int{} {
				m.Input = [3]int{1, 28, 28}
			}
			return m, nil
		}
	}
	_, err := nn.Build(name, nn.Options{})
	return nn.Info{}, usage.Wrap(err)
}

// Means gives the average loss and accuracy of a score, nil where undefined.
func Means(s device.Score) (loss, accuracy *float64) {
	if s.Count == 0 {
		return nil, nil
	}
	loss = price.Finite(s.Loss / float64(s.Count))
	if s.Confusion != nil {
		accuracy = price.Finite(float64(s.Correct) / float64(s.Count))
	}
	return loss, accuracy
}
