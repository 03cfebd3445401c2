package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// NetworkFile says which file a network comes from, and what is declared of that file.
type NetworkFile struct {
	Network          string `yaml:"network,omitempty"`        // an ONNX file; empty: a named model
	NetworkDigest    string `yaml:"network_sha256,omitempty"` // of the file; checked where it is given, else filled in
	WeightsArePublic bool   `yaml:"weights_are_public,omitempty"`
	BatchNorm        string `yaml:"batchnorm,omitempty"` // one of BatchNorms
	Normalize        string `yaml:"normalize,omitempty"` // as Normalization reads it
	NewHead          bool   `yaml:"new_head,omitempty"`
	Freeze           string `yaml:"freeze,omitempty"` // a node of the file; empty: nothing is frozen
}

// What becomes of batch normalization, which no network may have that is trained privately.
const (
	FrozenBatchNorm  = "frozen" // the statistics of the file, folded into the weights
	GroupedBatchNorm = "group"  // group normalization in its place
)

const mostNormalized = 64 // numbers of --normalize

var onNetwork = setting.Group{Title: "Model", Topic: "network"}

// networkRows are the settings of NetworkFile.
var networkRows = []setting.Row{
	{Key: "network", Group: onNetwork, Arg: "FILE", Help: "train the network of this ONNX file, such as torch.onnx.export writes"},
	{Key: "network_sha256", InFile: true, Group: onNetwork, Arg: "HASH", With: "network", Help: "refuse another file than the one with this digest; filled in for config.yaml"},
	{Key: "weights_are_public", Group: onNetwork, With: "network", Help: "start with the weights of the file; they must not depend on the private data"},
	{Key: "batchnorm", Group: onNetwork, Arg: "HOW", With: "network", Limit: setting.UnlessEmpty(setting.OneOf(FrozenBatchNorm, GroupedBatchNorm)),
		Help: "in the place of batch normalization: frozen, the statistics of the file (needs --weights-are-public), or group, group normalization"},
	{Key: "normalize", Group: onNetwork, Arg: "MEAN,STD", With: "network", Limit: setting.UnlessEmpty(setting.Reads(func(text string) error { _, err := normalization(text); return err })),
		Help: "public numbers: the network reads (x − MEAN)/STD of a pixel x, 0 to 1 (default 0,1). With --freeze also numbers for each channel: all means, then all deviations"},
	{Key: "new_head", Group: onNetwork, With: "network", Help: "put a new last layer, with an output for each class of the data, in the place of the file's"},
	{Key: "freeze", Group: onNetwork, Arg: "NODE", With: "network", Help: "do not train this node of the file and all before it (needs --weights-are-public); what they give is computed once a record"},
}

// A Normalization is (x − Mean)/Std of a value x: of each channel, or the same one of all.
type Normalization struct{ Mean, Std []float64 }

// Identity says that it changes nothing.
func (n Normalization) Identity() bool {
	return len(n.Mean) == 1 && n.Mean[0] == 0 && n.Std[0] == 1
}

// Normalization is what the network reads of a value.
func (c *NetworkFile) Normalization() Normalization {
	n, err := normalization(c.Normalize)
	if c.Normalize == "" || err != nil { // which Check has found
		return Normalization{[]float64{0}, []float64{1}}
	}
	return n
}

// NormalizeText is the normalization in words of a model's file.
func (c *NetworkFile) NormalizeText() string { return cmp.Or(c.Normalize, "0,1") }

// normalization reads as many means as deviations.
func normalization(text string) (n Normalization, err error) {
	words := strings.Split(text, ",")
	if len(words)%2 != 0 || len(words) > mostNormalized {
		return n, fmt.Errorf("normalize %.64s: must be a mean and a standard deviation, such as 0.5,0.25, or these of all channels: first the means, then the deviations", text)
	}
	for i, word := range words {
		x, err := written.Number(strings.TrimSpace(word))
		if err != nil {
			return n, fmt.Errorf("normalize %.64s: %.32q is no number", text, word)
		}
		switch deviation := i >= len(words)/2; {
		case !(x >= -1e6 && x <= 1e6) || deviation && !(x >= 1e-6):
			return n, fmt.Errorf("normalize %.64s: means must be in [-1e6, 1e6], and standard deviations in [1e-6, 1e6]", text)
		case deviation:
			n.Std = append(n.Std, x)
		default:
			n.Mean = append(n.Mean, x)
		}
	}
	return n, nil
}

// NetworkName is what a network of a file is called: the file's name with its ending, which no named model has.
func (c *NetworkFile) NetworkName() string { return filepath.Base(c.Network) }

// CheckNetworkFile is CheckValues and Check of a network's file alone.
func (c *Config) CheckNetworkFile() error {
	for _, r := range networkRows {
		if err := r.Fault(c); err != nil {
			return usage.Wrap(err)
		}
	}
	return c.checkNetwork()
}

// checkNetwork finds settings of a network's file that do not go together.
func (c *Config) checkNetwork() error {
	if c.Network == "" {
		for _, r := range networkRows[1:] {
			if v, given := r.Given(c); given {
				return usage.Errorf("%s %v is of a network from a file: name the file by --network, or leave it out", r.Flag(), v)
			}
		}
		return nil
	}
	file := "network " + c.Network
	switch {
	case c.OwnNetwork:
		return usage.Errorf("%s: the program brings another network: leave one of both out", file)
	case c.Model != "" && c.Model != c.NetworkName():
		return usage.Errorf("%s and model %s were both given: give one", file, c.Model)
	case filepath.Ext(c.Network) == "":
		return usage.Errorf("%s: give the file a name that ends in .onnx", file)
	case c.Features != "":
		return usage.Errorf("%s with features %s: a network from a file reads the records; add --features none", file, c.Features)
	case c.BatchNorm == FrozenBatchNorm && !c.WeightsArePublic:
		return usage.Errorf("batchnorm %s uses statistics of the file, which are not known to be public: add --weights-are-public if no private record had a part in them, or use --batchnorm %s", c.BatchNorm, GroupedBatchNorm)
	case c.Freeze != "" && !c.WeightsArePublic:
		return usage.Errorf("freeze %s keeps weights of the file, which are not known to be public: add --weights-are-public if no private record had a part in them", c.Freeze)
	case c.Freeze != "" && len(c.Augment) > 0:
		return usage.Errorf("augment %s: what --freeze computes is computed once a record, before training, and views are drawn anew in every step; leave one of both out", strings.Join(c.Augment, ","))
	case c.Freeze == "" && len(c.Normalization().Mean) > 1:
		return usage.Errorf("normalize %s: a network that is trained takes one mean and one deviation for all channels; give these two, write the division by channel into the frozen part, or use --freeze", c.Normalize)
	}
	return nil
}

// Affine is the normalization as x·scale + shift.
func (n Normalization) Affine() (scale, shift []float32) {
	for i, mean := range n.Mean {
		scale = append(scale, float32(1/n.Std[i]))
		shift = append(shift, float32(-mean/n.Std[i]))
	}
	return scale, shift
}
