package reproduce

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/l2p/meta"
)

// Table 1: unrolled steps, and its figures for full unrolling and blocks of 40 and 20.
var (
	unrolls = []int{200, 400, 600, 1000, 1200, 1600}

	paperMegabytes = map[int][3]float64{200: {474, 282, 250}, 400: {730, 282, 250}, 600: {1242, 282, 250}, 1000: {1843, 282, 250}, 1200: {2066, 282, 250}, 1600: {2266, 282, 250}}
	paperSeconds   = map[int][3]float64{200: {19, 21, 21}, 400: {41, 90, 89}, 600: {57, 102, 173}, 1000: {164, 188, 190}, 1200: {172, 248, 266}, 1600: {418, 357, 350}}
)

// A form of meta-training; the index is that of the paper's columns.
var metaForms = []struct {
	name  string
	block int
}{{"full", 0}, {"blocks of 40", 40}, {"blocks of 20", 20}}

// layers of the network whose training is unrolled, on images of 7×7.
var layers = []int{49, 8, 8, 8, 2}

const (
	memoryPool                = 4 // pixels a side that are averaged
	memoryTrain, memoryJudged = 256, 64
	memoryEpsilon             = 0.2
	memoryHidden              = 4 // units of each LSTM
)

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

// Params counts weights and biases.
func (f *perceptrons) Params() (n int) {
	for k := range len(layers) - 1 {
		n += (layers[k] + 1) * layers[k+1]
	}
	return n
}

// Records, L2 and Start are the task's.
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

// ClippedSum is of the training images.
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

// timedEpochs has one to warm up.
const timedEpochs = 4

// heapLooks are those at the heap while an unrolled stretch grows, and as many while its
// gradient holds all of it.
const heapLooks = 2

// metaRun trains for some epochs of one update and one run each, and gives the least time of
// those after the first: another load on the machine lengthens some.
func metaRun(ctx context.Context, f *perceptrons, steps, block, epochs int) (time.Duration, error) {
	var last time.Time
	took := time.Duration(math.MaxInt64)
	part := l2p.Part{Kind: l2p.Learned, Layers: 1, Hidden: memoryHidden}
	_, _, err := meta.Train(ctx, meta.Options{
		Plan:   meta.Plan{Steps: steps, Rate: 0.25, Clip: 1, Delta: 1e-8, Neighbouring: "add-remove", Accountant: spending},
		Family: f, Stages: []meta.Stage{{Epsilon: memoryEpsilon, Epochs: epochs}},
		Card:    l2p.Card{Name: "table1", Public: []l2p.Public{{Data: "fmnist"}}, Projector: part, Scheduler: part, Scale: 0.05},
		Batches: 1, Tasks: 1, LearningRate: 0.005, GradientNorm: 1, Gamma: 1, Block: block, Validation: 1, Seed: 1, Workers: 1,
		Progress: func(int, int, meta.Epoch) {
			if now := time.Now(); last.IsZero() {
				last = now
			} else {
				took, last = min(took, now.Sub(last)), now
			}
		},
	})
	return took, err
}

var l2pTable1 = Figure{
	Name: "l2p-table1", Short: "Memory and time of meta-training against the unrolled steps",
	Source: hong + ", appendix C.4, table 1", seeds: 3, alone: true, plan: planL2PTable1, show: showL2PTable1,
}

func planL2PTable1(e *env) (jobs []job, _ error) {
	open, ok := e.Sources["fmnist"]
	if !ok {
		return nil, nil
	}
	dir := e.DataDir
	if open.BuiltIn {
		dir = ""
	}
	lengths, seeds := unrolls, e.Seeds
	if e.Quick {
		lengths, seeds = evenly(unrolls, 3), 1
	}
	for seed := 1; seed <= seeds; seed++ {
		for _, steps := range lengths {
			steps := e.unroll(steps)
			for _, form := range metaForms {
				j := job{what: fmt.Sprint(1, steps, form.block, layers, memoryTrain, memoryJudged, memoryHidden, heapLooks, seed)}
				j.Panel, j.Series, j.X = "4 layers, Fashion-MNIST 0 against 1", form.name, float64(steps)
				j.make = func(ctx context.Context) ([]Record, error) {
					set, err := open.Open(dir)
					if err != nil {
						return nil, err
					}
					f, err := newPerceptrons(set)
					if err != nil {
						return nil, err
					}
					took, err := metaRun(ctx, f, steps, form.block, timedEpochs)
					if err != nil {
						return nil, err
					}
					f.watch = &heapWatch{every: max(steps/heapLooks, 1), base: live()}
					if form.block > 0 {
						f.watch.every = form.block / heapLooks
					}
					if _, err := metaRun(ctx, f, steps, form.block, 1); err != nil {
						return nil, err
					}
					return []Record{{
						Seed: seed, Step: steps, Final: true, Batch: memoryTrain / 4, Seconds: took.Seconds(),
						PeakHeap: ptr(float64(f.watch.peak) - float64(f.watch.base)),
					}}, nil
				}
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, nil
}

// unroll shortens a table for tests; --quick does not.
func (e *env) unroll(steps int) int {
	if e.work < 0.1 {
		return max(int(float64(steps)*e.work*10), 40)
	}
	return steps
}

func showL2PTable1(e *env, t table) page {
	var p page
	if len(t) == 0 {
		return p
	}
	panel := t[0].Panel
	lengths := t.xs(panel)
	bytes := func(r *Record) *float64 { return r.PeakHeap }
	seconds := func(r *Record) *float64 { return &r.Seconds }
	memory := chart{title: "largest live heap", x: "unrolled steps", y: "MB"}
	times := chart{title: "time of an epoch", x: "unrolled steps", y: "seconds"}
	hm := heading{Title: "Memory, MB: here the largest live heap of meta-training (the paper: GPU memory)", Head: []string{"unrolled steps"}}
	ht := heading{Title: "Time, seconds: here of an epoch of one update and one validation run (the paper: of its epoch)", Head: []string{"unrolled steps"}}
	for _, form := range metaForms {
		lm, lt := line{name: form.name}, line{name: form.name}
		for _, n := range lengths {
			lm.add(n, mean(t.last(panel, form.name, n, bytes)), 1e-6)
			lt.add(n, mean(t.last(panel, form.name, n, seconds)), 1)
		}
		memory.lines, times.lines = append(memory.lines, lm), append(times.lines, lt)
		hm.Head, ht.Head = append(hm.Head, form.name, form.name+" (paper)"), append(ht.Head, form.name, form.name+" (paper)")
	}
	for _, n := range lengths {
		rm, rt := []string{fmt.Sprint(n)}, []string{fmt.Sprint(n)}
		for k, form := range metaForms {
			m := mean(t.last(panel, form.name, n, bytes))
			m.mean, m.err = m.mean*1e-6, m.err*1e-6
			paper := func(of map[int][3]float64) string {
				if all, ok := of[int(n)]; ok {
					return fmt.Sprint(all[k])
				}
				return "–"
			}
			rm = append(rm, m.number(), paper(paperMegabytes))
			rt = append(rt, mean(t.last(panel, form.name, n, seconds)).number(), paper(paperSeconds))
		}
		hm.Rows, ht.Rows = append(hm.Rows, rm), append(ht.Rows, rt)
	}
	p.charts, p.tables = [][]chart{{memory, times}}, []heading{hm, ht}

	shortest, longest := lengths[0], lengths[len(lengths)-1]
	at := func(form string, n float64, m metric) float64 { return mean(t.last(panel, form, n, m)).mean }
	verdict := func(ok bool, figures ...float64) string {
		switch {
		case len(lengths) < 2 || math.IsNaN(sum(figures)):
			return unmeasured
		case ok:
			return agrees
		}
		return contradicts
	}
	for _, form := range metaForms[1:] {
		ratio := at(form.name, longest, bytes) / at(form.name, shortest, bytes)
		p.claims = append(p.claims, Claim{
			fmt.Sprintf("in %s the memory does not grow: at %g steps it is within %g times that at %g", form.name, longest, flatMemory, shortest),
			fmt.Sprintf("%.3g times", ratio), verdict(ratio <= flatMemory, ratio),
		})
	}
	ratio, lengthen := at("full", longest, bytes)/at("full", shortest, bytes), longest/shortest
	p.claims = append(p.claims, Claim{
		"fully unrolled it grows with the steps: here within a fifth of in proportion",
		fmt.Sprintf("%.3g times the memory for %.3g times the steps (the paper: %.3g times for 8, a constant part included)", ratio, lengthen, paperMegabytes[1600][0]/paperMegabytes[200][0]),
		verdict(math.Abs(ratio/lengthen-1) <= 0.2, ratio),
	})
	least, middle, most := at("blocks of 20", longest, bytes), at("blocks of 40", longest, bytes), at("full", longest, bytes)
	p.claims = append(p.claims, Claim{
		fmt.Sprintf("the shorter the blocks, the less memory (%g steps)", longest),
		fmt.Sprintf("%.3g, %.3g and %.3g MB", least*1e-6, middle*1e-6, most*1e-6), verdict(least < middle && middle < most, least, middle, most),
	})
	slow := 0.0
	for _, n := range lengths {
		slow += (at("blocks of 40", n, seconds) + at("blocks of 20", n, seconds)) / (2 * at("full", n, seconds)) / float64(len(lengths))
	}
	p.claims = append(p.claims, Claim{
		"blocks cost time, but acceptably (ours: at most twice that of full unrolling)", fmt.Sprintf("%.3g times on the average", slow), verdict(slow <= 2, slow),
	})
	p.how = []string{
		fmt.Sprintf("A network of %d inputs and layers of %v units with sigmoids, cross-entropy, %d training images of two classes of Fashion-MNIST averaged to 7×7, q = 0.25; a projector and a scheduler of one layer of %d units. Smaller than the paper's, so that it runs in minutes: its figures are to be set beside each other, not beside the paper's.", layers[0], layers[1:], memoryTrain, memoryHidden),
		"Memory is the largest live heap in float64, after full garbage collections, of which two come while the gradient of each unrolled stretch holds all of it; less what was live before meta-training began. Nothing else runs in the process. Times are the least of three epochs without these looks at the heap.",
		"Blocks make each run twice, in a second pass for the multipliers (appendix B.5); validation makes it once more in each form.",
	}
	return p
}

// flatMemory is what "does not grow" is taken for.
const flatMemory = 1.2

func sum(of []float64) (total float64) {
	for _, x := range of {
		total += x
	}
	return total
}
