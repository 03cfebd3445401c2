// Package memory measures the memory and the time of meta-training, which a table of Hong et al. 2021 is about.
package memory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/reproduce"
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

const (
	memoryPool                = 4 // pixels a side that are averaged
	memoryTrain, memoryJudged = 256, 64
	memoryEpsilon             = 0.2
	memoryHidden              = 4 // units of each LSTM

	timedEpochs = 4   // one to warm up
	heapLooks   = 2   // at the heap while an unrolled stretch grows, and as many while its gradient holds all of it
	flatMemory  = 1.2 // what "does not grow" is taken for
)

// metaRun trains for some epochs of one update and one run each, and gives the least time of
// those after the first: another load on the machine lengthens some.
func metaRun(ctx context.Context, f *perceptrons, steps, block, epochs int) (time.Duration, error) {
	var last time.Time
	took := time.Duration(math.MaxInt64)
	part := l2p.Part{Kind: l2p.Learned, Layers: 1, Hidden: memoryHidden}
	_, _, err := meta.Train(ctx, meta.Options{
		Plan:   meta.Plan{Steps: steps, Rate: 0.25, Clip: 1, Delta: 1e-8, Neighbouring: "add-remove", Accountant: accountant.RDP},
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

// Table is that of a paper.
func Table(paper string) reproduce.Figure {
	return reproduce.Figure{
		Name: "l2p-table1", Short: "Memory and time of meta-training against the unrolled steps",
		Source: paper + ", appendix C.4, table 1", Seeds: 3, Alone: true, Plan: planTable1, Show: showTable1,
	}
}

func planTable1(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
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
		lengths, seeds = reproduce.Evenly(unrolls, 3), 1
	}
	for seed := 1; seed <= seeds; seed++ {
		for _, steps := range lengths {
			steps := unroll(e, steps)
			for _, form := range metaForms {
				j := reproduce.Job{What: fmt.Sprint(1, steps, form.block, layers, memoryTrain, memoryJudged, memoryHidden, heapLooks, seed)}
				j.Panel, j.Series, j.X = "4 layers, Fashion-MNIST 0 against 1", form.name, float64(steps)
				j.Make = func(ctx context.Context) (reproduce.Records, error) {
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
					return reproduce.Records{{
						Seed: seed, Step: steps, Final: true, Batch: memoryTrain / 4, Seconds: took.Seconds(),
						PeakHeap: new(float64(f.watch.peak) - float64(f.watch.base)),
					}}, nil
				}
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, nil
}

// unroll shortens a table for tests; --quick does not.
func unroll(e *reproduce.Env, steps int) int {
	if e.Work < 0.1 {
		return max(int(float64(steps)*e.Work*10), 40)
	}
	return steps
}

var (
	heap  = reproduce.Quantity{Name: "MB", Of: func(r *reproduce.Record) *float64 { return r.PeakHeap }, Scale: 1e-6}
	epoch = reproduce.Quantity{Name: "seconds", Of: func(r *reproduce.Record) *float64 { return &r.Seconds }, Scale: 1}
)

func showTable1(_ *reproduce.Env, rs reproduce.Records) reproduce.Page {
	if len(rs) == 0 {
		return reproduce.Page{}
	}
	memory, hm := byLength(rs, heap, paperMegabytes)
	memory.Title, hm.Title = "largest live heap", "Memory in MB (ours: the largest live heap of meta-training; the paper's: GPU memory)"
	times, ht := byLength(rs, epoch, paperSeconds)
	times.Title, ht.Title = "time of an epoch", "Time of an epoch in seconds (ours: one update and one validation run; the paper's: its epoch)"
	p := reproduce.Page{Charts: [][]reproduce.Chart{{memory, times}}, Tables: []reproduce.Table{hm, ht}, Claims: table1Claims(rs)}
	p.How = []string{
		fmt.Sprintf("The network has %d inputs, layers of %v units with sigmoids, and cross-entropy loss. It trains on %d images of two classes of Fashion-MNIST, averaged to 7×7, with q = 0.25. The projector and the scheduler each have one layer of %d units. All of this is smaller than the paper's, so that it runs in minutes. Compare these figures with each other, not with the paper's.", layers[0], layers[1:], memoryTrain, memoryHidden),
		"Memory is the largest live heap, in float64, after full garbage collections. Two of these collections run while the gradient of an unrolled stretch of steps holds the most memory. What was live before meta-training began is subtracted. Nothing else runs in the process. Times are the least of three epochs without these collections.",
		"With blocks, each run is made twice: the second pass is for the multipliers (appendix B.5). Validation makes each run once more, with blocks and without.",
	}
	return p
}

// byLength shows a quantity of each form by the unrolled steps, beside the paper's figures.
func byLength(rs reproduce.Records, q reproduce.Quantity, paper map[int][3]float64) (reproduce.Chart, reproduce.Table) {
	c, h := reproduce.Chart{X: "unrolled steps", Y: q.Name}, reproduce.Table{Head: []string{"unrolled steps"}}
	panel := rs[0].Panel
	for _, n := range rs.Xs(panel) {
		h.Rows = append(h.Rows, []string{fmt.Sprint(n)})
	}
	for k, form := range metaForms {
		l := reproduce.Line{Name: form.name}
		for i, n := range rs.Xs(panel) {
			m := rs.Mean(panel, form.name, n, q.Of)
			l.Add(n, m, q.Scale)
			m.Mean, m.Err = m.Mean*q.Scale, m.Err*q.Scale
			theirs := "–"
			if all, ok := paper[int(n)]; ok {
				theirs = fmt.Sprint(all[k])
			}
			h.Rows[i] = append(h.Rows[i], m.Number(), theirs)
		}
		c.Lines = append(c.Lines, l)
		h.Head = append(h.Head, form.name, form.name+" (paper)")
	}
	return c, h
}

func table1Claims(rs reproduce.Records) (claims []reproduce.Claim) {
	panel := rs[0].Panel
	lengths := rs.Xs(panel)
	shortest, longest := lengths[0], lengths[len(lengths)-1]
	at := func(form string, n float64, m reproduce.Metric) float64 {
		return rs.Mean(panel, form, n, m).Mean
	}
	judge := func(claim, found string, ok bool, figures ...float64) {
		measured := len(lengths) > 1 && !slices.ContainsFunc(figures, math.IsNaN)
		claims = append(claims, reproduce.Claim{Claim: claim, Found: found, Verdict: reproduce.Verdict(measured, ok, true)})
	}
	for _, form := range metaForms[1:] {
		ratio := at(form.name, longest, heap.Of) / at(form.name, shortest, heap.Of)
		judge(fmt.Sprintf("in %s the memory does not grow: at %g steps it is within %g times that at %g", form.name, longest, flatMemory, shortest),
			fmt.Sprintf("%.3g times", ratio), ratio <= flatMemory, ratio)
	}
	ratio, lengthen := at("full", longest, heap.Of)/at("full", shortest, heap.Of), longest/shortest
	judge("fully unrolled, the memory grows with the steps (ours: in proportion, within a fifth)",
		fmt.Sprintf("%.3g times the memory for %.3g times the steps (the paper: %.3g times for 8, a constant part included)", ratio, lengthen, paperMegabytes[1600][0]/paperMegabytes[200][0]),
		math.Abs(ratio/lengthen-1) <= 0.2, ratio)
	least, middle, most := at("blocks of 20", longest, heap.Of), at("blocks of 40", longest, heap.Of), at("full", longest, heap.Of)
	judge(fmt.Sprintf("the shorter the blocks, the less memory (%g steps)", longest),
		fmt.Sprintf("%.3g, %.3g and %.3g MB", least*1e-6, middle*1e-6, most*1e-6), least < middle && middle < most, least, middle, most)
	slow := 0.0
	for _, n := range lengths {
		slow += (at("blocks of 40", n, epoch.Of) + at("blocks of 20", n, epoch.Of)) / (2 * at("full", n, epoch.Of)) / float64(len(lengths))
	}
	judge("blocks cost time, but acceptably (ours: at most twice that of full unrolling)", fmt.Sprintf("%.3g times on average", slow), slow <= 2, slow)
	return claims
}

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

func inner(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
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
