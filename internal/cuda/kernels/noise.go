package kernels

import (
	"slices"

	"github.com/privgrad/privgrad/internal/device"
)

// KeyBytes is the size of a key in device memory: the 8 words of a ChaCha20 key,
// uint32, as stream.Stream.KeyWords gives them.
const KeyBytes = 32

// releaseThreads draw a block of ChaCha20 each, which makes 8 draws. noiseThreads make one of a keystream, and a warp a draw of Draws.
const (
	releaseThreads = 128
	noiseThreads   = 64
	perBlock       = 8
	warp           = 32
)

// Noise is a draw of normals, rounded to integers: which of them, by the ChaCha20 stream of a key,
// the run's Draw and a tensor, and the scalars of a run that are their standard deviation and the step of their grid.
type Noise struct {
	Key       Ptr
	Table     Ptr // exact.Words
	Tensor    uint32
	Std, Step device.Slot
}

func release(name string, n int, args ...uint64) Launch {
	return line("noise", name, ceil(n, perBlock*releaseThreads), releaseThreads, args...)
}

// Release sets dst[i] = γ·(round(sum[i]/γ) + round(Z)) and then sum[i] = 0, i < n. dst is float32, sum float64, both at multiples
// of 16 bytes. Z is normal with the noise's deviation over γ, the
// step of its grid, and the result bit for bit that of exact.Sampler.Release64, rounded once to float32. Without a deviation, dst[i] = sum[i], rounded to float32.
//
// A draw is a function of key, draw, tensor and i alone. Rows of the table decide nearly all by 63 digits, and cells of it the
// others. Of draws that these leave open, 384 digits are used. These leave a draw
// open with a probability below 2⁻¹⁷⁵, and it is one of two neighbours then (docs/internals/gpu.md).
func Release(run, dst, sum Ptr, n int, z Noise) Launch {
	return release("release", n, run, dst, sum, I(n), z.Key, uint64(z.Tensor), I(int(z.Std)), I(int(z.Step)), z.Table, 0)
}

// GridRelease is Release of the gradients of an exact net, dst[i] = γ·(sum[i] + round(Z)), where sum is int64 and γ, also
// that of the noise, the grid step of the run's Clip.
func GridRelease(run, dst, sum Ptr, n int, z Noise) Launch {
	return release("grid_release", n, run, dst, sum, I(n), z.Key, uint64(z.Tensor), I(int(z.Std)), z.Table, 0)
}

// Descend is a Release or a GridRelease of n values to g that also does what Update does by device.SGD to parameters p, which
// saves a launch. It is false for any other launch.
func Descend(l Launch, n int, p, g Ptr) (Launch, bool) {
	last := len(l.Args) - 1
	if l.Module != "noise" || l.Args[last] != 0 || l.Args[1] != g || l.Args[3] != I(n) || p == g {
		return l, false
	}
	l.Args = slices.Clone(l.Args)
	l.Args[last] = p
	return l, true
}
