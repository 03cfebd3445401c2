package compare

import (
	"fmt"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Markdown writes a comparison as tables, of which docs/explain/performance.md has
// those of the last measurement.
func (c *Result) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, threads: %d on %d cores, %s/%s, %s kernels", c.Date, c.Machine.CPU, c.Threads, c.Machine.Cores, c.Machine.OS, c.Machine.Arch, c.Machine.Kernels)
	if c.Machine.Load != nil {
		fmt.Fprintf(&b, ", load before %v", *c.Machine.Load)
	}
	for _, name := range []string{"python", "torch", "opacus", "jax"} {
		if v := c.Versions[name]; v != "" {
			fmt.Fprintf(&b, ", %s %s", name, v)
		}
	}
	fmt.Fprintf(&b, ". Rounds: %d, of %v s per measurement. Milliseconds per step, median (least to most).\n\n", c.Rounds, c.Seconds)

	b.WriteString("| model | batch | private | plain | private / plain | private / (plain + noise) | fastest private peer | peer / ours | fastest plain peer | peer / ours | our private / plain peer |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range c.Models {
		r := m.Ratios
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", m.Model, m.Batch,
			m.time(ours+" private"), m.time(ours+" plain"), times(r.PrivateOverPlain), times(r.PrivateOverPlainAndNoise),
			m.named(r.FastestPrivatePeer), times(r.PrivatePeerOverPrivate),
			m.named(r.FastestPlainPeer), times(r.PlainPeerOverPlain), times(r.PrivateOverPlainPeer))
	}
	for i, s := range c.Skipped {
		if i == 0 {
			b.WriteString("\nLeft out:\n\n")
		}
		fmt.Fprintf(&b, "- %s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// kind is an entry's label with what it does, where the label does not say so.
func (e *Entry) kind() string {
	switch {
	case strings.Contains(e.Mode, "private"), strings.Contains(e.Mode, "plain"):
		return e.label()
	case e.Private:
		return e.label() + " (private)"
	}
	return e.label() + " (plain)"
}

func (m *Model) entry(label string) *Entry {
	for i := range m.Entries {
		if m.Entries[i].label() == label {
			return &m.Entries[i]
		}
	}
	return nil
}

func (m *Model) time(label string) string {
	e := m.entry(label)
	if e == nil {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", milliseconds(e.Median), milliseconds(e.Min), milliseconds(e.Max))
}

func (m *Model) named(label string) string {
	if label == "" {
		return "–"
	}
	return label + ", " + m.time(label)
}

func milliseconds(seconds float64) string {
	ms := 1e3 * seconds
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

func times(ratio *float64) string {
	if ratio == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *ratio)
}

func (s Skipped) String() string { return s.what() + ": " + s.Reason }

func (s Skipped) what() string {
	w := strings.TrimSpace(s.Peer + " " + s.Mode)
	if s.Model != "" {
		w += " on " + s.Model
	}
	return w
}

// PictureFormats are the names of files that Draw can write, by their ends.
func PictureFormats() []string { return []string{"svg", "png"} }

var colours = []color.RGBA{{0, 90, 160, 255}, {225, 140, 50, 255}, {140, 180, 215, 255}, {245, 205, 160, 255}}

// Draw writes a picture of a comparison: a panel a model, two side by side, and a bar an entry, with
// the range of its measurements.
func (c *Result) Draw(w io.Writer, format string) (err error) {
	// The plotting library panics on ranges it cannot tick.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("plotting: %v", r)
		}
	}()
	most := 1
	for i := range c.Models {
		most = max(most, len(c.Models[i].Entries))
	}
	across := min(2, max(1, len(c.Models)))
	down := max(1, (len(c.Models)+across-1)/across)
	height := vg.Length(most)*0.22*vg.Inch + 1.1*vg.Inch
	canvas, err := draw.NewFormattedCanvas(vg.Length(across)*5.2*vg.Inch, vg.Length(down)*height, format)
	if err != nil {
		return err
	}
	tiles := draw.Tiles{
		Rows: down, Cols: across, PadX: vg.Points(18), PadY: vg.Points(14),
		PadTop: vg.Points(8), PadBottom: vg.Points(8), PadLeft: vg.Points(8), PadRight: vg.Points(12),
	}
	area := draw.New(canvas)
	for i := range c.Models {
		panel, err := c.Models[i].panel()
		if err != nil {
			return err
		}
		panel.Draw(tiles.At(area, i%across, i/across))
	}
	_, err = canvas.WriteTo(w)
	return err
}

func (m *Model) panel() (*plot.Plot, error) {
	fig := plot.New()
	fig.Title.Text = fmt.Sprintf("%s, %d parameters, batch %d", m.Model, m.Parameters, m.Batch)
	fig.X.Label.Text = "milliseconds per step"
	fig.X.Min = 0
	names := make([]string, len(m.Entries))
	longest := 0.0
	for i := range m.Entries {
		e := &m.Entries[i]
		at := len(m.Entries) - 1 - i // the first on top
		names[at] = e.kind()
		longest = max(longest, e.Max)
		bar, err := plotter.NewBarChart(plotter.Values{1e3 * e.Median}, vg.Points(9))
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width, bar.Color = true, float64(at), 0, colours[rank(*e)]
		span, err := plotter.NewLine(plotter.XYs{{X: 1e3 * e.Min, Y: float64(at)}, {X: 1e3 * e.Max, Y: float64(at)}})
		if err != nil {
			return nil, err
		}
		text, err := plotter.NewLabels(plotter.XYLabels{
			XYs:    plotter.XYs{{X: 1e3 * e.Max, Y: float64(at)}},
			Labels: []string{" " + milliseconds(e.Median)},
		})
		if err != nil {
			return nil, err
		}
		text.TextStyle[0].YAlign = draw.YCenter
		fig.Add(bar, span, text)
	}
	fig.NominalY(names...)
	fig.Y.Min, fig.Y.Max = -0.6, float64(len(names))-0.4
	fig.X.Max = 1e3 * longest * 1.15 // room for the last label
	return fig, nil
}
