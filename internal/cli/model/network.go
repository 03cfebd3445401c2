package model

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/imported"
	"github.com/privgrad/privgrad/internal/onnx/lower"
)

// networkInfo is the JSON form of what a file has, and of what can be trained of it.
type networkInfo struct {
	Network    string        `json:"network"`
	Input      []int         `json:"input"`   // of a record; null where it is not known
	Outputs    int           `json:"outputs"` // 0 where the network cannot be trained
	Parameters int           `json:"parameters"`
	Trainable  bool          `json:"trainable"`
	Layers     []layerInfo   `json:"layers"`
	Refusals   []refusalInfo `json:"refusals"`
	Tensors    []tensorInfo  `json:"tensors"` // that are trained
}

type layerInfo struct {
	Node       string `json:"node"`
	Op         string `json:"op"`
	Output     []int  `json:"output"` // of a record
	Parameters int    `json:"parameters"`
	Frozen     bool   `json:"frozen"`

	Norm *normInfo `json:"group_norm,omitempty"` // in the place of a batch normalization
}

type normInfo struct {
	Groups   int     `json:"groups"`
	Channels int     `json:"channels"`
	Epsilon  float32 `json:"epsilon"`
}

type refusalInfo struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Reason string `json:"reason"`
	Do     string `json:"what_to_do"`
}

type tensorInfo struct {
	Name   string `json:"name"`
	InFile string `json:"name_in_file"`
	Shape  []int  `json:"shape"`
}

// NetworkFlags are the settings of train that change what becomes of a file.
func NetworkFlags(f *pflag.FlagSet, c *config.Config) {
	f.StringVar(&c.Network, "network", "", "show the network of this ONNX file, and what of it cannot be trained")
	cli.NameArgument(f.Lookup("network"), "FILE")
	f.BoolVar(&c.WeightsArePublic, "weights-are-public", false, "with --network: as in train")
	f.StringVar(&c.BatchNorm, "batchnorm", "", "with --network: as in train, frozen or group")
	cli.NameArgument(f.Lookup("batchnorm"), "HOW")
	f.StringVar(&c.Freeze, "freeze", "", "with --network: as in train")
	cli.NameArgument(f.Lookup("freeze"), "NODE")
	f.BoolVar(&c.NewHead, "new-head", false, "with --network: as in train; shown with as many outputs as the file has")
}

// ShowNetwork shows a file's network.
func ShowNetwork(call *cli.Call, c *config.Config) error {
	if err := c.CheckNetworkFile(); err != nil {
		return err
	}
	report, network, err := imported.Inspect(c)
	if err != nil {
		return err
	}
	i := networkInfo{
		Network: c.Network, Input: report.Input, Outputs: report.Outputs, Parameters: report.Parameters, Trainable: network != nil,
		Layers: []layerInfo{}, Refusals: []refusalInfo{}, Tensors: []tensorInfo{},
	}
	for _, l := range report.Layers {
		i.Layers = append(i.Layers, layerInfo{l.Node, l.Op, l.Shape, l.Parameters, l.Frozen, (*normInfo)(l.Norm)})
	}
	for _, r := range report.Refusals {
		i.Refusals = append(i.Refusals, refusalInfo{r.Node, r.Op, r.Reason, r.Do})
	}
	if network != nil {
		for _, q := range network.Program.Params {
			i.Tensors = append(i.Tensors, tensorInfo{q.Name, q.Node, q.Shape})
		}
	}
	return call.Show(i, func(w io.Writer) { describeNetwork(w, &i, report, c.NewHead) })
}

func describeNetwork(w io.Writer, i *networkInfo, report *lower.Report, newHead bool) {
	fmt.Fprintf(w, "%s: input %v\n", i.Network, i.Input)
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "node\toperation\toutput\tparameters")
		for _, l := range report.Layers {
			parameters := fmt.Sprint(l.Parameters)
			if l.Frozen {
				parameters = "frozen"
			}
			op := l.Op
			if l.Norm != nil {
				op = l.Norm.String()
			}
			fmt.Fprintf(w, "%s\t%s\t%v\t%s\n", l.Node, op, l.Shape, parameters)
		}
	})
	if !i.Trainable {
		fmt.Fprintf(w, "\nIt cannot be trained as it is:\n")
		for _, line := range report.Refusals.Lines() {
			fmt.Fprintf(w, "  %s\n", line)
		}
		return
	}
	fmt.Fprintf(w, "\n%d outputs, %d parameters are trained.\n\n", i.Outputs, i.Parameters)
	if newHead {
		fmt.Fprint(w, "That is with the outputs of the file. In training, a new head has one for each class of the data.\n\n")
	}
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "tensor\tin the file\tshape")
		for _, t := range i.Tensors {
			fmt.Fprintf(w, "%s\t%s\t%v\n", t.Name, t.InFile, t.Shape)
		}
	})
}
