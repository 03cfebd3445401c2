package features

import (
	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/wavelets"
)

// The scattering transform (Bruna and Mallat 2013) of order two with wavelets of two
// scales and eight angles: an image's moduli of wavelet coefficients, those of these
// moduli, and an average of all of them. Grids are centred, so that the features of a
// mirror image are the mirrored features with angles exchanged.

const (
	angles       = 8
	scatterMaps  = 1 + 2*angles + angles*angles // of one color
	fineTaps     = 9                            // side of the wavelets of scale 0, at full resolution
	coarseTaps   = 16                           // of scale 1, whose results have half the resolution
	scatterSide  = 4                            // pixels to a position, each way
	scatterLeast = 8                            // padding by reflection needs as many pixels
	poolFrom     = 8                            // a grid of as many positions, and even, is averaged by two
)

var scatterKind = kind{
	name:   "scatter",
	weight: .3,
	damp:   .001,
	check: func(shape [3]int) string {
		if shape[1]%scatterSide != 0 || shape[2]%scatterSide != 0 || shape[1] < scatterLeast || shape[2] < scatterLeast {
			return "whose height and width are multiples of 4, and 8 or more"
		}
		return ""
	},
	depth:  func(shape [3]int) int { return shape[0] * scatterMaps },
	shapes: func([3]int) map[string][]int { return nil },
	fit:    func([3]int, func(float64)) (map[string][]float32, error) { return nil, nil },
	open: func(shape [3]int, mirror bool, _ map[string][]float32) layer {
		s := newScatter(shape, mirror)
		l := layer{channels: s.shape[0] * scatterMaps, rows: s.rows, cols: s.cols, keep: s.cols, worker: s.worker}
		if mirror {
			l.keep = (s.cols + 1) / 2
		}
		return l
	},
	program: func(b *fixed.Builder, shape [3]int, mirror bool, _ map[string][]float32, image ir.Value) ir.Value {
		return newScatter(shape, mirror).program(b, image)
	},
}

// scatter holds what goroutines share.
type scatter struct {
	shape      [3]int
	mirror     bool
	rows, cols int // of the grid
	pool       int // positions each way that are averaged to one of these

	wave0, wave1 gemm.PackedA // real parts, then imaginary parts, of wavelets at every angle
	taps0, taps1 *gemm.Taps
	pad0, pad1   []int32 // places in a plane, for every place in what the taps read

	low0, low1 gemm.PackedB // averages over the grid, from full and from half resolution
}

func newScatter(shape [3]int, mirror bool) *scatter {
	height, width := shape[1], shape[2]
	s := &scatter{shape: shape, mirror: mirror, rows: height / scatterSide, cols: width / scatterSide, pool: 1}
	if s.rows >= poolFrom && s.cols >= poolFrom && s.rows%2 == 0 && s.cols%2 == 0 {
		s.pool = 2
		s.rows, s.cols = s.rows/2, s.cols/2
	}
	gemm.PackA(&s.wave0, wavelets.Morlet(angles, 0, fineTaps))
	gemm.PackA(&s.wave1, wavelets.Morlet(angles, 1, coarseTaps))
	s.taps0, s.pad0 = fullTaps(height, width)
	s.taps1, s.pad1 = halfTaps(height, width)
	low0, low1 := lows(height, width, s.pool)
	gemm.PackB(&s.low0, low0)
	gemm.PackB(&s.low1, low1)
	return s
}

// lows are the averages from full and from half resolution.
func lows(height, width, pool int) (low0, low1 gemm.Matrix) {
	return wavelets.Average(height, width, 12, 4, 1.6, pool), wavelets.Average(height/2, width/2, 8, 2, .8, pool)
}

// fullTaps are those of a wavelet at every pixel of a plane with a margin.
func fullTaps(height, width int) (*gemm.Taps, []int32) {
	const margin = (fineTaps - 1) / 2
	pitch := width + 2*margin
	var offsets []int
	for i := range fineTaps * fineTaps {
		offsets = append(offsets, i/fineTaps*pitch+i%fineTaps)
	}
	taps := gemm.NewTaps(offsets, height, width, pitch)
	places := make([]int32, max(taps.Reach(), (height+2*margin)*pitch))
	for i := range places {
		y, x := min(i/pitch, height+2*margin-1), i%pitch
		places[i] = int32(ir.Reflected(y-margin, height)*width + ir.Reflected(x-margin, width))
	}
	return taps, places
}

// halfTaps are those of a wavelet at every second pixel each way. The plane with its margin lies
// in four parts, by whether rows and columns are even: what a tap reads at successive
// outputs then lies side by side.
func halfTaps(height, width int) (*gemm.Taps, []int32) {
	const margin = (coarseTaps - 2) / 2
	rows, pitch := height/2+margin, width/2+margin
	var offsets []int
	for i := range coarseTaps * coarseTaps {
		y, x := i/coarseTaps, i%coarseTaps
		offsets = append(offsets, (y%2*2+x%2)*rows*pitch+y/2*pitch+x/2)
	}
	taps := gemm.NewTaps(offsets, height/2, width/2, pitch)
	places := make([]int32, max(taps.Reach(), 4*rows*pitch))
	for i := range min(len(places), 4*rows*pitch) {
		part, rest := i/(rows*pitch), i%(rows*pitch)
		y, x := rest/pitch*2+part/2, rest%pitch*2+part%2
		places[i] = int32(ir.Reflected(y-margin, height)*width + ir.Reflected(x-margin, width))
	}
	return taps, places
}

// mirrored is the map of a mirror image that has the values of map k of an image.
func mirrored(k int) int {
	turn := func(a int) int { return (angles - a) % angles }
	switch first := k - 1 - 2*angles; {
	case k == 0:
		return 0
	case k <= angles:
		return 1 + turn(k-1)
	case first < 0:
		return 1 + angles + turn(k-1-angles)
	default:
		return 1 + 2*angles + turn(first/angles)*angles + turn(first%angles)
	}
}

func (s *scatter) worker() func(dst, image []float32) {
	plane := s.shape[1] * s.shape[2]
	quarter, grid := plane/4, s.rows*s.cols
	padded0, padded1 := make([]float32, len(s.pad0)), make([]float32, len(s.pad1))
	waves := make([]float32, 2*angles*plane)
	full := make([]float32, (1+angles)*plane)          // the plane and its moduli of scale 0
	half := make([]float32, angles*(1+angles)*quarter) // those of scale 1, of the plane and of its moduli
	maps := make([]float32, scatterMaps*grid)
	var first, second gemm.PackedA

	coarse := func(dst, src []float32) {
		gather(padded1, src, s.pad1)
		gemm.Correlate(waves, quarter, &s.wave1, padded1, s.taps1, false, nil, false)
		vec.Modulus(dst, waves[:angles*quarter], waves[angles*quarter:2*angles*quarter])
	}
	return func(dst, image []float32) {
		for c := range s.shape[0] {
			x := full[:plane]
			copy(x, image[c*plane:])
			gather(padded0, x, s.pad0)
			gemm.Correlate(waves, plane, &s.wave0, padded0, s.taps0, false, nil, false)
			vec.Modulus(full[plane:], waves[:angles*plane], waves[angles*plane:])
			for i := range 1 + angles { // the plane itself, then each of its moduli
				coarse(half[i*angles*quarter:][:angles*quarter], full[i*plane:][:plane])
			}
			gemm.PackA(&first, gemm.RowMajor(full, 1+angles, plane))
			gemm.PackA(&second, gemm.RowMajor(half, angles*(1+angles), quarter))
			gemm.MulPacked(gemm.RowMajor(maps, 1+angles, grid), &first, &s.low0, false)
			gemm.MulPacked(gemm.RowMajor(maps[(1+angles)*grid:], angles*(1+angles), grid), &second, &s.low1, false)
			s.arrange(dst, maps, c)
		}
	}
}

// arrange writes the maps of a color position by position.
func (s *scatter) arrange(dst, maps []float32, color int) {
	grid, channels := s.rows*s.cols, s.shape[0]*scatterMaps
	for k := range scatterMaps {
		from, other := maps[k*grid:][:grid], maps[mirrored(k)*grid:][:grid]
		for o, v := range from {
			if s.mirror {
				v = .5 * (v + other[o-o%s.cols+s.cols-1-o%s.cols])
			}
			dst[o*channels+color*scatterMaps+k] = v
		}
	}
}

func gather(dst, src []float32, places []int32) {
	for i, p := range places {
		dst[i] = src[p]
	}
}

// program is worker and what follows it up to the columns that are kept.
func (s *scatter) program(b *fixed.Builder, image ir.Value) ir.Value {
	colors, height, width := s.shape[0], s.shape[1], s.shape[2]
	low0, low1 := lows(height, width, s.pool)
	plane, quarter := []int{colors * (1 + angles), height, width}, []int{colors * (1 + angles) * angles, height / 2, width / 2}
	fine := s.moduli(b, image, s.shape[:], "scatter.wave0", wavelets.Morlet(angles, 0, fineTaps), ir.Square(fineTaps, 1, 0), (fineTaps-1)/2)
	full := b.Concat(colors, plane, image, fine)
	half := s.moduli(b, full, plane, "scatter.wave1", wavelets.Morlet(angles, 1, coarseTaps), ir.Square(coarseTaps, 2, 0), (coarseTaps-2)/2)
	grid := []int{colors * scatterMaps, s.rows, s.cols}
	maps := b.Concat(colors, grid,
		b.Planes(full, plane, ir.Window{H: height, W: width, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, "scatter.low0", columns(low0)),
		b.Planes(half, quarter, ir.Window{H: height / 2, W: width / 2, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, "scatter.low1", columns(low1)))
	if !s.mirror {
		return maps
	}
	keep := (s.cols + 1) / 2
	var first, second []int32
	for i := range colors * scatterMaps * s.rows * keep {
		line, x := i/keep, i%keep
		k, y := line/s.rows, line%s.rows
		first = append(first, int32(line*s.cols+x))
		second = append(second, int32(((k-k%scatterMaps+mirrored(k%scatterMaps))*s.rows+y)*s.cols+s.cols-1-x))
	}
	return b.HalfSum(maps, grid, []int{colors * scatterMaps, s.rows, keep}, first, second)
}

// moduli are those of the wavelet coefficients of every channel.
func (s *scatter) moduli(b *fixed.Builder, x ir.Value, shape []int, name string, waves gemm.Matrix, w ir.Window, margin int) ir.Value {
	padded := []int{shape[0], shape[1] + 2*margin, shape[2] + 2*margin}
	x = b.Add(ir.Op{Kind: ir.Reflect, In: []ir.Value{x}, Shape: shape, Out: padded,
		Window: ir.Window{PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin}})
	x = b.Planes(x, padded, w, name, waves.Data)
	rows, cols := w.Out(padded[1], padded[2])
	return b.Add(ir.Op{Kind: ir.Modulus, In: []ir.Value{x}, Groups: shape[0],
		Shape: []int{shape[0] * 2 * angles, rows, cols}, Out: []int{shape[0] * angles, rows, cols}})
}

// columns are a matrix's, one after the other.
func columns(m gemm.Matrix) []float32 {
	all := make([]float32, 0, len(m.Data))
	n := m.Cols
	for c := range n {
		for i := c; i < len(m.Data); i += n {
			all = append(all, m.Data[i])
		}
	}
	return all
}
