package report

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// draw draws the run's chart as a PNG.
func (r *run) draw(w io.Writer) (err error) {
	// The plotting library panics on ranges it cannot tick.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("plotting: %v", r)
		}
	}()
	c := r.chart()
	fig := plot.New()
	fig.Title.Text = r.Title() + "\n" + r.Budget()
	if l := r.Label(); l != "" {
		fig.Title.Text += "\n" + l
	}
	fig.Title.Padding = vg.Points(8)
	x, y := c.axes()
	for _, a := range []struct {
		to   *plot.Axis
		from axis
		name string
	}{{&fig.X, x, c.X}, {&fig.Y, y, c.Y.name}} {
		a.to.Min, a.to.Max, a.to.Label.Text, a.to.Tick.Marker = a.from.low, a.from.high, a.name, a.from
		a.to.Padding = 0
	}
	points := make(plotter.XYs, len(c.Lines[0].Points))
	for i, q := range c.Lines[0].Points {
		points[i] = plotter.XY{X: q[0], Y: q[1]}
	}
	lines, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	lines.Color = color.RGBA{B: 160, G: 90, A: 255}
	lines.Width = vg.Points(1.5)
	marks.Color, marks.Shape, marks.Radius = lines.Color, draw.CircleGlyph{}, vg.Points(2.5)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	fig.Add(grid, lines, marks)
	picture, err := fig.WriterTo(6*vg.Inch, 4*vg.Inch, "png")
	if err != nil {
		return err
	}
	_, err = picture.WriteTo(w)
	return err
}

// Ticks is of plot.Ticker.
func (a axis) Ticks(_, _ float64) (all []plot.Tick) {
	for _, t := range a.ticks() {
		all = append(all, plot.Tick{Value: t, Label: a.name(t)})
	}
	return all
}
