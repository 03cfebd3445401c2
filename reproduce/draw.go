package reproduce

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette has a colour for every line of a picture.
var palette = []color.RGBA{
	{0, 90, 160, 255}, {225, 120, 30, 255}, {40, 150, 70, 255}, {200, 40, 50, 255}, {130, 80, 180, 255}, {140, 90, 70, 255},
	{225, 110, 190, 255}, {20, 170, 190, 255}, {170, 160, 20, 255}, {110, 110, 110, 255}, {90, 190, 240, 255}, {0, 0, 0, 255},
}

// A chart is one panel of a picture.
type chart struct {
	title, x, y string
	log         bool     // the horizontal axis
	logY        bool     // the vertical axis, of values above 0
	names       []string // of the horizontal values 0, 1, …, where they are no numbers
	lines       []line
	plane       *plane // in the place of lines
}

// legend lists what has a name.
func (c chart) legend() (names []string) {
	for _, l := range c.lines {
		names = append(names, l.name)
	}
	if c.plane != nil {
		names = append(names, c.plane.names()...)
	}
	return names
}

// A line has bands where low and high are there.
type line struct {
	name         string
	x, y         []float64
	low, high    []float64
	flat, dashed bool // a figure that does not depend on x
}

// add appends a point with its interval; what is no number is left out.
func (l *line) add(x float64, e estimate, scale float64) {
	if e.n == 0 || math.IsNaN(e.mean) || math.IsInf(e.mean, 0) {
		return
	}
	h := e.half()
	if math.IsInf(h, 0) || math.IsNaN(h) {
		h = 0
	}
	l.x, l.y = append(l.x, x), append(l.y, scale*e.mean)
	l.low, l.high = append(l.low, scale*(e.mean-h)), append(l.high, scale*(e.mean+h))
}

// addMedian appends a median with its interval, none where that is infinite.
func (l *line) addMedian(x float64, m interval) {
	if math.IsNaN(m.median) || math.IsInf(m.median, 0) {
		return
	}
	if math.IsInf(m.low, 0) || math.IsInf(m.high, 0) {
		m.low, m.high = m.median, m.median
	}
	l.x, l.y = append(l.x, x), append(l.y, m.median)
	l.low, l.high = append(l.low, m.low), append(l.high, m.high)
}

// drawCharts draws rows of charts under a caption, with one legend for all.
func drawCharts(w io.Writer, caption []string, rows [][]chart) (err error) {
	// The plotting library panics on ranges it cannot tick.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("plotting: %v", r)
		}
	}()
	columns, names := 1, []string(nil)
	for _, row := range rows {
		columns = max(columns, len(row))
		for _, c := range row {
			for _, name := range c.legend() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	const legendWidth = 2.2 * vg.Inch
	panelWidth, panelHeight := 3.6*vg.Inch, 2.7*vg.Inch
	if columns == 1 {
		panelWidth, panelHeight = 6*vg.Inch, 4*vg.Inch
	}
	top := vg.Points(8 + 13*float64(len(caption)))
	height := max(vg.Length(len(rows))*panelHeight, vg.Points(16*float64(len(names)+1))) + top
	width := vg.Length(columns)*panelWidth + legendWidth
	canvas, err := draw.NewFormattedCanvas(width, height, "png")
	if err != nil {
		return err
	}
	area := draw.New(canvas)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	style := plot.New().Title.TextStyle
	style.Font.Size, style.XAlign, style.YAlign = vg.Points(11), draw.XLeft, draw.YTop
	for i, text := range caption {
		area.FillText(style, vg.Point{X: area.Min.X + vg.Points(8), Y: area.Max.Y - vg.Points(4+13*float64(i))}, text)
	}
	panels := draw.Crop(area, 0, -legendWidth, 0, -top)
	tiles := draw.Tiles{Rows: len(rows), Cols: columns, PadX: vg.Points(10), PadY: vg.Points(8), PadTop: vg.Points(4), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(4)}
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Points(2)
	legend.TextStyle.Font.Size = vg.Points(9)
	seen := map[string]bool{}
	for i, row := range rows {
		for j, c := range row {
			p, thumbs, err := c.plot(names)
			if err != nil {
				return err
			}
			p.Draw(tiles.At(panels, j, i))
			for _, name := range c.legend() {
				if t := thumbs[name]; t != nil && !seen[name] {
					seen[name] = true
					legend.Add(name, t)
				}
			}
		}
	}
	legend.Draw(draw.Crop(area, width-legendWidth+vg.Points(4), 0, 0, -top))
	_, err = canvas.WriteTo(w)
	return err
}

// plot draws one chart; a line has the colour of its name.
func (c chart) plot(names []string) (*plot.Plot, map[string]plot.Thumbnailer, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Add(plotter.NewGrid())
	if c.log {
		p.X.Scale = plot.LogScale{}
		var at []plot.Tick
		for _, l := range c.lines {
			for _, x := range l.x {
				if !slices.ContainsFunc(at, func(t plot.Tick) bool { return t.Value == x }) {
					at = append(at, plot.Tick{Value: x, Label: fmt.Sprintf("%.4g", x)})
				}
			}
		}
		p.X.Tick.Marker = plot.ConstantTicks(at)
	}
	if c.logY {
		var at []plot.Tick // of several in a decade: ranges may be shorter
		for decade := 1e-6; decade < 1e9; decade *= 10 {
			for _, digit := range []float64{1, 2, 5} {
				at = append(at, plot.Tick{Value: digit * decade, Label: fmt.Sprintf("%.4g", digit*decade)})
			}
		}
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(at)
		for _, l := range c.lines {
			for i, y := range l.y {
				l.low[i] = max(l.low[i], y/10) // an interval may reach below 0
			}
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.lines {
		if !l.flat && len(l.x) > 0 {
			low, high = min(low, slices.Min(l.x)), max(high, slices.Max(l.x))
		}
	}
	thumbs := map[string]plot.Thumbnailer{}
	for _, l := range c.lines {
		if l.flat && len(l.y) > 0 && low <= high {
			l.x, l.y = []float64{low, high}, []float64{l.y[0], l.y[0]}
			l.low, l.high = nil, nil
		}
		if len(l.x) == 0 {
			continue
		}
		at := slices.Index(names, l.name)
		colour := palette[at%len(palette)]
		if l.low != nil && len(l.x) > 1 {
			band := make(plotter.XYs, 0, 2*len(l.x))
			for i := range l.x {
				band = append(band, plotter.XY{X: l.x[i], Y: l.high[i]})
			}
			for i := len(l.x) - 1; i >= 0; i-- {
				band = append(band, plotter.XY{X: l.x[i], Y: l.low[i]})
			}
			polygon, err := plotter.NewPolygon(band)
			if err != nil {
				return nil, nil, err
			}
			polygon.Color, polygon.LineStyle.Width = color.NRGBA{colour.R, colour.G, colour.B, 40}, 0
			p.Add(polygon)
		}
		points := make(plotter.XYs, len(l.x))
		for i := range l.x {
			points[i] = plotter.XY{X: l.x[i], Y: l.y[i]}
		}
		drawn, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, nil, err
		}
		drawn.Color, drawn.Width = colour, vg.Points(1.3)
		if l.dashed || l.flat {
			drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(drawn)
		thumbs[l.name] = drawn
		if !l.flat && len(l.x) <= 12 {
			marks.Color, marks.Radius, marks.Shape = colour, vg.Points(2), draw.CircleGlyph{}
			p.Add(marks)
		}
	}
	if c.plane != nil {
		if err := c.plane.add(p, thumbs); err != nil {
			return nil, nil, err
		}
	}
	if len(c.names) > 0 {
		p.NominalX(c.names...)
	}
	// An axis of no length has no ticks.
	if !(p.X.Min < p.X.Max) {
		p.X.Min, p.X.Max = widen(p.X.Min, c.log)
	}
	if !(p.Y.Min < p.Y.Max) {
		p.Y.Min, p.Y.Max = widen(p.Y.Min, false)
	}
	return p, thumbs, nil
}

func widen(x float64, log bool) (low, high float64) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0.5, 1
	case log:
		return x / 2, 2 * x
	}
	return x - 0.5, x + 0.5
}

// markdownTable writes a table.
func markdownTable(b *strings.Builder, head []string, rows [][]string) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
}
