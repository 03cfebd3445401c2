package l2p

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/l2p/meta"
)

// layers of the network whose training is unrolled, on images of 7×7.
var layers = []int{49, 8, 8, 8, 2}

// perceptrons are training problems of a network of sigmoids on two classes.
type perceptrons struct {
	train, judged examples
	watch         *heapWatch
}

type examples struct {
	rows   [][]float64
	labels []int
}

// newPerceptrons averages images over squares of pixels.
func newPerceptrons(set *datasets.Set) (*perceptrons, error) {
	side := int(math.Sqrt(float64(layers[0])))
	if s := set.Train.Shape; s != [3]int{1, memoryPool * side, memoryPool * side} {
		return nil, fmt.Errorf("%s has images of %v, not of %d×%[3]d", set.Name, s, memoryPool*side)
	}
	f := &perceptrons{}
	pixels := memoryPool * memoryPool * layers[0]
	for i, label := range set.Train.Labels {
		to := &f.train
		if len(to.rows) == memoryTrain {
			to = &f.judged
		}
		if len(to.rows) == memoryTrain+memoryJudged || int(label) >= layers[len(layers)-1] {
			continue
		}
		row := make([]float64, layers[0])
		for k, b := range set.Train.Features[i*pixels:][:pixels] {
			x, y := k%(memoryPool*side)/memoryPool, k/(memoryPool*side)/memoryPool
			row[y*side+x] += (float64(b)/127.5 - 1) / (memoryPool * memoryPool)
		}
		if to.rows, to.labels = append(to.rows, row), append(to.labels, int(label)); len(f.judged.rows) == memoryJudged {
			break
		}
	}
	if len(f.judged.rows) == 0 {
		return nil, fmt.Errorf("%s has fewer than %d images of two classes", set.Name, memoryTrain+1)
	}
	return f, nil
}

// Draw is always the same problem.
func (f *perceptrons) Draw(*rand.Rand) meta.Task { return f }

func (f *perceptrons) Params() (n int) {
	for k := range len(layers) - 1 {
		n += (layers[k] + 1) * layers[k+1]
	}
	return n
}

func (f *perceptrons) Records() int { return len(f.train.rows) }
func (f *perceptrons) L2() float64  { return 0 }
func (f *perceptrons) Start(r *rand.Rand, params []float64) {
	for k := range len(layers) - 1 {
		in, out := layers[k], layers[k+1]
		a := math.Sqrt(6 / float64(in+out))
		for i := range in * out {
			params[i] = a * (2*r.Float64() - 1)
		}
		clear(params[in*out : (in+1)*out])
		params = params[(in+1)*out:]
	}
}

func (f *perceptrons) ClippedSum(params []float64, rows []int, clip float64, sum []float64) {
	clear(sum)
	g := make([]float64, len(params))
	for _, i := range rows {
		clear(g)
		gradient(params, f.train.rows[i], f.train.labels[i], g)
		factor := min(1, clip/math.Sqrt(inner(g, g)))
		for k, v := range g {
			sum[k] += factor * v
		}
	}
}

// Loss is called after every step of a simulation and in its gradient: there the heap is looked at.
func (f *perceptrons) Loss(params, grad []float64) float64 {
	if f.watch != nil {
		f.watch.step()
	}
	clear(grad)
	total, n := 0.0, float64(len(f.judged.rows))
	for i, x := range f.judged.rows {
		total += gradient(params, x, f.judged.labels[i], grad) / n
	}
	for k := range grad {
		grad[k] /= n
	}
	return total
}

// gradient adds that of the cross-entropy of one image to g, unless that is nil, and
// gives the loss.
func gradient(params, x []float64, label int, g []float64) float64 {
	outputs := [][]float64{x}
	var offsets []int
	at := 0
	for k := range len(layers) - 1 {
		in, out := layers[k], layers[k+1]
		y := make([]float64, out)
		for u := range y {
			y[u] = params[at+in*out+u] + inner(params[at+u*in:][:in], outputs[k])
			if k < len(layers)-2 {
				y[u] = 1 / (1 + math.Exp(-y[u]))
			}
		}
		outputs, offsets = append(outputs, y), append(offsets, at)
		at += (in + 1) * out
	}
	last := outputs[len(outputs)-1]
	most, sum := max(last[0], last[1]), 0.0
	for _, v := range last {
		sum += math.Exp(v - most)
	}
	loss := most + math.Log(sum) - last[label]
	if g == nil {
		return loss
	}
	back := make([]float64, len(last))
	for u, v := range last {
		back[u] = math.Exp(v-most) / sum
	}
	back[label]--
	for k := len(layers) - 2; k >= 0; k-- {
		in, out, x := layers[k], layers[k+1], outputs[k]
		before := make([]float64, in)
		for u := range out {
			w, gw := params[offsets[k]+u*in:][:in], g[offsets[k]+u*in:][:in]
			for i := range in {
				gw[i] += back[u] * x[i]
				before[i] += back[u] * w[i]
			}
			g[offsets[k]+in*out+u] += back[u]
		}
		for i, v := range x {
			before[i] *= v * (1 - v) // not used of the images
		}
		back = before
	}
	return loss
}

// A heapWatch keeps the largest live heap that it has seen.
type heapWatch struct {
	every, calls int
	base, peak   uint64
}

// live collects garbage first, so that what is counted is held.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (h *heapWatch) step() {
	if h.calls++; h.calls%h.every == 0 {
		h.peak = max(h.peak, live())
	}
}
