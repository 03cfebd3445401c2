package nn

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Init fills the weights of one layer, given in PyTorch's layout. The fans are
// the numbers of inputs and outputs that one weight's layer connects, times
// the window of a convolution.
type Init func(name string, fanIn, fanOut int, weights []float32)

// He draws from U(−a, a) with a = √(6/fanIn), for ReLU layers
// (He et al. 2015, arXiv 1502.01852, equation 10, as a uniform distribution).
func He(seed uint64) Init {
	return func(name string, fanIn, _ int, w []float32) { uniform(seed, name, 6/float64(fanIn), w) }
}

// Glorot draws from U(−a, a) with a = √(6/(fanIn+fanOut)), for tanh layers
// (Glorot and Bengio 2010, equation 16).
func Glorot(seed uint64) Init {
	return func(name string, fanIn, fanOut int, w []float32) { uniform(seed, name, 6/float64(fanIn+fanOut), w) }
}

// Zeros starts at the origin, where the loss of a linear model is known
// without looking at data.
func Zeros(_ string, _, _ int, w []float32) { clear(w) }

// uniform draws from U(−√a2, √a2). The stream follows from the seed and the
// name alone, so that a layer's weights do not depend on its neighbours. 2u−1
// is exact and the rest is one multiplication and one rounding, so that every
// platform gets the same bits.
func uniform(seed uint64, name string, a2 float64, w []float32) {
	key := sha256.Sum256(fmt.Appendf(nil, "%d/%s", seed, name))
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:16])))
	a := math.Sqrt(a2)
	for i := range w {
		w[i] = float32(a * (2*r.Float64() - 1))
	}
}
