package reproduce

import "io"

// A Panel is a chart of plain lines, for pictures of other packages.
type Panel struct {
	Title, X, Y string
	Curves      []Curve
}

// A Curve is one of its lines.
type Curve struct {
	Name string
	X, Y []float64
}

// Draw draws panels beside each other as a PNG.
func Draw(w io.Writer, caption string, panels ...Panel) error {
	var row []chart
	for _, p := range panels {
		c := chart{title: p.Title, x: p.X, y: p.Y}
		for _, l := range p.Curves {
			c.lines = append(c.lines, line{name: l.Name, x: l.X, y: l.Y})
		}
		row = append(row, c)
	}
	return drawCharts(w, []string{caption}, [][]chart{row})
}
