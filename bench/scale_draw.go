package bench

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Draw writes a picture: for each sweep a panel of the time per record, and one of memory beyond the table where it is known.
// A band shows what lies within the limit of the first entry.
func (r *ScaleResult) Draw(w io.Writer, format string) error {
	var panels []*plot.Plot
	for i := range r.Sweeps {
		s := &r.Sweeps[i]
		cost, memory := make(plotter.XYs, len(s.Entries)), make(plotter.XYs, 0, len(s.Entries))
		var ticks []plot.Tick
		for k, e := range s.Entries {
			x, label := s.size(&e)
			ticks = append(ticks, plot.Tick{Value: x, Label: label})
			cost[k] = plotter.XY{X: x, Y: 1e6 * s.Entries[0].RecordSeconds * e.OverFirst}
			if e.Beyond != nil {
				memory = append(memory, plotter.XY{X: x, Y: float64(*e.Beyond) / (1 << 20)})
			}
		}
		title := fmt.Sprintf("%s, batch %d", s.Model, s.Entries[0].Batch)
		if s.Sweep == growBatch {
			title = fmt.Sprintf("%s, %d records", s.Model, s.Entries[0].Records)
		}
		panel, err := s.panel(title, "µs per record", r.Limit, cost, ticks)
		if err != nil {
			return err
		}
		panels = append(panels, panel)
		if len(memory) < len(s.Entries) {
			continue
		}
		if panel, err = s.panel(title, "MiB beyond the table", r.Limit, memory, ticks); err != nil {
			return err
		}
		panels = append(panels, panel)
	}
	return drawPanels(w, format, 2.6*vg.Inch, panels)
}

// size is what grows.
func (s *ScaleSweep) size(e *ScaleEntry) (x float64, label string) {
	n := e.Records
	if s.Sweep == growBatch {
		n = e.Batch
	}
	return float64(n), fmt.Sprint(n)
}

func (s *ScaleSweep) panel(title, what string, limit float64, points plotter.XYs, ticks []plot.Tick) (*plot.Plot, error) {
	fig := plot.New()
	fig.Title.Text, fig.Y.Label.Text, fig.X.Label.Text = title, what, "expected batch"
	if s.Sweep != growBatch {
		fig.X.Label.Text = "records in the table"
	}
	most := points[0].Y * (1 + limit)
	fig.X.Min, fig.X.Max = points[0].X, points[0].X
	for _, p := range points {
		most = max(most, p.Y)
		fig.X.Min, fig.X.Max = min(fig.X.Min, p.X), max(fig.X.Max, p.X)
	}
	fig.X.Min, fig.X.Max = fig.X.Min/1.5, fig.X.Max*1.5
	fig.X.Scale, fig.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks)
	fig.Y.Min, fig.Y.Max = 0, 1.2*most

	low, high := points[0].Y*(1-limit), points[0].Y*(1+limit)
	band, err := plotter.NewPolygon(plotter.XYs{{X: fig.X.Min, Y: low}, {X: fig.X.Max, Y: low}, {X: fig.X.Max, Y: high}, {X: fig.X.Min, Y: high}})
	if err != nil {
		return nil, err
	}
	band.Color, band.LineStyle.Width = color.RGBA{225, 235, 245, 255}, 0
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, err
	}
	line.Color, dots.Color, dots.Shape = colours[0], colours[0], draw.CircleGlyph{}
	labels := make([]string, len(points))
	for i, p := range points {
		labels[i] = fmt.Sprintf("%.3g", p.Y)
	}
	text, err := plotter.NewLabels(plotter.XYLabels{XYs: points, Labels: labels})
	if err != nil {
		return nil, err
	}
	for i := range text.TextStyle {
		text.TextStyle[i].XAlign = draw.XCenter
	}
	text.Offset = vg.Point{Y: vg.Points(7)}
	fig.Add(band, line, dots, text)
	return fig, nil
}
