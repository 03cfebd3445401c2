package nn

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// tb is what testing and rapid share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// evaluate is what a program means: one example's logits, in float64 and in
// the most direct way.
func evaluate(p *ir.Program, params []float32, input []float64) []float64 {
	values := [][]float64{input}
	at := func(i int) []float32 { return params[p.Params[i].Offset:][:p.Params[i].Size()] }
	for _, op := range p.Ops {
		weight := func() []float64 {
			w := wide64(at(op.Weight))
			if op.Function == ir.Standardize {
				standardized(w, at(op.Given[0]))
			}
			return w
		}
		x := values[op.In[0]]
		out := make([]float64, ir.Size(op.Out))
		switch op.Kind {
		case ir.Dense:
			w := at(op.Weight)
			for o := range out {
				for i, v := range x {
					out[o] += v * float64(w[o*len(x)+i])
				}
			}
		case ir.Conv, ir.MaxPool, ir.AvgPool:
			var filter []float64
			if op.Kind == ir.Conv {
				filter = weight()
			}
			window(op, func(o, c, position int, inside []int) {
				x := x[c*op.Shape[1]*op.Shape[2]:]
				switch op.Kind {
				case ir.MaxPool:
					m := math.Inf(-1)
					for _, i := range inside {
						if i >= 0 {
							m = max(m, x[i])
						}
					}
					out[position] = m
				case ir.AvgPool:
					for _, i := range inside {
						if i >= 0 {
							out[position] += x[i] / float64(len(inside))
						}
					}
				default:
					kernel := filter[(o*op.Shape[0]+c)*len(inside):]
					for k, i := range inside {
						if i >= 0 {
							out[position] += x[i] * kernel[k]
						}
					}
				}
			})
		case ir.GroupNorm:
			size := len(x) / op.Groups
			var mean, scale float64 // of a group
			for i := range out {
				if i%size == 0 {
					sum, squares := 0.0, 0.0
					for _, v := range x[i:][:size] {
						sum, squares = sum+v, squares+v*v
					}
					mean = sum / float64(size)
					scale = math.Sqrt(squares/float64(size) - mean*mean + op.Epsilon)
				}
				out[i] = (x[i] - mean) / scale * float64(at(op.Weight)[i/(len(x)/op.Shape[0])])
			}
		case ir.LayerNorm:
			n := op.Shape[len(op.Shape)-1]
			for i := range out {
				line := x[i/n*n:][:n]
				sum, squares := 0.0, 0.0
				for _, v := range line {
					sum += v
				}
				mean := sum / float64(n)
				for _, v := range line {
					squares += (v - mean) * (v - mean)
				}
				out[i] = (x[i]-mean)/math.Sqrt(squares/float64(n)+op.Epsilon)*float64(at(op.Weight)[i%n]) + float64(at(op.Bias)[i%n])
			}
		case ir.LeakyReLU:
			for i, v := range x {
				out[i] = max(v, float64(op.Slope)*v)
			}
		case ir.Add:
			for i := range out {
				out[i] = x[i] + values[op.In[1]][i]
			}
		default:
			f := map[ir.Kind]func(float64) float64{
				ir.ReLU:    func(v float64) float64 { return max(v, 0) },
				ir.Tanh:    math.Tanh,
				ir.Sigmoid: func(v float64) float64 { return 1 / (1 + math.Exp(-v)) },
				ir.GELU:    func(v float64) float64 { return v * (1 + math.Erf(v/math.Sqrt2)) / 2 },
			}[op.Kind]
			for i, v := range x {
				out[i] = f(v)
			}
		}
		if op.Bias != ir.None && op.Kind != ir.LayerNorm { // whose bias is of each element of a line
			b := at(op.Bias)
			for i := range out {
				out[i] += float64(b[i/(len(out)/len(b))])
			}
		}
		values = append(values, out)
	}
	return values[len(values)-1]
}

// standardized makes the kernels in w those of De et al. 2022: sums of squares in place of fan-in times a variance.
func standardized(w []float64, gain []float32) {
	for o, n := 0, len(w)/len(gain); o < len(gain); o++ {
		mean, squares := 0.0, 0.0
		for _, v := range w[o*n:][:n] {
			mean += v / float64(n)
		}
		for _, v := range w[o*n:][:n] {
			squares += math.Pow(v-mean, 2)
		}
		for i := range n {
			w[o*n+i] = (w[o*n+i] - mean) * float64(gain[o]) / math.Sqrt(max(squares, 1e-4))
		}
	}
}

// window calls f for every output channel, input channel and position with the
// places of the window's pixels in that channel, −1 for padding. A pool's channels are paired.
func window(op ir.Op, f func(o, c, position int, inside []int)) {
	w, rows, cols := op.Window, op.Shape[1], op.Shape[2]
	inside := make([]int, w.H*w.W)
	for y := range op.Out[1] {
		for x := range op.Out[2] {
			for ky := range w.H {
				for kx := range w.W {
					py, px := y*w.StrideH-w.PadTop+ky*w.DilationH, x*w.StrideW-w.PadLeft+kx*w.DilationW
					inside[ky*w.W+kx] = py*cols + px
					if py < 0 || py >= rows || px < 0 || px >= cols {
						inside[ky*w.W+kx] = -1
					}
				}
			}
			for o := range op.Out[0] {
				for c := range op.Shape[0] {
					if op.Kind == ir.Conv || c == o {
						f(o, c, (o*op.Out[1]+y)*op.Out[2]+x, inside)
					}
				}
			}
		}
	}
}

// tape runs the graph itself, forward only.
func tape(t tb, net *Network, input []float64) []float64 {
	t.Helper()
	var backing any = input
	if net.Input.Dtype() == tensor.Float32 {
		backing = narrow(input)
	}
	shape := net.Input.Shape()
	if err := G.Let(net.Input, tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))); err != nil {
		t.Fatal(err)
	}
	m := G.NewTapeMachine(net.Logits.Graph())
	defer m.Close()
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	return wide(t, net.Logits.Value().Data())
}

func wide(t tb, data any) []float64 {
	switch d := data.(type) {
	case []float64:
		return append([]float64(nil), d...)
	case []float32:
		return wide64(d)
	case float32:
		return []float64{float64(d)}
	case float64:
		return []float64{d}
	}
	t.Fatalf("unexpected data %T", data)
	return nil
}

func wide64(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// noise gives n values in (−scale, scale) that float32 holds exactly.
func noise(seed uint64, n int, scale float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(float32(scale * (2*r.Float64() - 1)))
	}
	return out
}

// agree compares the program with the tape machine on a random batch, first
// with the parameters of the graph, then with others written by SetParams.
func agree(t tb, net *Network) {
	t.Helper()
	if err := net.Program.Validate(); err != nil {
		t.Fatal(err)
	}
	shape := net.Input.Shape()
	input := noise(7, shape.TotalSize(), 1)
	compare := func(params []float32, what string) {
		t.Helper()
		got := tape(t, net, input)
		each := len(input) / shape[0]
		var want []float64
		for i := range shape[0] {
			want = append(want, evaluate(net.Program, params, input[i*each:][:each])...)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: the tape gives %d logits, the program %d", what, len(got), len(want))
		}
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= 1e-5*max(1, math.Abs(want[i]))) {
				t.Fatalf("%s: logit %d is %v on the tape, %v in the program\n%v", what, i, got[i], want[i], net.Program)
			}
		}
	}
	compare(net.Params(), "initial parameters")

	fresh := narrow(noise(8, net.Program.NumParams(), 1))
	for _, q := range net.Program.Params { // keep activations near 1
		scale := float32(1 / math.Sqrt(float64(q.Size()/q.Shape[0])))
		for i := range q.Size() {
			fresh[q.Offset+i] *= scale
		}
	}
	if err := net.SetParams(fresh); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(net.Params(), fresh) {
		t.Fatal("Params does not give back what SetParams wrote")
	}
	compare(fresh, "written parameters")
}
