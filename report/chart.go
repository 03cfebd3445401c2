package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/train"
)

// A chart is a test figure against ε or, where there is none, against steps.
type chart struct {
	X     string
	Y     *figure
	Lines []line
}

// A figure is what a chart shows of an evaluation.
type figure struct {
	name, title string
	of          func(*train.Measurement) *float64
	text        func(x float64) string
}

var (
	accuracy = &figure{
		name: "test accuracy, %", title: "Accuracy on the test data",
		of: func(m *train.Measurement) *float64 {
			if m.TestAccuracy == nil {
				return nil
			}
			return new(100 * *m.TestAccuracy)
		},
		text: func(x float64) string { return fmt.Sprintf("%.2f%%", x) },
	}
	rmse = &figure{
		name: "test RMSE, in the units of the label", title: "Error on the test data",
		of: func(m *train.Measurement) *float64 { return m.RMSE }, text: number,
	}
)

// A line is that of one run.
type line struct {
	Name   string
	Points [][2]float64
}

// chart is the run's; nil without a figure to draw.
func (r *run) chart() *chart { return chartOf([]*run{r}) }

// chartOf draws the accuracies of runs beside each other or, where there is none, their errors.
func chartOf(runs []*run) *chart {
	if c := chartOfFigure(runs, accuracy); c != nil {
		return c
	}
	return chartOfFigure(runs, rmse)
}

// chartOfFigure draws against ε if all runs have one.
func chartOfFigure(runs []*run, y *figure) *chart {
	c := &chart{X: "ε spent so far", Y: y}
	for _, r := range runs {
		if r.Epsilon == nil || r.Tuning != nil { // which spends all of it before the first step
			c.X = "steps"
		}
	}
	for _, r := range runs {
		l := line{Name: r.Name()}
		for _, m := range r.Evaluations {
			x := float64(m.Step)
			if c.X != "steps" {
				if m.EpsilonSoFar == nil {
					continue
				}
				x = *m.EpsilonSoFar
			}
			if v := y.of(&m); v != nil {
				l.Points = append(l.Points, [2]float64{x, *v})
			}
		}
		if len(l.Points) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	if len(c.Lines) == 0 {
		return nil
	}
	return c
}

// column has all values of x, 0, or of y, 1.
func (c *chart) column(i int) (all []float64) {
	for _, l := range c.Lines {
		for _, p := range l.Points {
			all = append(all, p[i])
		}
	}
	return all
}

// axes have room for every point and its mark.
func (c *chart) axes() (x, y axis) { return newAxis(c.column(0)), newAxis(c.column(1)) }

// An axis is a range, with ticks at round values.
type axis struct {
	low, high, step float64
}

// newAxis has room around the values, about five ticks, and does not go below 0 for values that do not.
func newAxis(values []float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	if span := high - low; span < 1e-9*math.Max(math.Abs(high), 1e-9) { // one value
		low, high = low-math.Max(math.Abs(low)*0.05, 1e-9), high+math.Max(math.Abs(high)*0.05, 1e-9)
	}
	room := 0.05 * (high - low)
	a := axis{low: low - room, high: high + room}
	if low >= 0 && (a.low < 0 || low < 0.3*high) {
		a.low = -room / 2
	}
	a.step = roundStep((a.high - a.low) / 5)
	return a
}

// roundStep is 1, 2 or 5 times a power of ten, x or somewhat more or less.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if x <= 1.5*m*power {
			return m * power
		}
	}
	return 10 * power
}

// ticks are the multiples of the step in the range.
func (a axis) ticks() (all []float64) {
	for i := math.Ceil(a.low / a.step); i*a.step <= a.high; i++ {
		all = append(all, i*a.step)
	}
	return all
}

// name is a tick's, with as many digits as the step has.
func (a axis) name(tick float64) string {
	digits := max(0, -int(math.Floor(math.Log10(a.step)+1e-9)))
	if digits > 9 {
		return strconv.FormatFloat(tick, 'g', 3, 64)
	}
	return strconv.FormatFloat(tick+0, 'f', digits, 64)
}

// at is where a value is between the ends, 0 to 1.
func (a axis) at(x float64) float64 { return (x - a.low) / (a.high - a.low) }

// The drawing is in these units; the page scales it.
const (
	drawingWidth, drawingHeight = 640, 320
	left, right, top, bottom    = 56, 16, 16, 48
	plotWidth, plotHeight       = drawingWidth - left - right, drawingHeight - top - bottom
	mostLines                   = 6 // that the page has colors for
)

// A Drawing is a chart as the page's template draws it.
type Drawing struct {
	Width, Height            int
	Left, Right, Top, Bottom int
	XTicks, YTicks           []Tick
	XName, YName             string
	Title                    string
	Lines                    []Path
	Words                    string // for who does not see it
}

// TickEnd is where ticks of the horizontal axis end.
func (d *Drawing) TickEnd() int { return d.Bottom + 5 }

// Several says whether lines need a legend.
func (d *Drawing) Several() bool { return len(d.Lines) > 1 }

// A Tick is a place on an axis, with its name.
type Tick struct {
	At   string
	Name string
}

// A Path is a line through points, in a color of the page.
type Path struct {
	Name   string
	Color  int
	D      string
	Points []Point
}

// A Point has a text that says what it is.
type Point struct{ X, Y, Text string }

// drawing places everything.
func (c *chart) drawing() *Drawing {
	if c == nil {
		return nil
	}
	x, y := c.axes()
	unit := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	px := func(v float64) string { return unit(left + plotWidth*x.at(v)) }
	py := func(v float64) string { return unit(top + plotHeight*(1-y.at(v))) }
	d := &Drawing{
		Width: drawingWidth, Height: drawingHeight, Left: left, Right: drawingWidth - right, Top: top, Bottom: drawingHeight - bottom,
		XName: c.X, YName: c.Y.name, Title: c.Y.title,
	}
	for _, t := range x.ticks() {
		d.XTicks = append(d.XTicks, Tick{px(t), x.name(t)})
	}
	for _, t := range y.ticks() {
		d.YTicks = append(d.YTicks, Tick{py(t), y.name(t)})
	}
	var words []string
	for i, l := range c.Lines {
		p := Path{Name: l.Name, Color: i % mostLines}
		for j, q := range l.Points {
			command := "L"
			if j == 0 {
				command = "M"
			}
			p.D += command + px(q[0]) + " " + py(q[1])
			p.Points = append(p.Points, Point{px(q[0]), py(q[1]), fmt.Sprintf("%s: %s at %s %s", l.Name, c.Y.text(q[1]), strings.TrimSuffix(c.X, " spent so far"), number(q[0]))})
		}
		first, last := l.Points[0], l.Points[len(l.Points)-1]
		words = append(words, fmt.Sprintf("%s goes from %s at %s to %s at %s", l.Name, c.Y.text(first[1]), number(first[0]), c.Y.text(last[1]), number(last[0])))
		d.Lines = append(d.Lines, p)
	}
	d.Words = strings.Join(words, "; ") + "."
	return d
}
