package features

import (
	"errors"
	"math"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/deskew"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/work"
)

// Images are rows of f.In() values each, channel by channel. Exactly one field is set.
type Images struct {
	Bytes  []uint8   // b stands for b/255
	Values []float32 // of [0, 1]
}

// notANumber is the half that a row without features is full of. Such a row has no
// gradient that could be clipped: it counts as zero.
const notANumber = 0x7e00

// Rows maps images to rows of f.Width() values of half precision (internal/half), on as many
// goroutines as threads. A row depends on its image alone: its bits are the same among
// other images, in another order and on more threads. An image that is not finite, or whose features
// are not, gives a row of NaN, and so does one on which a user's Func panics: whether
// a record has such an image must not show.
//
// progress, unless nil, gets 1 to 100, each once and one after the other.
func (f *Front) Rows(images Images, threads int, progress func(percent int)) []uint16 {
	rows := make([]uint16, (len(images.Bytes)+len(images.Values))/volume(f.In())*f.Width())
	f.fill(rows, images, threads, progress)
	return rows
}

// Fill is Rows into a slice of exactly their length, of images in one of the two forms of Images.
func (f *Front) Fill(rows []uint16, bytes []uint8, values []float32, threads int) {
	f.fill(rows, Images{Bytes: bytes, Values: values}, threads, nil)
}

func (f *Front) fill(rows []uint16, images Images, threads int, progress func(percent int)) {
	in, width := volume(f.In()), f.Width()
	n := len(rows) / width
	if images.Bytes != nil && images.Values != nil || n*in != len(images.Bytes)+len(images.Values) {
		fault.Raise(errors.New("images need whole rows in one field"))
	}
	fill(rows, notANumber) // until a row is made, and where none comes
	p := work.Meter{Total: n, Report: progress}
	if f.network != nil {
		fault.Raise(f.fillNetwork(rows, images, max(threads, 1), &p))
		p.Finish()
		return
	}
	together := min(mostTogether, max(n/(4*max(threads, 1)), 1)) // work for all threads
	if f.own != nil {
		together = 1 // a user's function may end its goroutine: then no other image is lost
	}
	err := work.Parallel(threads, (n+together-1)/together, func() func(i int) {
		values, list, work := make([]float32, together*in), make([][]uint16, 0, together), f.worker()
		return func(i int) {
			first, end := i*together, min((i+1)*together, n)
			list = list[:0]
			for k := first; k < end; k++ {
				if images.take(values[len(list)*in:][:in], k) {
					list = append(list, rows[k*width:(k+1)*width])
				}
			}
			work(list, values[:len(list)*in])
			p.Add(end - first)
		}
	})
	fault.Raise(err)
	p.Finish()
}

// mostTogether images go through a front end at a time: then whitening reads its megabytes of constants seldom.
const mostTogether = 16

// take copies image i and reports whether it is finite.
func (images Images) take(dst []float32, i int) bool {
	if images.Bytes != nil {
		for k, b := range images.Bytes[i*len(dst):][:len(dst)] {
			dst[k] = float32(b) / 255
		}
		return true
	}
	copy(dst, images.Values[i*len(dst):])
	return finite(dst)
}

func finite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

func fill(dst []uint16, v uint16) {
	for i := range dst {
		dst[i] = v
	}
}

// worker gives a function for one goroutine, from up to mostTogether finite images to rows. It may change the images.
func (f *Front) worker() func(rows [][]uint16, images []float32) {
	in := volume(f.In())
	if f.own != nil {
		out := make([]float32, f.Width())
		return func(rows [][]uint16, images []float32) {
			for k, row := range rows {
				clear(out) // of the row before: a function that leaves a value must not show that one
				if call(f.own, out, images[k*in:(k+1)*in]) != nil || !pack(row, out) {
					fill(row, notANumber)
				}
			}
		}
	}
	all := 0.
	for _, b := range f.blocks {
		all += b.weight
	}
	at, parts := 0, []func(rows [][]uint16, images []float32, ok []bool){}
	for _, b := range f.blocks {
		parts = append(parts, b.part(at, Scale*math.Sqrt(b.weight/all)))
		at += b.width()
	}
	upright := func([]float32) {}
	if f.spec.Deskew {
		upright = deskew.New(f.spec.Shape)
	}
	ok := make([]bool, mostTogether)
	return func(rows [][]uint16, images []float32) {
		for k := range rows {
			upright(images[k*in : (k+1)*in])
			ok[k] = true
		}
		for _, part := range parts {
			part(rows, images, ok)
		}
		for k, row := range rows {
			if !ok[k] {
				fill(row, notANumber)
			}
		}
	}
}

// pack rounds values to halves, and reports whether all are finite.
func pack(dst []uint16, values []float32) bool {
	const endless = 0x7c00
	ok := true
	for i, v := range values {
		dst[i] = half.FromFloat32(v)
		ok = ok && dst[i]&endless != endless
	}
	return ok
}

// call is f, of which a panic is an error.
func call(f Func, dst, image []float32) (err error) {
	defer fault.Recover(&err)
	f(dst, image)
	return nil
}

// part gives a function for one goroutine that writes a block's part of rows, from value at on, of the given norm. Where it
// is not finite, ok becomes false.
func (b *block) part(at int, norm float64) func(rows [][]uint16, images []float32, ok []bool) {
	size, whitened := b.width(), b.whitened()
	return func(rows [][]uint16, images []float32, ok []bool) {
		out := whitened(images, len(rows))
		for k, row := range rows {
			ok[k] = b.deliver(row[at:at+size], out[k*size:(k+1)*size], norm) && ok[k]
		}
	}
}

// whitened gives a function for one goroutine, from n images to their whitened channels in the columns that are kept, position
// by position. What it returns is good until the next call.
func (b *block) whitened() func(images []float32, n int) []float32 {
	size, kept := b.width(), b.keep*b.channels // of a line of the grid
	maps, apply, whiten := make([]float32, b.channels*b.rows*b.cols), b.worker(), b.whiten()
	left, out := make([]float32, mostTogether*size), make([]float32, mostTogether*size)
	return func(images []float32, n int) []float32 {
		for k := range n {
			in := len(images) / n
			apply(maps, images[k*in:(k+1)*in])
			for y := range b.rows {
				copy(left[k*size+y*kept:][:kept], maps[y*b.cols*b.channels:])
			}
		}
		whiten(out[:n*size], left[:n*size])
		return out[:n*size]
	}
}

// deliver writes an image's values, which it may change, channel by channel and with a given norm. It reports whether they
// are finite.
func (b *block) deliver(dst []uint16, values []float32, norm float64) bool {
	b.weigh(values)
	square := vec.SumSquares(values)
	if square-square != 0 {
		return false
	}
	factor := 0.
	if square > 0 {
		factor = norm / math.Sqrt(square)
	}
	c, kept := b.channels, b.rows*b.keep
	for k := range c {
		to := dst[k*kept:][:kept]
		for o := range to {
			to[o] = half.FromFloat32(float32(float64(values[o*c+k]) * factor))
		}
	}
	return true
}

// weigh gives the middle column, whose features stand in it twice, the weight of one
// of them. A row's products with others are then those of whole rows, up to a factor.
func (b *block) weigh(out []float32) {
	if !b.middle() {
		return
	}
	for y := range b.rows {
		vec.Scale(out[((y+1)*b.keep-1)*b.channels:][:b.channels], math.Sqrt2/2)
	}
}

// middle reports whether the last column that is kept is its own mirror image.
func (b *block) middle() bool { return b.keep != b.cols && b.cols%2 == 1 }
