package l2p

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/privgrad/privgrad/reproduce"
)

// A plane shows runs over the contours of a loss of two parameters.
type plane struct {
	loss    func(x, y float64) float64
	bottom  float64 // least loss
	least   [2]float64
	x, y    [2]float64 // the frame
	all     [][2]float64
	sampled [][][2]float64
}

// frame fits the bulk of the runs of a figure, the start and the least loss.
func (p *plane) frame(rs reproduce.Records) {
	for k, side := range []*[2]float64{&p.x, &p.y} {
		var values []float64
		for i := range rs {
			if v := [2]*float64{rs[i].Theta1, rs[i].Theta2}[k]; v != nil {
				values = append(values, *v)
			}
		}
		slices.Sort(values)
		low, high := min(p.least[k], 1), max(p.least[k], 1)
		if n := len(values); n > 0 {
			low, high = min(low, values[n/20]), max(high, values[n-1-n/20])
		}
		margin := 0.1 * (high - low)
		*side = [2]float64{low - margin, high + margin}
	}
}

func (p *plane) inside(q [2]float64) bool {
	return q[0] >= p.x[0] && q[0] <= p.x[1] && q[1] >= p.y[0] && q[1] <= p.y[1]
}

// Grid of the contours (plotter.GridXYZ).
const planeCells = 60

// Dims, X, Y and Z are the grid.
func (p *plane) Dims() (c, r int)   { return planeCells + 1, planeCells + 1 }
func (p *plane) X(c int) float64    { return p.x[0] + (p.x[1]-p.x[0])*float64(c)/planeCells }
func (p *plane) Y(r int) float64    { return p.y[0] + (p.y[1]-p.y[0])*float64(r)/planeCells }
func (p *plane) Z(c, r int) float64 { return p.loss(p.X(c), p.Y(r)) }

var (
	shade  = color.NRGBA{0, 90, 160, 28}
	orange = color.RGBA{225, 120, 30, 255}
)

const (
	cloudName, sampleName, leastName, startName = "all runs", "three runs", "least loss", "start"
)

// planeNames are those of its legend.
var planeNames = []string{cloudName, sampleName, leastName, startName}

func (p *plane) draw(to *plot.Plot, thumbs map[string]plot.Thumbnailer) error {
	var levels []float64
	top := 0.0
	for _, x := range p.x {
		for _, y := range p.y {
			top = max(top, p.loss(x, y)-p.bottom)
		}
	}
	for i := 1; i <= 8; i++ { // evenly spaced in the distance from the least loss
		levels = append(levels, p.bottom+top*math.Pow(float64(i)/9, 2))
	}
	c := plotter.NewContour(p, levels, nil)
	c.LineStyles[0].Color, c.LineStyles[0].Width = color.Gray{150}, vg.Points(0.7)
	to.Add(c)

	points := func(of [][2]float64) (xys plotter.XYs) {
		for _, q := range of {
			if p.inside(q) {
				xys = append(xys, plotter.XY{X: q[0], Y: q[1]})
			}
		}
		return xys
	}
	marks := func(name string, of [][2]float64, colour color.Color, radius float64, shape draw.GlyphDrawer) error {
		xys := points(of)
		if len(xys) == 0 {
			return nil
		}
		s, err := plotter.NewScatter(xys)
		if err != nil {
			return err
		}
		s.Color, s.Radius, s.Shape = colour, vg.Points(radius), shape
		to.Add(s)
		thumbs[name] = s
		return nil
	}
	if err := marks(cloudName, p.all, shade, 3.5, draw.CircleGlyph{}); err != nil {
		return err
	}
	for _, path := range p.sampled {
		for len(path) > 1 { // the stretches inside the frame
			n := 0
			for n < len(path) && p.inside(path[n]) {
				n++
			}
			if n > 1 {
				l, err := plotter.NewLine(points(path[:n]))
				if err != nil {
					return err
				}
				l.Color, l.Width = orange, vg.Points(1)
				to.Add(l)
				thumbs[sampleName] = l
			}
			path = path[min(n+1, len(path)):]
		}
	}
	if err := marks(startName, [][2]float64{{1, 1}}, color.Black, 3, draw.SquareGlyph{}); err != nil {
		return err
	}
	if err := marks(leastName, [][2]float64{p.least}, color.RGBA{200, 40, 50, 255}, 4, draw.CrossGlyph{}); err != nil {
		return err
	}
	to.X.Min, to.X.Max, to.Y.Min, to.Y.Max = p.x[0], p.x[1], p.y[0], p.y[1]
	return nil
}
