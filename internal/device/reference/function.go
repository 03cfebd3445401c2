package reference

import "github.com/privgrad/privgrad/internal/ir"

// function is a weight's way from parameters and its gradient's way back. w are those of Op.Weight, given those of Op.Given.
type function struct {
	of   func(op *ir.Op, w []float64, given [][]float64) []float64
	back func(op *ir.Op, w []float64, given [][]float64, g []float64) (dw []float64, dgiven [][]float64)
}

// functions has every function of this device but Identity.
var functions = map[ir.Function]function{
	ir.Standardize: standardize,
}

// at is a parameter's part of a flat vector, nil for None.
func at(p *ir.Program, q int, params []float64) []float64 {
	if q == ir.None {
		return nil
	}
	return params[p.Params[q].Offset:][:p.Params[q].Size()]
}

// given are the parameters of an op's function.
func given(p *ir.Program, op *ir.Op, params []float64) (list [][]float64) {
	for _, q := range op.Given {
		list = append(list, at(p, q, params))
	}
	return list
}

// Weights are an op's weight, computed where it is a function of parameters, and its bias; nil for none.
func Weights(p *ir.Program, op *ir.Op, params []float64) (weight, bias []float64) {
	weight = at(p, op.Weight, params)
	if op.Function != ir.Identity {
		weight = functions[op.Function].of(op, weight, given(p, op, params))
	}
	return weight, at(p, op.Bias, params)
}

// toParameters takes an example's gradient of an op's weight, which bias follows, to its parameters, in their order.
func toParameters(p *ir.Program, op *ir.Op, params, g []float64) []float64 {
	if op.Function == ir.Identity {
		return g
	}
	w := at(p, op.Weight, params)
	dw, dgiven := functions[op.Function].back(op, w, given(p, op, params), g[:len(w)])
	all := append(dw, g[len(w):]...)
	for _, d := range dgiven {
		all = append(all, d...)
	}
	return all
}
