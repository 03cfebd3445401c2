package synthetic

import "math"

// pinkColor is how much of each channel's own noise is added to the common one.
const pinkColor = .25

// Pink draws noise whose amplitude falls as f^-1.5 with the frequency f, as in
// "Learning to See by Looking at Noise" (Baradad et al. 2021), brought to [0, 1] image
// by image.
func Pink(shape [3]int) Source {
	height, width := shape[1], shape[2]
	p := &pink{shape: shape, amplitude: make([]float64, height*width)}
	for y := range height {
		for x := range width {
			fy, fx := min(y, height-y), min(x, width-x)
			f := math.Sqrt(float64(max(fy*fy+fx*fx, 1)))
			p.amplitude[y*width+x] = 1 / float64(f*math.Sqrt(f))
		}
	}
	p.cosY, p.sinY = turns(height)
	p.cosX, p.sinX = turns(width)
	p.re, p.im = make([]float64, height*width), make([]float64, height*width)
	p.common, p.own = make([]float64, height*width), make([]float64, height*width)
	p.image = make([]float64, shape[0]*height*width)
	return p
}

type pink struct {
	shape                  [3]int
	amplitude              []float64
	cosY, sinY, cosX, sinX []float64
	re, im                 []float64
	common, own, image     []float64
}

func (p *pink) Draw(dst []float32, seed, i uint64) {
	u := newUniforms(seed, i)
	plane := p.shape[1] * p.shape[2]
	p.field(p.common, u)
	least, most := math.Inf(1), math.Inf(-1)
	for c := range p.shape[0] {
		if p.shape[0] > 1 {
			p.field(p.own, u)
		}
		for k, v := range p.common {
			if p.shape[0] > 1 {
				v += float64(pinkColor * p.own[k])
			}
			p.image[c*plane+k] = v
			least, most = min(least, v), max(most, v)
		}
	}
	for k, v := range p.image {
		dst[k] = float32((v - least) / (most - least))
	}
}

// field is the real part of the inverse Fourier transform of a random spectrum. Each
// part of a coefficient is a sum of four uniform numbers, near enough a normal one.
func (p *pink) field(dst []float64, u uniforms) {
	height, width := p.shape[1], p.shape[2]
	re, im := make([]float64, width), make([]float64, width)
	for y := range height {
		for x := range width {
			a := p.amplitude[y*width+x]
			re[x] = float64(a * (u.symmetric() + u.symmetric() + u.symmetric() + u.symmetric()))
			im[x] = float64(a * (u.symmetric() + u.symmetric() + u.symmetric() + u.symmetric()))
		}
		for x := range width {
			r, s := 0., 0.
			for k, turn := 0, 0; k < width; k++ {
				r += float64(re[k]*p.cosX[turn]) - float64(im[k]*p.sinX[turn])
				s += float64(re[k]*p.sinX[turn]) + float64(im[k]*p.cosX[turn])
				if turn += x; turn >= width {
					turn -= width
				}
			}
			p.re[y*width+x], p.im[y*width+x] = r, s
		}
	}
	for y := range height {
		for x := range width {
			r := 0.
			for k, turn := 0, 0; k < height; k++ {
				r += float64(p.re[k*width+x]*p.cosY[turn]) - float64(p.im[k*width+x]*p.sinY[turn])
				if turn += y; turn >= height {
					turn -= height
				}
			}
			dst[y*width+x] = r
		}
	}
}
