package model

import (
	"fmt"
	"io"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/ir"
)

// ShowProgram shows a lowered model.
func ShowProgram(c *cli.Call, p *ir.Program) error {
	return c.Show(planOf(p), func(w io.Writer) {
		fmt.Fprintf(w, "%v\n", p)
		cli.Table(w, 0, func(w io.Writer) {
			fmt.Fprintln(w, "tensor\tshape\tsize\toffset")
			for _, q := range p.Params {
				fmt.Fprintf(w, "%s\t%v\t%d\t%d\n", q.Name, q.Shape, q.Size(), q.Offset)
			}
		})
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
