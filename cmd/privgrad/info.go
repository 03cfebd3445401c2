package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"
)

// build says which program this is; empty where the build did not record it.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Time     string `json:"revision_time"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func version() build {
	b := build{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
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

func (b build) String() string {
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

type deviceInfo struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Detail    string `json:"detail"`
}

type modelInfo struct {
	Name       string `json:"name"`
	Input      []int  `json:"input"` // null for any
	Classes    int    `json:"classes"`
	Loss       string `json:"loss"`
	Parameters int    `json:"parameters"`
	Data       string `json:"default_data"`
}

type info struct {
	build
	CPU      string       `json:"cpu"`
	Kernels  string       `json:"kernels"`
	Threads  int          `json:"threads"`
	Memory   *int64       `json:"memory_bytes"` // null where the system does not say
	Devices  []deviceInfo `json:"devices"`
	GPUs     gpuInfo      `json:"gpus"`
	Models   []modelInfo  `json:"models"`
	DataSets []setInfo    `json:"data_sets"`
}

func machine() info {
	i := info{build: version(), Kernels: gemm.ISA(), Threads: runtime.GOMAXPROCS(0), GPUs: gpus(cudrv.Open), DataSets: setInfos()}
	i.CPU = cmp.Or(field("/proc/cpuinfo", "model name"), runtime.GOARCH)
	if kb, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		n := kb << 10
		i.Memory = &n
	}
	for _, name := range []string{"cpu", "reference", "cuda"} {
		d := deviceInfo{Name: name}
		if opened, err := train.OpenDevice(name, 0); err != nil {
			d.Detail = err.Error()
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
		i.Models = append(i.Models, x)
	}
	return i
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

func newInfo() *cobra.Command {
	var model, activation string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show the build, the machine, the devices, models and data sets",
		Long: `info shows what this build can do on this machine. With --model it shows how a
model runs: its ops with their shapes, parameters and arithmetic, and its
parameters as model.safetensors names them.`,
		Example: "  privgrad info\n  privgrad info --model cnn-mnist",
		Args:    noArgs,
	}
	cmd.Flags().StringVar(&model, "model", "", "show one model")
	cmd.Flags().StringVar(&activation, "activation", "tanh", "with --model: tanh, relu or sigmoid")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("model") {
			i := machine()
			return show(cmd, asJSON, i, func(w io.Writer) { describeMachine(w, i) })
		}
		m, err := train.Model(model)
		if err != nil {
			return err
		}
		network, err := train.BuildNetwork(m.Name, m.Input, m.Classes, activation, 1)
		if err != nil {
			return err
		}
		p := network.Program
		return show(cmd, asJSON, planOf(p), func(w io.Writer) {
			fmt.Fprintf(w, "%v\n", p)
			describeParams(w, p)
		})
	}
	return cmd
}

func describeMachine(w io.Writer, i info) {
	table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "privgrad\t%s\n", i.build)
		fmt.Fprintf(w, "processor\t%s, %s\n", i.CPU, plural(i.Threads, "thread"))
		fmt.Fprintf(w, "kernels\t%s\n", i.Kernels)
		if i.Memory != nil {
			fmt.Fprintf(w, "memory\t%s\n", byteSize(*i.Memory))
		}
	})
	fmt.Fprintln(w, "\nDevices (--device)")
	table(w, 0, func(w io.Writer) {
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
	table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "  name\tinput\tclasses\tparameters\tloss\tdefault data")
		for _, m := range nn.Names() {
			fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%s\t%s\n", m.Name, dims(m), m.Classes, m.Parameters, m.Loss, m.Data)
		}
	})
	fmt.Fprintln(w, "\nData sets (--data)")
	table(w, 0, func(w io.Writer) {
		for _, s := range i.DataSets {
			where := "privgrad data fetch " + s.Name
			if s.BuiltIn {
				where = "built in"
			}
			fmt.Fprintf(w, "  %s\t%d records\t%d×%d×%d\t%d classes\t%s\n", s.Name, s.Records, s.Shape[0], s.Shape[1], s.Shape[2], len(s.Classes), where)
		}
	})
}

// planInfo is the JSON form of a lowered model.
type planInfo struct {
	Model      string      `json:"model"`
	Input      []int       `json:"input"`
	Loss       string      `json:"loss"`
	Parameters int         `json:"parameters"`
	FLOPs      int64       `json:"flops_per_example"` // of a training step
	Ops        []opInfo    `json:"ops"`
	Tensors    []paramInfo `json:"tensors"`
}

type opInfo struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	In    []int  `json:"input"`
	Out   []int  `json:"output"`
	FLOPs int64  `json:"forward_flops_per_example"`
}

type paramInfo struct {
	Name   string `json:"name"`
	Shape  []int  `json:"shape"`
	Size   int    `json:"size"`
	Offset int    `json:"offset"` // in the flat vector of all parameters
}

func planOf(p *ir.Program) planInfo {
	i := planInfo{Model: p.Name, Input: p.Shape, Loss: p.Loss.String(), Parameters: p.NumParams(), FLOPs: p.StepFLOPs()}
	for k := range p.Ops {
		op := &p.Ops[k]
		i.Ops = append(i.Ops, opInfo{op.Name, op.Kind.String(), op.Shape, op.Out, op.FLOPs()})
	}
	for _, q := range p.Params {
		i.Tensors = append(i.Tensors, paramInfo{q.Name, q.Shape, q.Size(), q.Offset})
	}
	return i
}

func describeParams(w io.Writer, p *ir.Program) {
	table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "tensor\tshape\tsize\toffset")
		for _, q := range p.Params {
			fmt.Fprintf(w, "%s\t%v\t%d\t%d\n", q.Name, q.Shape, q.Size(), q.Offset)
		}
	})
}
