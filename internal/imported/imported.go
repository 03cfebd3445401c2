// Package imported has networks that come from ONNX files: what a run trains of one, what it freezes, and the files by which the run
// keeps both. It needs the user's file once, when a run begins.
package imported

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/lower"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// A Network is what became of a file.
type Network struct {
	Program *ir.Program
	Params  []float32       // the first weights; zeros of a network that a run keeps, which has others
	Front   *features.Front // what is frozen; nil: nothing
	Reading ir.Reading      // what it reads of a value, where nothing is frozen
	// ByRuntime says that ONNX Runtime computes what is frozen.
	ByRuntime bool
	Source    string // digest of the user's file
}

// Digest identifies all that a run keeps of a network.
func (n *Network) Digest() (string, error) {
	text, err := rundir.NetworkText(n.kept())
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(text)
	if n.Front != nil {
		if err := n.Front.Write(h); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (n *Network) kept() rundir.KeptNetwork {
	return rundir.KeptNetwork{Program: n.Program, Reading: n.Reading, Source: n.Source}
}

// Data is what a network has to fit.
type Data struct {
	Shape   [3]int // of a record
	Classes int    // 0: a regression
}

// Open reads the file that a configuration names.
func Open(c *config.Config, data Data) (*Network, error) {
	m, err := read(c)
	if err != nil {
		return nil, err
	}
	source, err := digest(c)
	if err != nil {
		return nil, err
	}
	lowered, err := lower.Lower(m, choices(c, max(data.Classes, 1)))
	if err != nil {
		return nil, usage.Errorf("network %s: %w", c.Network, err)
	}
	if lowered.Program.Name = c.NetworkName(); data.Classes == 0 {
		if lowered.Sigmoid {
			return nil, usage.Errorf("network %s ends in a sigmoid, and the data have numbers as labels: export it without the sigmoid", c.Network)
		}
		lowered.Program.Loss = ir.Huber
	}
	n := &Network{Program: lowered.Program, Params: lowered.Params, Source: source}
	if lowered.Prefix == nil {
		n.Reading, err = reading(lowered.Reads, c.Normalization())
		return n, err
	}
	if n.Front, n.ByRuntime, err = front(lowered.Prefix, c.Normalization(), data.Shape); err != nil {
		return nil, usage.Errorf("network %s, frozen up to %s: %w", c.Network, c.Freeze, err)
	}
	return n, nil
}

// reading is by the file or, where that reads values as they are, by the configuration.
func reading(own lower.Reading, n config.Normalization) (ir.Reading, error) {
	switch {
	case own == lower.Plain:
		scale, shift := n.Affine()
		return ir.Reading{Scale: scale[0], Shift: shift[0]}, nil
	case !n.Identity():
		return ir.Reading{}, usage.Errorf("the network normalizes what it reads by itself: leave --normalize out")
	}
	return ir.Reading{Scale: float32(own.Scale), Shift: float32(own.Shift)}, nil
}

// digest is that of the user's file, which must be the one that the configuration knows.
func digest(c *config.Config) (string, error) {
	f, err := os.Open(c.Network)
	if err != nil {
		return "", usage.Errorf("network %s: %w", c.Network, usage.Cause(err))
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	got := hex.EncodeToString(h.Sum(nil))
	if want := c.NetworkDigest; want != "" && want != got {
		return "", usage.Errorf("network %s is another file than network_sha256 says: restore the file, or leave network_sha256 out", c.Network)
	}
	return got, nil
}

func read(c *config.Config) (*file.Model, error) {
	m, err := file.Read(c.Network)
	if err != nil {
		return nil, usage.Errorf("network %s: %w", c.Network, err)
	}
	return m, nil
}

// Inspect says what a file has, and what of it cannot be trained; then there is no network.
func Inspect(c *config.Config) (*lower.Report, *lower.Network, error) {
	m, err := read(c)
	if err != nil {
		return nil, nil, err
	}
	said := choices(c, 0)
	said.NewHead = false // how many outputs a new one has follows from the data
	report := lower.Inspect(m, said)
	if report.Err != nil {
		return nil, nil, usage.Errorf("network %s: %w", c.Network, report.Err)
	}
	return report, report.Network, nil
}

// choices are what a configuration says about a file.
func choices(c *config.Config, classes int) lower.Choices {
	l := lower.Choices{Freeze: c.Freeze, Classes: classes, NewHead: c.NewHead, Seed: c.Seed}
	if c.WeightsArePublic {
		l.Weights = lower.OfFile
	}
	switch c.BatchNorm {
	case config.FrozenBatchNorm:
		l.BatchNorm = lower.Frozen
	case config.GroupedBatchNorm:
		l.BatchNorm = lower.Grouped
	}
	return l
}

// Activation is the first one of the network by its name among those of named models: learning rates follow from it. It is empty where
// it is none of these.
func (n *Network) Activation() string {
	p := n.Program
	for i := range p.Ops {
		if kind := p.Ops[i].Kind; kind.Activation() || kind == ir.GELU {
			for _, name := range nn.Activations() {
				if name == kind.String() {
					return name
				}
			}
		}
	}
	return ""
}
