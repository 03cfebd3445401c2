package bench

import (
	"math/rand/v2"
	"time"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/peak"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/pages"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/timing"
)

// The kinds of matrix product in a training step. A thread has its own part of
// a dense product and its own examples of the others.
const (
	dense   = "dense"   // one product over the batch; both operands are packed in passing
	conv    = "conv"    // an example's convolution, read where its image lies: weights packed before
	weights = "weights" // an example's weight gradient, A·Bᵀ: δ packed each time, the image read where it lies

	// The same from one output of every window of a max pooling. The arithmetic is that of all outputs.
	pooledWeights = "pooled-weights"

	// Products by squares of outputs, all transforms but the weights' included. The arithmetic is that of the direct
	// product, so it may go beyond the peak.
	squares        = "squares"
	squaresWeights = "squares-weights"
)

// A Product is the shape of one matrix product, m×k times k×n.
type Product struct {
	M    int    `json:"m"`
	K    int    `json:"k"`
	N    int    `json:"n"`
	Kind string `json:"kind"`

	kernel, rows, cols int // of the convolution that it stands for: kernel×kernel taps at rows×cols positions
	windows            int // of a channel, under a max pooling
}

func (p Product) flops() float64 { return 2 * float64(p.M) * float64(p.K) * float64(p.N) }

// largeProducts are shapes that matrix libraries are usually compared on, and
// those of convolutions and of their weight gradients.
var largeProducts = []Product{
	{M: 256, K: 784, N: 1000, Kind: dense},
	{M: 256, K: 4096, N: 4096, Kind: dense},
	{M: 256, K: 4096, N: 1024, Kind: dense},
	convProduct(16, 6, 5, 112, 112),
	convProduct(6, 1, 5, 224, 224),
	convProduct(32, 32, 3, 32, 32),
	convProduct(64, 32, 3, 32, 32),
	convProduct(128, 64, 3, 16, 16),
	convProduct(128, 128, 3, 16, 16),
	convProduct(64, 32, 3, 32, 32).gradient(),
	convProduct(128, 128, 3, 16, 16).gradient(),
	convProduct(16, 6, 5, 14, 14).gradient(),
	convProduct(16, 6, 5, 8, 8).gradient(),
	convProduct(6, 1, 5, 28, 28).gradient(),
	convProduct(16, 6, 5, 8, 8).gradient().pooled(16),
	convProduct(6, 1, 5, 24, 24).gradient().pooled(144),
	convProduct(64, 32, 3, 32, 32).bySquares(),
	convProduct(128, 128, 3, 16, 16).bySquares(),
	convProduct(64, 32, 3, 32, 32).gradient().bySquares(),
	convProduct(128, 128, 3, 16, 16).gradient().bySquares(),
}

func convProduct(out, in, kernel, rows, cols int) Product {
	return Product{M: out, K: in * kernel * kernel, N: rows * cols, Kind: conv, kernel: kernel, rows: rows, cols: cols}
}

// gradient is the product that gives a convolution's weight gradient.
func (p Product) gradient() Product {
	p.K, p.N, p.Kind = p.N, p.K, weights
	return p
}

// pooled is a weight gradient under a max pooling of so many windows of a channel.
func (p Product) pooled(windows int) Product {
	p.Kind, p.windows = pooledWeights, windows
	return p
}

// bySquares is the same product by squares of outputs.
func (p Product) bySquares() Product {
	p.Kind = map[string]string{conv: squares, weights: squaresWeights}[p.Kind]
	return p
}

// GEMMOptions says which products to time.
type GEMMOptions struct {
	Model   string  // "" for shapes at large, or the model whose layers to take
	Batch   int     // of the model's dense layers
	Threads int     // 0 for all; one thread is measured in any case
	Seconds float64 // for each shape and number of threads
	Device  string  // of GPUGEMM
}

// GEMMResult is what matrix products reach on this machine.
type GEMMResult struct {
	ISA      string          `json:"isa"`
	PeakISA  string          `json:"peak_isa"` // of the multiply-adds that the peaks are of; "" where they are unknown
	Products []ProductResult `json:"products"`
}

// ProductResult is one shape on a number of threads. The peak is that of the
// processor's multiply-adds on as many threads, measured in between, and null
// where there is no kernel for it.
type ProductResult struct {
	Product
	Threads  int      `json:"threads"`
	GFLOPS   float64  `json:"gflops"`
	Peak     *float64 `json:"peak_gflops"`
	Fraction *float64 `json:"fraction"` // of the peak: median of the rounds' ratios
	ISA      string   `json:"isa"`
}

// gemmRounds is how many times a shape and the peak take turns: a shared
// machine's clock moves between them.
const gemmRounds = 7

// GEMM times matrix products beside the processor's peak.
func GEMM(o GEMMOptions) (*GEMMResult, error) {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return nil, err
	}
	threads, err := threadCounts(o.Threads)
	if err != nil {
		return nil, err
	}
	products := largeProducts
	if o.Model != "" {
		if products, err = o.layerProducts(); err != nil {
			return nil, err
		}
	}
	r := &GEMMResult{ISA: gemm.ISA(), PeakISA: peak.ISA()}
	for _, p := range products {
		for _, n := range threads {
			r.Products = append(r.Products, p.measure(n, o.Seconds))
		}
	}
	return r, nil
}

// program is the model's; one that takes rows of any shape gets images of 28×28.
func (o *GEMMOptions) program() (*ir.Program, error) {
	if err := timing.CheckBatch(o.Batch); err != nil {
		return nil, err
	}
	info, err := plan.Model(o.Model)
	if err != nil {
		return nil, err
	}
	if info.Input == [3]int{} {
		info.Input = [3]int{1, 28, 28}
	}
	network, err := plan.BuildNetwork(o.Model, info.Input, info.Classes, "relu", 1)
	if err != nil {
		return nil, err
	}
	return network.Program, nil
}

// layerProducts are the forward products of the model's layers and the weight
// gradients of its convolutions.
func (o *GEMMOptions) layerProducts() (all []Product, err error) {
	program, err := o.program()
	if err != nil {
		return nil, err
	}
	needsGrad := program.NeedsGrad()
	for i := range program.Ops {
		op := &program.Ops[i]
		switch op.Kind {
		case ir.Dense:
			out, in, _ := op.Columns()
			all = append(all, Product{M: o.Batch, K: in, N: out, Kind: dense})
		case ir.Conv:
			// A stride s turns s·s phases of an image into as many channels.
			w := op.Window
			p := convProduct(op.Out[0], op.Shape[0]*w.StrideH*w.StrideW, (w.H+w.StrideH-1)/w.StrideH, op.Out[1], op.Out[2])
			pair := []Product{p, p.gradient()}
			if needsGrad[op.In[0]] && op.Same(3) && gemm.WorthSquares(op.Shape[0], op.Out[0], op.Out[1], op.Out[2]) {
				pair = []Product{p.bySquares(), p.gradient().bySquares()}
			} else if windows := pooling(program.Ops[i+1:]); windows > 0 && gemm.NewPicker(p.taps(), p.M, windows) != nil {
				pair[1] = p.gradient().pooled(windows)
			}
			all = append(all, pair...)
		}
	}
	return all, nil
}

// pooling gives the windows of a channel where a convolution is followed by a max pooling without padding, perhaps behind an
// activation; 0 where it is not.
func pooling(next []ir.Op) int {
	if len(next) > 1 && next[0].Kind.Activation() {
		next = next[1:]
	}
	if len(next) == 0 { // it gives the logits
		return 0
	}
	if w := next[0].Window; next[0].Kind != ir.MaxPool || w.PadTop|w.PadBottom|w.PadLeft|w.PadRight != 0 {
		return 0
	}
	return next[0].Out[1] * next[0].Out[2]
}

// work gives, for each thread, a function that does its part of the product a
// number of times, and the arithmetic of all parts together. Operands
// of one example are small enough to be in cache, as they are in training.
func (p Product) work(threads int) (parts []func(times int), flops float64) {
	random := rand.New(rand.NewPCG(5, 6))
	values := func(rows, cols int) gemm.Matrix {
		m := gemm.RowMajor(pages.Make[float32](rows*cols), rows, cols)
		for i := range m.Data {
			m.Data[i] = float32(random.NormFloat64())
		}
		return m
	}
	part := func(once func()) {
		parts = append(parts, func(times int) {
			for range times {
				once()
			}
		})
	}
	if p.Kind == dense {
		// The longer side is cut, as the device does.
		a, b, c := values(p.M, p.K), values(p.N, p.K).T(), gemm.RowMajor(pages.Make[float32](p.M*p.N), p.M, p.N)
		for t := range threads {
			var ws gemm.Workspace
			c, a, b := c, a, b
			if p.M >= p.N {
				lo, hi := gemm.Cut(p.M, 1, t, threads)
				c, a = c.Slice(lo, hi, 0, p.N), a.Slice(lo, hi, 0, p.K)
			} else {
				lo, hi := gemm.Cut(p.N, gemm.TileN, t, threads)
				c, b = c.Slice(0, p.M, lo, hi), b.Slice(0, p.K, lo, hi)
			}
			part(func() { gemm.Mul(c, a, b, false, &ws) })
		}
		return parts, p.flops()
	}
	for range threads {
		once, examples := p.examples(values)
		part(once)
		flops += float64(examples) * p.flops()
	}
	return parts, flops
}

// examples gives what computes the product of as many examples as training does together.
func (p Product) examples(values func(rows, cols int) gemm.Matrix) (once func(), count int) {
	channels := p.channels()
	h, w := p.rows+p.kernel-1, p.cols+p.kernel-1 // padded where it needs to be
	a, c := values(p.M, p.K), values(p.M, p.N)
	if p.Kind == squares || p.Kind == squaresWeights {
		plan, work := gemm.NewWinograd(channels, p.M, p.rows, p.cols, w, h*w), new(gemm.WinogradWork)
		image := max(plan.Reach(), channels*h*w)
		if p.Kind == squaresWeights {
			gradient, x := gemm.RowMajor(c.Data, p.N, p.M), values(1, image).Data
			return func() { plan.Contract(gradient, x, a, false, work) }, 1
		}
		packed := new(gemm.WinogradWeights)
		packed.Pack(a.Data, p.M, channels, nil)
		images := gemm.Images{N: plan.Together(), X: image, C: p.M * p.N}
		x, y := values(images.N, images.X).Data, values(images.N, images.C).Data
		return func() { plan.Correlate(y, p.N, packed, x, images, false, nil, false, work) }, images.N
	}
	taps := p.taps()
	if p.Kind == pooledWeights {
		picker, random := gemm.NewPicker(taps, p.M, p.windows), rand.New(rand.NewPCG(7, 8))
		var at []int32
		for channel := range p.M {
			for range p.windows {
				at = append(at, int32(channel*p.K+random.IntN(p.K)))
			}
		}
		x, delta := values(1, picker.Reach()).Data, values(p.M, p.windows).Data
		return func() { picker.Contract(c.Data, x, delta, at) }, 1
	}
	x := values(1, taps.Reach()).Data
	if p.Kind == weights {
		gradient, delta := gemm.RowMajor(c.Data, p.N, p.M), new(gemm.PackedB)
		return func() { gemm.Contract(gradient, x, taps, a, false, delta) }, 1
	}
	packed := new(gemm.PackedA)
	gemm.PackA(packed, a)
	return func() { gemm.Correlate(c.Data, p.N, packed, x, taps, false, nil, false) }, 1
}

// channels are those of the image.
func (p Product) channels() int {
	if p.Kind == conv || p.Kind == squares {
		return p.K / (p.kernel * p.kernel)
	}
	return p.N / (p.kernel * p.kernel)
}

// taps are those of the convolution, on an image that is padded where it needs to be.
func (p Product) taps() *gemm.Taps {
	h, w := p.rows+p.kernel-1, p.cols+p.kernel-1
	var offsets []int
	for channel := range p.channels() {
		for y := range p.kernel {
			for x := range p.kernel {
				offsets = append(offsets, (channel*h+y)*w+x)
			}
		}
	}
	return gemm.NewTaps(offsets, p.rows, p.cols, w)
}

func (p Product) measure(threads int, seconds float64) ProductResult {
	r := ProductResult{Product: p, Threads: threads, ISA: gemm.ISA()}
	parts, flops := p.work(threads)
	speed := func(times int) float64 {
		return float64(times) * flops / together(threads, func(t int) { parts[t](times) }).Seconds() / 1e9
	}
	span := seconds / gemmRounds * 2 / 3 // the rest is the peak's
	times := 1
	for speed(times); ; times *= 2 { // the first has warmed up
		if took := float64(times) * flops / 1e9 / speed(times); took > span/4 {
			times = max(1, int(float64(times)*span/took))
			break
		}
	}
	before, known := peakSpeed(threads, span/4)
	var speeds, peaks, fractions []float64
	for range gemmRounds {
		s := speed(times)
		speeds = append(speeds, s)
		if known {
			after, _ := peakSpeed(threads, span/4)
			peaks = append(peaks, before, after)
			fractions = append(fractions, s/((before+after)/2))
			before = after
		}
	}
	r.GFLOPS = timing.Median(speeds)
	if known {
		r.Peak, r.Fraction = new(timing.Median(peaks)), new(timing.Median(fractions))
	}
	return r
}

// peakSpeed is the GFLOP/s of multiply-adds in registers on a number of
// threads, and whether there is a kernel for them.
func peakSpeed(threads int, seconds float64) (float64, bool) {
	const rounds = 1 << 16 // a fraction of a millisecond: the kernel cannot be preempted
	if !peak.Run(rounds) {
		return 0, false
	}
	one := together(1, func(int) { peak.Run(rounds) }).Seconds()
	calls := max(1, int(seconds/one))
	took := together(threads, func(int) {
		for range calls {
			peak.Run(rounds)
		}
	})
	return float64(threads*calls*rounds*peak.FLOPs()) / took.Seconds() / 1e9, true
}

// together runs f on every thread and gives the time until the last is done.
func together(threads int, f func(thread int)) time.Duration {
	start, done := make(chan struct{}), make(chan struct{})
	for t := range threads - 1 {
		go func() {
			<-start
			f(t + 1)
			done <- struct{}{}
		}()
	}
	began := time.Now()
	close(start)
	f(0)
	for range threads - 1 {
		<-done
	}
	return time.Since(began)
}
