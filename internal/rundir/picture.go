package rundir

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/privgrad/privgrad/internal/durable"
)

// Plot is a line through points.
type Plot struct {
	Title, X, Y string
	Points      [][2]float64
}

// WritePicture draws the plot; one without points leaves no file.
func (d Dir) WritePicture(p Plot) (err error) {
	// The plotting library panics on ranges it cannot tick.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("plotting: %v", r)
		}
	}()
	if len(p.Points) == 0 {
		return nil
	}
	points := make(plotter.XYs, len(p.Points))
	for i, q := range p.Points {
		points[i] = plotter.XY{X: q[0], Y: q[1]}
	}
	fig := plot.New()
	fig.Title.Text, fig.X.Label.Text, fig.Y.Label.Text = p.Title, p.X, p.Y
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color = color.RGBA{B: 160, G: 90, A: 255}
	line.Width = vg.Points(1.5)
	marks.Color = line.Color
	fig.Add(plotter.NewGrid(), line, marks)
	w, err := fig.WriterTo(6*vg.Inch, 4*vg.Inch, "png")
	if err != nil {
		return err
	}
	return durable.WriteFile(d.Path(Picture), func(out io.Writer) error { _, err := w.WriteTo(out); return err })
}
