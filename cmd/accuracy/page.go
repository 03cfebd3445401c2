package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var names = map[string]string{"mnist": "MNIST", "fmnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}

// A cell is what runs of one kind reached.
type cell struct {
	accuracy, half     float64 // mean and half of its 95 % interval, in percent
	least, most        float64
	deviation          float64 // of one run
	seconds, cpu, peak float64 // medians, and the largest
	runs, timed        int
}

// of sums up the runs on a data set by a recipe; none gives a cell without runs.
func of(all []measured, data, recipe string, epsilon float64) cell {
	c := cell{least: math.Inf(1)}
	var a, seconds, cpu []float64
	for _, m := range all {
		if m.data != data || m.recipe != recipe || m.epsilon != epsilon {
			continue
		}
		x := 100 * m.accuracy
		a = append(a, x)
		c.least, c.most = min(c.least, x), max(c.most, x)
		if !math.IsNaN(m.seconds) {
			seconds, cpu, c.peak = append(seconds, m.seconds), append(cpu, m.cpu), max(c.peak, m.peak)
		}
	}
	if c.runs = len(a); c.runs == 0 {
		return c
	}
	if c.timed = len(seconds); c.timed > 0 {
		c.seconds, c.cpu = median(seconds), median(cpu)
	}
	mean, deviation := stat.MeanStdDev(a, nil)
	c.accuracy, c.deviation = mean, deviation
	if n := float64(c.runs); n > 1 {
		c.half = distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
	}
	return c
}

func (c cell) String() string {
	switch c.runs {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.2f", c.accuracy)
	}
	return fmt.Sprintf("%.2f ± %.2f", c.accuracy, c.half)
}

// cost are the columns of time and memory of those runs that were commands.
func (c cell) cost() string {
	if c.timed == 0 {
		return "– | – | –"
	}
	return fmt.Sprintf("%.0f | %.0f | %.1f", c.seconds, c.cpu, c.peak)
}

// writePage fills in the tables between the pages' markers, draws the picture, and writes what a scoreboard takes.
func writePage(_ context.Context, o options) error {
	all, err := readMeasured()
	if err != nil {
		return err
	}
	tries, err := readTried()
	if err != nil {
		return err
	}
	pages := map[string]map[string]string{
		pageFile: {
			"measured": measuredTable(all, tries, o), "elsewhere": elsewhereTable(all), "chosen": chosenTable(tries), "tried": triedTable(tries),
		},
		besideFile: {"beside": besideTable(all, o)},
	}
	for file, tables := range pages {
		if err := fillIn(file, tables); err != nil {
			return err
		}
	}
	if err := writeEntry(all, o); err != nil {
		return err
	}
	return picture(all, o)
}

// fillIn puts tables between the markers of a page.
func fillIn(file string, tables map[string]string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(page)
	for marker, table := range tables {
		from, to := "<!-- "+marker+" -->\n", "<!-- end of "+marker+" -->"
		before, rest, ok := strings.Cut(text, from)
		_, after, found := strings.Cut(rest, to)
		if !ok || !found {
			return fmt.Errorf("%s has no place for the table %q: put %q and %q into it", file, marker, strings.TrimSpace(from), to)
		}
		text = before + from + table + to + after
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func counted(runs int) string {
	if runs == 1 {
		return "1 run"
	}
	return fmt.Sprint(runs, " runs")
}

func measuredTable(all []measured, tries []tried, o options) string {
	var b bytes.Buffer
	b.WriteString("| data set | ε | accuracy, % | least, most | held out, without noise, % | seconds | processor seconds | memory, GiB | published |\n|---|---|---|---|---|---|---|---|---|\n")
	ceilings := map[string]string{}
	for _, m := range best(tries) {
		if m.note == noNoise {
			ceilings[m.Data] = fmt.Sprintf("%.1f", 100*m.accuracy)
		}
	}
	for _, data := range o.sets {
		for _, epsilon := range o.epsilons {
			c := of(all, data, data, epsilon)
			if c.runs == 0 {
				continue
			}
			beside := "–"
			if p, ok := mostPublished(data, epsilon); ok {
				beside = fmt.Sprintf("%.1f (%s)", p.accuracy[epsilon], p.by)
				if p.seen == inAbstract {
					beside = fmt.Sprintf("%.1f (%s, in an abstract)", p.accuracy[epsilon], p.by)
				}
			}
			fmt.Fprintf(&b, "| %s | %g | **%s** (%s) | %.2f, %.2f | %s | %s | %s |\n",
				names[data], epsilon, c, counted(c.runs), c.least, c.most, cmp.Or(ceilings[data], "–"), c.cost(), beside)
		}
	}
	return b.String()
}

// elsewhereTable sets runs by another set's recipe beside those by the set's own.
func elsewhereTable(all []measured) string {
	var b bytes.Buffer
	b.WriteString("| chosen on | used on | ε | accuracy, % | by its own recipe |\n|---|---|---|---|---|\n")
	type key struct {
		data, recipe string
		epsilon      float64
	}
	seen := map[key]bool{}
	for _, m := range all {
		k := key{m.data, m.recipe, m.epsilon}
		if m.data == m.recipe || seen[k] {
			continue
		}
		seen[k] = true
		fmt.Fprintf(&b, "| %s | %s | %g | %s | %s |\n", names[m.recipe], names[m.data], m.epsilon,
			of(all, m.data, m.recipe, m.epsilon), of(all, m.data, m.data, m.epsilon))
	}
	if len(seen) == 0 {
		return "The present recipes have not been measured in this way yet.\n"
	}
	return b.String()
}

func chosenTable(tries []tried) string {
	var b bytes.Buffer
	b.WriteString("| data set | ε | features | rate · 63 | epochs | sampling rate | held-out accuracy, % |\n|---|---|---|---|---|---|---|\n")
	for _, m := range best(tries) {
		if m.note != recipe {
			continue
		}
		fmt.Fprintf(&b, "| %s | %g | %s | %.3g, %s | %g | %g | %.2f |\n", names[m.Data], m.Epsilon, front(m), m.LR*63, m.LRSchedule, m.Epochs, m.SamplingRate, 100*m.accuracy)
	}
	return b.String()
}

func front(m mean) string {
	words := m.Features + ", whitened by " + m.Whiten
	if m.Whiten == "none" {
		words = m.Features + ", not whitened"
	}
	if m.Mirror {
		words += ", mirror"
	}
	if m.Deskew {
		words = "deskewed, " + words
	}
	return words
}

// triedTable has what is no recipe, at its best learning rate.
func triedTable(tries []tried) string {
	var b bytes.Buffer
	b.WriteString("| what | data set | ε | features | rate · 63 | epochs | held-out accuracy, % (runs) |\n|---|---|---|---|---|---|---|\n")
	for _, m := range best(tries) {
		if m.note == recipe || m.note == noNoise {
			continue
		}
		epsilon := text(m.Epsilon)
		if math.IsInf(m.Epsilon, 1) {
			epsilon = "no noise"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.3g, %s | %g | %.2f (%d) |\n", m.note, names[m.Data], epsilon, front(m), m.LR*63, m.LRSchedule, m.Epochs, 100*m.accuracy, m.runs)
	}
	return b.String()
}

// picture shows accuracy against ε, with its intervals and what was published.
func picture(all []measured, o options) error {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "ε (δ = 1e-5)", "test accuracy, %"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks(o.epsilons))
	p.Y.Min, p.Legend.Top = 60, false
	p.Legend.Left = false
	colours := []color.RGBA{{0, 90, 160, 255}, {40, 150, 70, 255}, {225, 120, 30, 255}}
	for i, data := range o.sets {
		var at barred
		for _, epsilon := range o.epsilons {
			if c := of(all, data, data, epsilon); c.runs > 0 {
				at.XYs = append(at.XYs, plotter.XY{X: epsilon, Y: c.accuracy})
				at.YErrors = append(at.YErrors, struct{ Low, High float64 }{c.half, c.half})
			}
		}
		if len(at.XYs) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(at.XYs)
		if err != nil {
			return err
		}
		bars, err := plotter.NewYErrorBars(at)
		if err != nil {
			return err
		}
		line.Color, points.Color, bars.Color = colours[i%3], colours[i%3], colours[i%3]
		p.Add(line, points, bars)
		p.Legend.Add(names[data], line, points)
		var others plotter.XYs
		for _, epsilon := range o.epsilons {
			if p, ok := mostPublished(data, epsilon); ok {
				others = append(others, plotter.XY{X: epsilon, Y: p.accuracy[epsilon]})
			}
		}
		crosses, err := plotter.NewScatter(others)
		if err != nil {
			return err
		}
		crosses.Shape, crosses.Color, crosses.Radius = draw.CrossGlyph{}, colours[i%3], vg.Points(4)
		p.Add(crosses)
		if i == 0 {
			p.Legend.Add("published", crosses)
		}
	}
	return p.Save(16*vg.Centimeter, 11*vg.Centimeter, pictureFile)
}

// barred are points with bars.
type barred struct {
	plotter.XYs
	plotter.YErrors
}

func ticks(at []float64) (all []plot.Tick) {
	for _, x := range at {
		all = append(all, plot.Tick{Value: x, Label: fmt.Sprint(x)})
	}
	return all
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
