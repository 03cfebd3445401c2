package kernels

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// groupnorm.cu has the same.
const normalizeThreads = 256

// Group normalizations read and write values in planes, or, as methods of Math, in pixels. A block has a slab of an example: whole groups.
//
// A thread adds up to normalizeRun numbers of a channel in float32, or in planes four times as many in four sums, and such sums in float64. What threads have is
// added in float64, in a fixed order. Of x, differences d from the first number of a thread's run are summed up, and their squares: so how large numbers are does
// not matter, only how far apart they lie. With u = 2⁻²⁴, runs of N numbers in sums of at most n, and the variance v, the mean errs by
// at most (n+1)·u times the mean |d|, and v by (n+2)·u times the mean d² and 2(n+1)·u times the mean of |d| times the distance of a run's first number from the
// mean. The first number is one of its run, so that the mean d² is at most (1+N)·v, and near 2v for numbers in no order.
const normalizeRun = 16

// GroupNormMeanError and GroupNormError bound the error of a group's mean, as a share of its deviation √v, and the relative error of √v, whatever
// the numbers are: (n+1)·√(1+N)·u, and half of (n+2)·(1+N)·u and 2(n+1)·√N·√(1+N)·u, with n = 16 and N = 64. They are for chosen numbers; those in
// no order have errors of a 30th of it.
const (
	GroupNormMeanError = (normalizeRun + 1) * 8.1 * 0x1p-24
	GroupNormError     = ((normalizeRun+2)*65 + 2*(normalizeRun+1)*64.6) / 2 * 0x1p-24
)

// MomentBytes is what GroupNorm leaves of an example for the way back: the mean of each group and 1/√(variance+ε).
func MomentBytes(op *ir.Op) int { return 16 * op.Groups }

// slab is how a group norm's blocks divide an example.
type slab struct {
	kernel   string // the end of its name
	channels int
	unit     int // of pixels; 0: planes
}

// slabs is how many blocks an example has.
func (s slab) slabs(op *ir.Op) int { return ceil(op.Shape[0], s.channels) }

// slabChannels is how many channels a slab has at most, unless it is one group: their sums lie in shared memory.
const slabChannels = 1024

// MostGroupChannels is how many channels a group may have, so that every GPU has room for the sums of one.
const MostGroupChannels = 1792

// FitsGroupNorm reports whether every GPU has room for the sums of a block's channels, in pixels.
func (m Math) FitsGroupNorm(op *ir.Op) bool { return m.pixelSlab(op).channels <= MostGroupChannels }

// upTo is the least multiple of n channels that gives a block so many numbers, or all channels.
func upTo(op *ir.Op, n, numbers int) int {
	pixels, channels := area(op.Shape)
	return min(channels, n*min(ceil(numbers, n*pixels), max(1, slabChannels/n)))
}

func planesSlab(op *ir.Op) slab {
	pixels, channels := area(op.Shape)
	name := "planes"
	if pixels%4 != 0 {
		name = "single"
	}
	return slab{kernel: name, channels: upTo(op, channels/op.Groups, 8192)}
}

// pixelSlab has whole groups, and 64 bytes or a multiple of it of each pixel: no more than that of large images, as what all blocks have at once should fit the
// second cache. Where that would be too many channels, it has 32 bytes, or 16.
func (m Math) pixelSlab(op *ir.Op) slab {
	_, channels := area(op.Shape)
	n := slabChannels + 1
	for units := 4; units > 0 && n > slabChannels; units /= 2 {
		n = channels / op.Groups
		for n%(units*m.unit()) != 0 && n < channels {
			n += channels / op.Groups
		}
	}
	return slab{kernel: device.Precision(m).String(), unit: m.unit(), channels: upTo(op, n, 16384)}
}

// launch is of a kernel that has so many float32 and two float64 in shared memory for each channel, and as many for a channel more in each place of a unit.
func (s slab) launch(name string, b Batch, op *ir.Op, floats int, args ...uint64) Launch {
	pixels, channels := area(op.Shape)
	places := s.channels
	if s.unit > 0 {
		places = padded(s.channels) + s.unit
	}
	return Launch{
		Module: "groupnorm", Name: name + "_" + s.kernel, Grid: [3]int{b.Capacity, s.slabs(op), 1}, Block: [3]int{normalizeThreads, 1, 1},
		Shared: (16 + 4*floats) * places,
		Args:   append(b.args(args...), I(s.channels), I(channels), I(channels/op.Groups), I(pixels)),
	}
}

func (s slab) forward(b Batch, op *ir.Op, act ir.Kind, x, weight, bias, y, moments Ptr) Launch {
	l := s.launch("group_norm", b, op, 3, x, weight, bias, y, moments, I(int(act)))
	l.Args = append(l.Args, D(op.Epsilon))
	return l
}

func (s slab) back(b Batch, op *ir.Op, w NormBack) Launch {
	return s.launch("group_norm_back", b, op, 5, w.X, w.Dy, w.Weight, w.Moments, w.Dx, flag(w.Add), I(int(w.Through)), w.Kept, I(w.Stride), w.Norm2,
		flag(op.Bias != ir.None))
}

// GroupNorm is y = (x−μ)/√(v+ε)·weight + bias with the mean μ and the variance v of each example's groups, which it
// writes to moments as μ and 1/√(v+ε), float64; bias 0 is none.
func GroupNorm(b Batch, op *ir.Op, x, weight, bias, y, moments Ptr) Launch {
	return GroupNormActivated(b, op, noActivation, x, weight, bias, y, moments)
}

// GroupNormActivated is GroupNorm and, unless act is none, the ReLU behind it.
func GroupNormActivated(b Batch, op *ir.Op, act ir.Kind, x, weight, bias, y, moments Ptr) Launch {
	return planesSlab(op).forward(b, op, act, x, weight, bias, y, moments)
}

// GroupNormActivated is the function of this name, in pixels: what is written is rounded once more, to the precision.
func (m Math) GroupNormActivated(b Batch, op *ir.Op, act ir.Kind, x, weight, bias, y, moments Ptr) Launch {
	return m.pixelSlab(op).forward(b, op, act, x, weight, bias, y, moments)
}

// GroupNormNorms is in how many parts GroupNormBackward gives an example's squared norm.
func GroupNormNorms(op *ir.Op) int { return planesSlab(op).slabs(op) }

// GroupNormNorms is the function of this name, in pixels.
func (m Math) GroupNormNorms(op *ir.Op) int { return m.pixelSlab(op).slabs(op) }

// GroupNormBackward computes gradients of examples, of which each is read once from DRAM. The relative error of a squared norm is below γ(2C/32+40) with
// u = 2⁻⁵³ and C channels.
func GroupNormBackward(b Batch, op *ir.Op, w NormBack) Launch {
	return planesSlab(op).back(b, op, w)
}

// GroupNormBackward is the function of this name, in pixels.
func (m Math) GroupNormBackward(b Batch, op *ir.Op, w NormBack) Launch {
	return m.pixelSlab(op).back(b, op, w)
}

// GroupNormStore is GroupNormBackward for the gradients that are kept alone, and their squared norm in one part, norm2[b]. Its blocks have all channels, at most
// MostGroupChannels.
func GroupNormStore(b Batch, op *ir.Op, x, dy, moments, kept Ptr, stride int, norm2 Ptr) Launch {
	s := planesSlab(op)
	s.channels = op.Shape[0]
	return s.back(b, op, NormBack{X: x, Dy: dy, Moments: moments, Kept: kept, Stride: stride, Norm2: norm2})
}
