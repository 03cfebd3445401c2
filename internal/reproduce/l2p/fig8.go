package l2p

import (
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/privgrad/privgrad/internal/reproduce"
)

var fig8 = reproduce.Figure{
	Name: "l2p-fig8", Short: "Learned protection on one quadratic: where repeated runs go",
	Source: hong + ", appendix C.1, figure 8", Seeds: 100, Protector: "quadratic", Plan: planFig8, Show: showFig8,
}

const fig8Epsilon = 0.05

func planFig8(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	for _, s := range solvers(e) {
		jobs = append(jobs, repeated(e, s, fig8Epsilon))
	}
	return jobs, nil
}

func showFig8(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	task, _ := problem(fixedStart, problemSeed, 0)
	centre := least(task)
	bottom := task.Loss(centre[:], nil)
	panel := budgetPanel(fig8Epsilon)
	h := reproduce.Table{Title: "Ends of the runs at " + panel, Head: []string{"method", "loss", "loss above the least", "distance to the least", "spread of the ends", "setting"}}
	distance := func(r *reproduce.Record) *float64 {
		if r.Theta1 == nil || r.Theta2 == nil {
			return nil
		}
		return new(math.Hypot(*r.Theta1-centre[0], *r.Theta2-centre[1]))
	}
	spread := map[string]float64{}
	var charts []reproduce.Chart
	view := plane{loss: func(x, y float64) float64 { return task.Loss([]float64{x, y}, nil) }, bottom: bottom, least: centre}
	view.frame(rs)
	for _, s := range solvers(e) {
		v := view
		spread[s.name] = v.take(rs, s.name)
		loss := rs.Mean(panel, s.name, 0, reproduce.Objective)
		above := loss
		above.Mean -= bottom
		h.Rows = append(h.Rows, []string{
			s.name, loss.Number(), above.Number(), rs.Mean(panel, s.name, 0, distance).Number(),
			fmt.Sprintf("%.3g", spread[s.name]), rs.Note(panel, s.name, 0),
		})
		charts = append(charts, reproduce.Chart{Title: s.name, X: "θ₁", Y: "θ₂", Drawn: planeNames, Draw: v.draw})
	}
	runs := 0
	if e.Seeds > 1 {
		runs = len(rs.Last(panel, learnedLine, 0, reproduce.Objective))
	}
	return reproduce.Page{
		Charts: reproduce.Rows(charts), Tables: []reproduce.Table{h},
		Claims: append(nearer(rs, panel, distance), wider(spread[advancedLine], spread[learnedLine], runs)),
		How: append([]string{
			fmt.Sprintf("The panels show contours of the loss. The least loss is %.4g at (%.3f, %.3f), and runs start at (1, 1). Blue shows where the runs were after each step, darker where there were more. Orange shows the first three runs. All panels have the same axes, so some runs leave the picture.", bottom, centre[0], centre[1]),
			"\"no data\" jumps from the start to the mean solution of such problems. This needs no data and no budget.",
		}, quadraticHow(e, []float64{fig8Epsilon})...),
	}
}

// take has a series' runs drawn, and gives the spread of their ends.
func (p *plane) take(rs reproduce.Records, series string) float64 {
	paths := map[int][][2]float64{}
	for i := range rs {
		if r := &rs[i]; r.Series == series && r.Theta1 != nil && r.Theta2 != nil {
			paths[r.Seed] = append(paths[r.Seed], [2]float64{*r.Theta1, *r.Theta2})
		}
	}
	ends := [2]map[int]float64{{}, {}}
	for k, seed := range slices.Sorted(maps.Keys(paths)) {
		path := paths[seed]
		p.all = append(p.all, path...)
		if k < 3 {
			p.sampled = append(p.sampled, path)
		}
		ends[0][seed], ends[1][seed] = path[len(path)-1][0], path[len(path)-1][1]
	}
	spread := 0.0
	for _, m := range ends {
		e := reproduce.Mean(m)
		spread += e.Err * e.Err * float64(e.N)
	}
	return math.Sqrt(spread)
}

// nearer judges who ends nearer to the least loss.
func nearer(rs reproduce.Records, panel string, distance reproduce.Metric) (claims []reproduce.Claim) {
	for _, c := range []struct{ claim, other string }{
		{"L2P ends nearer to the least loss than SGD with advanced composition", advancedLine},
		{"L2P ends nearer to the least loss than AGD", agdLine},
		{"ours, not the paper's: L2P ends nearer to the least loss than tuned DP-SGD under the same accountant", tunedLine},
	} {
		d := rs.Difference(panel, c.other, learnedLine, 0, distance)
		claims = append(claims, d.Claim(c.claim, "difference "+d.Number(), d.Mean > d.Half(), d.Mean < -d.Half()))
	}
	return claims
}

// wider judges by the spread of the ends of SGD with advanced composition and of L2P.
func wider(sgd, learned float64, runs int) reproduce.Claim {
	// Beyond this ratio with less than 5% chance, were both alike and normal, and a run's
	// two coordinates no more than one.
	limit := math.Exp(1.96 * math.Sqrt(1/(float64(runs)-1)))
	known := runs > 0 && sgd > 0 && learned > 0
	return reproduce.Claim{
		Claim:   "SGD with advanced composition walks in a larger region than L2P",
		Found:   fmt.Sprintf("standard deviation of the ends %.3g, of L2P %.3g", sgd, learned),
		Verdict: reproduce.Verdict(true, known && sgd > limit*learned, known && learned > limit*sgd),
	}
}

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
