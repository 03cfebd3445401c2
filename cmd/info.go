package cmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/cli/machine"
	"github.com/privgrad/privgrad/internal/cli/model"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

type deviceInfo struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Detail    string `json:"detail"`
}

// regressionData is what a regression needs: a table whose label is a number.
const regressionData = "csv:PATH"

type modelInfo struct {
	Name       string `json:"name"`
	Input      []int  `json:"input"` // null for any
	Classes    int    `json:"classes"`
	Loss       string `json:"loss"`
	Parameters int    `json:"parameters"`
	Data       string `json:"default_data"`
}

type info struct {
	machine.Machine
	Devices  []deviceInfo `json:"devices"`
	GPUs     gpuInfo      `json:"gpus"`
	Models   []modelInfo  `json:"models"`
	DataSets []data.Info  `json:"data_sets"`
}

func about() info {
	i := info{Machine: machine.This(), GPUs: gpus(cudrv.Open), DataSets: data.Infos()}
	for _, name := range []string{"cpu", "reference", "cuda"} {
		d := deviceInfo{Name: name}
		if opened, err := devices.Open(name, 0); err != nil {
			d.Detail = err.Error()
			if inner := errors.Unwrap(err); inner != nil { // without what to do instead
				d.Detail = inner.Error()
			}
		} else {
			d.Available, d.Detail = true, opened.Info().Detail
			opened.Close()
		}
		i.Devices = append(i.Devices, d)
	}
	for _, m := range nn.Names() {
		x := modelInfo{m.Name, m.Input[:], m.Classes, m.Loss.String(), m.Parameters, m.Data}
		if m.Input == [3]int{} {
			x.Input = nil
		}
		if m.Loss == ir.Huber {
			x.Classes, x.Data = 0, regressionData
		}
		i.Models = append(i.Models, x)
	}
	return i
}

func newInfo() *cobra.Command {
	var name, activation string
	var network config.Config
	return cli.Command{
		Use:   "info",
		Short: "Show version, devices, models and data sets",
		Long: `info shows what privgrad can do on this machine: its version, devices, models and data
sets. With --model it shows one model: its operations with their shapes, parameters and
arithmetic, and the names of its parameters in model.safetensors. With --network it shows
the network of an ONNX file: its layers, and what cannot be trained, why, and what to do.`,
		Example: "  privgrad info\n  privgrad info --model cnn-mnist\n  privgrad info --network cnn.onnx --batchnorm group",
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&name, "model", "", "show one model")
			f.StringVar(&activation, "activation", "", "with --model: "+strings.Join(nn.Activations(), ", ")+" (default the model's own)")
			model.NetworkFlags(f, &network)
		},
		Run: func(c *cli.Call) error {
			if c.Given("network") && !c.Given("model") {
				return model.ShowNetwork(c, &network)
			}
			if err := network.CheckNetworkFile(); err != nil {
				return err
			}
			if !c.Given("model") {
				if c.Given("activation") {
					return usage.Errorf("--activation %s belongs to a model; name it by --model", activation)
				}
				return cli.Show(c, about(), describeMachine)
			}
			m, err := plan.Model(name)
			if err != nil {
				return err
			}
			built, err := plan.BuildNetwork(m.Name, nn.Options{Input: m.Input, Classes: m.Classes, Activation: activation, Seed: 1})
			if err != nil {
				return err
			}
			return model.ShowProgram(c, built.Program)
		},
	}.New()
}

func describeMachine(w io.Writer, i info) {
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "privgrad\t%s\n", i.Build)
		fmt.Fprintf(w, "processor\t%s, %s\n", i.CPU, cli.Plural(i.Threads, "thread"))
		fmt.Fprintf(w, "kernels\t%s\n", i.Kernels)
		if i.Memory != nil {
			fmt.Fprintf(w, "memory\t%s\n", cli.ByteSize(*i.Memory))
		}
	})
	fmt.Fprintln(w, "\nDevices (--device)")
	cli.Table(w, 0, func(w io.Writer) {
		for _, d := range i.Devices {
			can := "yes"
			if !d.Available {
				can = "no"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", d.Name, can, d.Detail)
		}
	})
	describeGPUs(w, i.GPUs)
	fmt.Fprintln(w, "\nModels (--model)")
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "  name\tinput\tclasses\tparameters\tloss\tdefault data")
		for _, m := range nn.Names() {
			input := "any"
			if m.Input != [3]int{} {
				input = fmt.Sprintf("%d×%d×%d", m.Input[0], m.Input[1], m.Input[2])
			}
			classes, data := fmt.Sprint(m.Classes), m.Data
			if m.Loss == ir.Huber {
				classes, data = "none", regressionData
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%d\t%s\t%s\n", m.Name, input, classes, m.Parameters, m.Loss, data)
		}
	})
	fmt.Fprintln(w, "\nData sets (--data)")
	cli.Table(w, 0, func(w io.Writer) {
		for _, s := range i.DataSets {
			where := "privgrad data fetch " + s.Name
			if s.BuiltIn {
				where = "built in"
			}
			fmt.Fprintf(w, "  %s\t%d records\t%d×%d×%d\t%d classes\t%s\n", s.Name, s.Records, s.Shape[0], s.Shape[1], s.Shape[2], len(s.Classes), where)
		}
	})
}
