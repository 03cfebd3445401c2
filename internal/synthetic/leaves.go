package synthetic

import "math"

const (
	leafCount = 40  // leaves of an image; most of the first ones end up covered
	leafLeast = 2.  // smallest radius, in pixels
	leafMost  = 16. // largest
	leafShade = .6  // most that the brightness changes over a leaf
	leafColor = .25 // how far channels differ from their common brightness
	fine      = 2   // fine pixels to a pixel, each way
)

// Leaves draws discs, ellipses and rectangles that cover one another, with radii of
// density r⁻³, as the dead leaves model has for images that look the same at every
// scale. Each has a color and a weak gradient.
func Leaves(shape [3]int) Source {
	return &leaves{shape: shape, canvas: make([]float64, shape[0]*shape[1]*shape[2]*fine*fine), color: make([]float64, shape[0])}
}

type leaves struct {
	shape  [3]int
	canvas []float64
	color  []float64
}

func (l *leaves) Draw(dst []float32, seed, i uint64) {
	u := newUniforms(seed, i)
	l.mix(u)
	plane := l.shape[1] * l.shape[2] * fine * fine
	for c, v := range l.color {
		for k := range plane {
			l.canvas[c*plane+k] = v
		}
	}
	for range leafCount {
		l.leaf(u)
	}
	height, width := l.shape[1], l.shape[2]
	for c := range l.shape[0] {
		for y := range height {
			for x := range width {
				sum := 0.
				for dy := range fine {
					from := (c*height*fine+y*fine+dy)*width*fine + x*fine
					for _, v := range l.canvas[from : from+fine] {
						sum += v
					}
				}
				dst[(c*height+y)*width+x] = float32(clamp(sum / (fine * fine)))
			}
		}
	}
}

// mix draws a color.
func (l *leaves) mix(u uniforms) {
	common := u.next()
	for c := range l.color {
		l.color[c] = clamp(common + float64(leafColor*u.symmetric()))
	}
}

// leaf covers what is there with one more leaf.
func (l *leaves) leaf(u uniforms) {
	height, width := l.shape[1]*fine, l.shape[2]*fine
	const ratio = (leafLeast / leafMost) * (leafLeast / leafMost)
	radius := fine * leafLeast / math.Sqrt(1-float64(u.next()*(1-ratio)))
	cy, cx := float64(u.next()*float64(height)), float64(u.next()*float64(width))
	cos, sin := u.direction()
	aspect := .3 + float64(.7*u.next())
	round, along := u.next() < .5, u.next() < .5
	l.mix(u)
	shade := float64((u.next() - .5) * leafShade)

	across := float64(aspect * radius)
	wide := float64(radius*math.Abs(cos)) + float64(across*math.Abs(sin)) // half of what the square or ellipse can take, and below a pixel more
	tall := float64(radius*math.Abs(sin)) + float64(across*math.Abs(cos))
	y0, y1 := max(int(cy-tall), 0), min(int(cy+tall)+2, height)
	x0, x1 := max(int(cx-wide), 0), min(int(cx+wide)+2, width)
	for y := y0; y < y1; y++ {
		dy := float64(y) - cy
		for x := x0; x < x1; x++ {
			dx := float64(x) - cx
			a := float64(dx*cos) + float64(dy*sin)
			b := float64(dy*cos) - float64(dx*sin)
			if math.Abs(a) >= radius || math.Abs(b) >= across { // most pixels, before a division; only then a quotient is rounded to 1 or more
				continue
			}
			a, b = a/radius, b/across
			if round && float64(a*a)+float64(b*b) >= 1 {
				continue
			}
			slope := b
			if along {
				slope = a
			}
			for c, v := range l.color {
				l.canvas[(c*height+y)*width+x] = v + float64(shade*slope)
			}
		}
	}
}
