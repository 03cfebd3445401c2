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

// Standardize writes W to made, which lies as w does, out×k, and μ, s and S of each filter to moments. It reads no run: parameters belong to no
// example. A sum takes tap j in lane j mod 256, in order, then the lanes in a tree of halves.
func Standardize(out, k int, w, gain, made, moments Ptr) Launch {
	return line("standardize", "standardize", out, standardizeThreads, w, gain, made, moments, I(k))
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
