package folder

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"sync"

	"github.com/privgrad/privgrad/datasets"
)

// Limits of one image: its file, its pixels and sides by its header, and how often a JPEG goes over its pixels, before
// anything is decoded. So no image takes much more time and memory than a large photograph: of memory 1 GB, for 2²⁵
// pixels of a progressive JPEG in four components. Lower limits would leave out photographs, and hide nothing more: of one's own
// data a run states neither time nor memory of reading. One that is above the large sizes is decoded alone, so
// that memory does not grow with the number of threads.
const (
	mostBytes, largeBytes   = 1 << 26, 1 << 22
	mostPixels, largePixels = 1 << 25, 1 << 22
	mostSide                = 1<<16 - 1 // as in JPEG
	mostScans               = 100       // of a JPEG; a progressive one has about ten
)

// errLarge is of every image beyond these limits.
var errLarge = fmt.Errorf("is too large: the most are %d MiB, %d million pixels, %d on a side, and %d scans of a JPEG", mostBytes>>20, mostPixels/1_000_000, mostSide, mostScans)

// A verdict is what became of an image. Only its owner may know.
type verdict int

const (
	asIs verdict = iota // it has the declared size
	resized
	oversized
	unreadable
	corrupt
)

// A decoder turns files into pixels.
type decoder struct {
	shape [3]int
	alone sync.Mutex // held while a large image is in memory
}

// read fills dst with the pixels of a file. What comes of it follows from that file alone. The error
// says what is wrong with one that is not read; who may hear of it depends on whose the file is.
func (d *decoder) read(name string, dst []uint8) (v verdict, why error) {
	defer func() {
		if recover() != nil { // a fault of a decoder, in a record that nobody may hear of
			clear(dst)
			v, why = corrupt, errors.New("is damaged: copy it again, or leave it out")
		}
	}()
	f, err := os.Open(name)
	if err != nil {
		return unreadable, datasets.Unread(err, nil)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return unreadable, datasets.Unread(err, nil)
	case !info.Mode().IsRegular():
		return unreadable, errors.New("is no file: give an image")
	case info.Size() > mostBytes:
		return oversized, errLarge
	case info.Size() > largeBytes:
		d.alone.Lock()
		defer d.alone.Unlock()
	}
	data, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return unreadable, datasets.Unread(err, nil)
	}
	return d.decode(data, dst, info.Size() > largeBytes)
}

// decode goes by the content, not by the name.
func (d *decoder) decode(data []byte, dst []uint8, alone bool) (verdict, error) {
	file := func() io.Reader { return bytes.NewReader(data) }
	header, whole := jpeg.DecodeConfig, jpeg.Decode
	var scans jpegHeader
	switch {
	case begins(data, pngStart):
		header, whole = png.DecodeConfig, png.Decode
	case begins(data, jpegStart):
		if scans = scanJPEG(data); scans.components == 4 {
			file = func() io.Reader { return marked(data) }
		}
	}
	c, err := header(file())
	if err == nil && (c.Width < 1 || c.Height < 1) {
		err = errors.New("it has no pixels")
	}
	switch {
	case err != nil:
		return corrupt, wrong(data, err)
	case max(c.Width, c.Height) > mostSide || int64(c.Width)*int64(c.Height) > mostPixels || scans.scans > mostScans:
		return oversized, errLarge
	case c.Width*c.Height > largePixels && !alone:
		d.alone.Lock()
		defer d.alone.Unlock()
	}
	img, err := whole(file())
	if err != nil {
		return corrupt, wrong(data, err)
	}
	fit(img, d.shape, dst)
	if c.Width != d.shape[2] || c.Height != d.shape[1] {
		return resized, nil
	}
	return asIs, nil
}

// A share is how much of a source line falls into a line of the result, in units that
// make the shares of each result add up to the number of source lines.
type share struct {
	from, to int
	weight   uint64
}

// shares cuts source lines into results, in the order of the source.
func shares(source, results int) []share {
	var all []share
	s, t := uint64(source), uint64(results)
	for i := range s {
		for j := i * t / s; j*s < (i+1)*t; j++ {
			all = append(all, share{int(i), int(j), min((i+1)*t, (j+1)*s) - max(i*t, j*s)})
		}
	}
	return all
}

// fit stretches an image to a shape: a value is the mean over the area of the source that
// it covers. Sums are of integers and rounded once, so that every machine gets the same
// bytes, and an image of that size stays as it is. What is transparent is over black.
// Gray has the weights of JPEG's luminance; a gray image has three equal colors.
func fit(img image.Image, shape [3]int, dst []uint8) {
	b, height, width := img.Bounds(), shape[1], shape[2]
	across, down := shares(b.Dx(), width), shares(b.Dy(), height)
	sums, line := make([]uint64, 3*height*width), make([]uint64, 3*width)
	row, read := image.NewRGBA(image.Rect(0, 0, b.Dx(), 1)), -1
	for _, y := range down {
		if y.from != read {
			read = y.from
			draw.Draw(row, row.Rect, img, image.Pt(b.Min.X, b.Min.Y+read), draw.Src)
			clear(line)
			for _, x := range across {
				p, to := row.Pix[4*x.from:][:3], line[3*x.to:][:3]
				to[0] += x.weight * uint64(p[0])
				to[1] += x.weight * uint64(p[1])
				to[2] += x.weight * uint64(p[2])
			}
		}
		for i, s := range line {
			sums[3*y.to*width+i] += y.weight * s
		}
	}
	area := uint64(b.Dx()) * uint64(b.Dy()) // in which all weights of a result add up
	for i := range height * width {
		s := sums[3*i:][:3]
		if shape[0] == 1 {
			dst[i] = uint8((19595*s[0] + 38470*s[1] + 7471*s[2] + area<<15) / (area << 16))
			continue
		}
		for c := range 3 {
			dst[c*height*width+i] = uint8((s[c] + area/2) / area)
		}
	}
}
