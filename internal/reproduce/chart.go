package reproduce

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

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

// A Chart is one panel of a picture.
type Chart struct {
	Title, X, Y string
	Log         bool     // the horizontal axis
	LogY        bool     // the vertical axis, of values above 0
	Names       []string // of the horizontal values 0, 1, …, where they are no numbers
	Lines       []Line
	// Draw draws what a paper's figure has in the place of lines, under the names of Drawn
	// in the legend; nil: nothing.
	Draw  func(to *plot.Plot, thumbs map[string]plot.Thumbnailer) error
	Drawn []string
}

// Rows puts charts beside each other, three in a row.
func Rows(charts []Chart) [][]Chart { return slices.Collect(slices.Chunk(charts, 3)) }

// legend lists what has a name.
func (c Chart) legend() (names []string) {
	for _, l := range c.Lines {
		names = append(names, l.Name)
	}
	return append(names, c.Drawn...)
}

// A Line has bands where Low and High are there.
type Line struct {
	Name         string
	X, Y         []float64
	Low, High    []float64
	Flat, Dashed bool // a figure that does not depend on x
}

// Add appends a point with its interval; what is no number is left out.
func (l *Line) Add(x float64, e Estimate, scale float64) {
	if e.N > 0 {
		h := e.Half()
		l.point(x, scale*e.Mean, scale*(e.Mean-h), scale*(e.Mean+h))
	}
}

func (l *Line) AddMedian(x float64, m Interval) { l.point(x, m.Median, m.Low, m.High) }

// point appends one, without an interval where that is not finite.
func (l *Line) point(x, y, low, high float64) {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return
	}
	if width := high - low; math.IsInf(width, 0) || math.IsNaN(width) {
		low, high = y, y
	}
	l.X, l.Y, l.Low, l.High = append(l.X, x), append(l.Y, y), append(l.Low, low), append(l.High, high)
}

// Draw draws rows of charts under a caption as a PNG, with one legend for all.
func Draw(w io.Writer, caption []string, rows [][]Chart) (err error) {
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
func (c Chart) plot(names []string) (*plot.Plot, map[string]plot.Thumbnailer, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(round), plot.TickerFunc(round)
	p.Add(plotter.NewGrid())
	if c.Log {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(c.ticks())
	}
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(c.decades())
		c.raise()
	}
	low, high := c.span()
	thumbs := map[string]plot.Thumbnailer{}
	for _, l := range c.Lines {
		if l.Flat && len(l.Y) > 0 && low <= high {
			l.X, l.Y = []float64{low, high}, []float64{l.Y[0], l.Y[0]}
			l.Low, l.High = nil, nil
		}
		if len(l.X) == 0 {
			continue
		}
		drawn, err := l.draw(p, palette[slices.Index(names, l.Name)%len(palette)])
		if err != nil {
			return nil, nil, err
		}
		thumbs[l.Name] = drawn
	}
	if c.Draw != nil {
		if err := c.Draw(p, thumbs); err != nil {
			return nil, nil, err
		}
	}
	if len(c.Names) > 0 {
		p.NominalX(c.Names...)
	}
	// An axis of no length has no ticks.
	if !(p.X.Min < p.X.Max) {
		p.X.Min, p.X.Max = widen(p.X.Min, c.Log)
	}
	if !(p.Y.Min < p.Y.Max) {
		p.Y.Min, p.Y.Max = widen(p.Y.Min, false)
	}
	return p, thumbs, nil
}

// ticks are at the lines' points. Of many, few have labels: the last, and others as far apart.
func (c Chart) ticks() (at []plot.Tick) {
	for _, l := range c.Lines {
		for _, x := range l.X {
			if !slices.Contains(at, tick(x)) {
				at = append(at, tick(x))
			}
		}
	}
	slices.SortFunc(at, func(a, b plot.Tick) int { return cmp.Compare(b.Value, a.Value) })
	const labeled = 6
	every := (len(at) + labeled - 1) / labeled
	for i := range at {
		if i%every != 0 {
			at[i].Label = ""
		}
	}
	return at
}

// round are ticks of a linear axis: three to eight multiples of 1, 2 or 5 times a power of ten.
func round(low, high float64) (at []plot.Tick) {
	power := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	step := 10 * power
	for _, digit := range []float64{5, 2, 1} {
		if (high-low)/5 <= 1.5*digit*power {
			step = digit * power
		}
	}
	for i := math.Ceil(low / step); i*step <= high; i++ {
		at = append(at, plot.Tick{Value: i * step, Label: fmt.Sprintf("%.6g", i*step+0)}) // -0 becomes 0
	}
	return at
}

// decades are ticks of several in a decade, as ranges may be shorter, or one of each of many.
func (c Chart) decades() (at []plot.Tick) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for _, y := range l.Y {
			low, high = min(low, y), max(high, y)
		}
	}
	digits := []float64{1, 2, 5}
	if high > 1000*low {
		digits = digits[:1]
	}
	for decade := 1e-8; decade < 1e9; decade *= 10 {
		for _, digit := range digits {
			at = append(at, tick(digit*decade))
		}
	}
	return at
}

func tick(x float64) plot.Tick { return plot.Tick{Value: x, Label: fmt.Sprintf("%.4g", x)} }

// raise keeps intervals above 0, below which they may reach.
func (c Chart) raise() {
	for _, l := range c.Lines {
		for i, y := range l.Y {
			l.Low[i] = max(l.Low[i], y/10)
		}
	}
}

// span is where lines are that depend on x.
func (c Chart) span() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		if !l.Flat && len(l.X) > 0 {
			low, high = min(low, slices.Min(l.X)), max(high, slices.Max(l.X))
		}
	}
	return low, high
}

// draw adds a line that has points, with its band.
func (l Line) draw(to *plot.Plot, colour color.RGBA) (*plotter.Line, error) {
	if l.Low != nil && len(l.X) > 1 {
		back := points(l.X, l.Low)
		slices.Reverse(back)
		polygon, err := plotter.NewPolygon(append(points(l.X, l.High), back...))
		if err != nil {
			return nil, err
		}
		polygon.Color, polygon.LineStyle.Width = color.NRGBA{colour.R, colour.G, colour.B, 40}, 0
		to.Add(polygon)
	}
	drawn, marks, err := plotter.NewLinePoints(points(l.X, l.Y))
	if err != nil {
		return nil, err
	}
	drawn.Color, drawn.Width = colour, vg.Points(1.3)
	if l.Dashed || l.Flat {
		drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	to.Add(drawn)
	if !l.Flat && len(l.X) <= 12 {
		marks.Color, marks.Radius, marks.Shape = colour, vg.Points(2), draw.CircleGlyph{}
		to.Add(marks)
	}
	return drawn, nil
}

func points(x, y []float64) (all plotter.XYs) {
	for i := range x {
		all = append(all, plotter.XY{X: x[i], Y: y[i]})
	}
	return all
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
