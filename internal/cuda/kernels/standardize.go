package kernels

// standardize.cu has the same.
const (
	standardizeThreads     = 256
	standardizeGradThreads = 512
	standardizeMoments     = 3 // float64s of a channel
)

// Weight standardization of a convolution of out filters with k taps each (De, Berrada, Hayes, Smith and Balle, Unlocking High-Accuracy
// Differentially Private Image Classification through Scale, 2022): the weights that it is run with are
//
//	W[o,j] = gain[o]·(w[o,j]−μ_o)·s_o,  s_o = 1/√max(S_o, 10⁻⁴),  S_o = Σ_j (w[o,j]−μ_o)²
//
// with the mean μ_o of a filter. Everything is computed in float64, and what is written in float32 is rounded once.

// StandardizeMomentBytes is what Standardize leaves for the way back: μ, s and S of each filter, float64.
func StandardizeMomentBytes(out int) int { return 8 * standardizeMoments * out }

// Standardize writes W to made, which lies as w does, out×k, μ, s and S of each filter to moments, and ŵ = (w−μ)·s in float32 to hat, unless
// that is 0. It reads no run: parameters belong to no example. A sum takes tap j in lane j mod 256, in order, then the lanes in a tree of halves.
func Standardize(out, k int, w, gain, made, moments, hat Ptr) Launch {
	return line("standardize", "standardize", out, standardizeThreads, w, gain, made, moments, hat, I(k))
}

// StandardizeGrad turns each live example's gradient G at W into those at w and gain, in place: with ŵ = (w−μ)·s
//
//	dgain_o = Σ_j G·ŵ
//	dw = gain·s·(G − mean_j(G) − ŵ·dgain_o)   where S_o > 10⁻⁴
//	dw = gain·s·(G − mean_j(G))               elsewhere, as s does not depend on w there
//
// At kept[b·stride…] stand G, out×k in the order of the weights, then bias values, 0 or out, of the bias's gradient, which is how ConvStore keeps
// a convolution's; behind them is room for out values of dgain. stride counts float32 values and is at least out·k+bias+out.
// The squared norm of all of these as they then are, dw, the bias's and dgain, is added in float64 to norm2[b]; norm2 0 is none. The norm
// that ConvStore adds is of G, and not of what is kept then: it belongs elsewhere.
//
// A sum over the taps takes tap j in lane j mod 32, in order, then the lanes in a tree of halves. Filter o belongs to warp o mod 16. A thread adds
// its squares in the order of the filters, dw before dgain, then those of biases j mod 512, and a tree of halves adds the threads: the
// relative error of the norm is below γ((k/32+2)·(out/16+1)+out/512+12) with u = 2⁻⁵³.
func StandardizeGrad(b Batch, out, k int, bias int, w, gain, moments, kept Ptr, stride int, norm2 Ptr) Launch {
	return line("standardize", "standardize_grad", b.Capacity, standardizeGradThreads,
		b.args(w, gain, moments, kept, I(stride), norm2, I(out), I(k), I(bias))...)
}

// StandardizeSum is the way back of a sum of gradients, as it is linear: of the float64 values g, out×k, it adds what StandardizeGrad gives, without
// rounding it to float32, to the float64 values of sumW and sumGain. A sum over the taps takes tap j in lane j mod 256, in order, then the
// lanes in a tree of halves.
func StandardizeSum(out, k int, w, gain, moments, g, sumW, sumGain Ptr) Launch {
	return line("standardize", "standardize_sum", out, standardizeThreads, w, gain, moments, g, sumW, sumGain, I(k))
}

// Standardized is a convolution whose gradients stay kept as they are at W: out×k values, then Bias of the bias, then out of the gains, Stride
// float32 values from one example's to the next. StandardizeMeasure turns them back to measure them, and StandardizeCombine to add them up.
type Standardized struct {
	Out, K, Bias       int
	Gain, Moments, Hat Ptr // as Standardize takes and leaves them
	Kept               Ptr
	Stride             int
	Turns              Ptr // StandardizeTurnBytes: what each example's filters are turned by
}

const (
	measureWarps = 8        // of a block of StandardizeMeasure
	measureBytes = 96 << 10 // of shared memory: a block has it on every GPU
)

// StandardizeFits reports whether StandardizeMeasure has room for filters of k taps.
func StandardizeFits(k int) bool { return measureOf(k) > 0 }

// measureOf is how many examples' rows have room side by side.
func measureOf(k int) int { return min(measureWarps, measureBytes/measureRow(k)) }

// measureRow is a row's bytes.
func measureRow(k int) int { return 16 * ceil(k, 4) }

// StandardizeTurnBytes is what StandardizeMeasure leaves of each example: two float32 for every filter.
func StandardizeTurnBytes(out int) int { return 8 * out }

// StandardizeNorms is the number of parts in which StandardizeMeasure gives squared norms: as many as keep a large GPU busy.
func StandardizeNorms(out, capacity int) int {
	return max(1, min(out, 2*measureWarps*processors/capacity, 64))
}

// StandardizeMeasure computes, of each live example, the gradients at w and gain in float32,
//
//	dgain_o = Σ_j G·ŵ,   dw = (gain·s)·fma(−a, ŵ, G − m),   m = mean_j(G),   a = dgain_o where S_o > 10⁻⁴, else 0
//
// with m, a, gain·s and ŵ rounded to float32. It keeps m and a in Turns and dgain behind the biases, and leaves G as it is. What it adds to
// the StandardizeNorms parts of norm2, float64 [part][example], is together the squared norm of dw, the bias's gradient and dgain: of the
// very values that StandardizeCombine sums.
//
// Sums over the taps are of fours of neighbours, each a chain in float32, where Kept and what follows allow it, else of single values; they go
// to lanes by turns, in order, in float64, then the lanes in a tree of halves. With u = 2⁻²⁴ dgain is off
// by at most γ(6)·Σ|G·ŵ|, and a value of dw by at most γ(10)·|gain|·s·(|G| + mean|G| + |ŵ|·Σ|G·ŵ|). Filter o belongs to part o mod parts; a lane adds squares of its filters in order, then dgain's,
// lane 0, then those of biases j mod 32, part 0; a tree of halves adds the lanes. The relative error of a part is
// below γ((k/32+5)·out+out/32+7) with u = 2⁻⁵³.
func StandardizeMeasure(b Batch, s *Standardized, norm2 Ptr) Launch {
	warps := measureOf(s.K)
	name := "standardize_measure"
	if s.fours() {
		name = "standardize_measure_fours"
	}
	l := line("standardize", name, ceil(b.Capacity, warps), warp*warps,
		b.args(s.Gain, s.Moments, s.Hat, s.Kept, I(s.Stride), s.Turns, norm2, I(s.Out), I(s.K), I(s.Bias))...)
	l.Grid[1], l.Shared = StandardizeNorms(s.Out, b.Capacity), warps*measureRow(s.K)
	return l
}

// StandardizeCombine is Combine of the n columns that begin with a convolution's weights: these are turned, by the same operations as
// StandardizeMeasure's, completed for one example, and only then scaled and added; the columns behind the weights are added as they were kept.
func StandardizeCombine(b Batch, s *Standardized, factors Ptr, n int, sum Ptr) Launch {
	l := line("standardize", "standardize_combine", ceil(n, warp), 16*warp,
		b.args(s.Gain, s.Moments, s.Hat, s.Turns, I(s.Out), I(s.K), factors, s.Kept, I(s.Stride), I(n), sum)...)
	if s.fours() && n%4 == 0 && n >= combineMany {
		l.Name, l.Grid[0], l.Block[0] = "standardize_combine_fours", ceil(n, 4*warp), 8*warp
	}
	return l
}

// fours says that filters and rows begin at multiples of 16 bytes.
func (s *Standardized) fours() bool { return s.K%4 == 0 && s.Stride%4 == 0 && s.Kept%16 == 0 }
