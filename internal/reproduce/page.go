package reproduce

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A Page is what a figure shows of its records.
type Page struct {
	Charts [][]Chart
	Claims []Claim
	Tables []Table
	How    []string // settings, and what the paper leaves open
}

// A Table is one of a page.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Caption stands above the picture.
func (s *Summary) Caption(f *Figure) []string {
	return append([]string{f.Short + ", rerun", f.Source, "NO GUARANTEE: " + strings.Join(s.NoGuarantee, "; ")}, s.Labels...)
}

func (s *Summary) markdown(f *Figure, p Page) string {
	var b strings.Builder
	seeds := fmt.Sprint(s.Seeds)
	if s.MostSeeds > s.Seeds {
		seeds += fmt.Sprintf(" to %d", s.MostSeeds)
	}
	fmt.Fprintf(&b, "# %s\n\nFor researchers: what a paper claims, beside what came out when we ran it again.\nSource: %s. Runs: %d; seeds: %s.\n", f.Short, f.Source, s.Runs, seeds)
	if s.stamp != "" {
		fmt.Fprintf(&b, "Made: %s.\n", s.stamp)
	}
	fmt.Fprintf(&b, "\n**NO GUARANTEE**: %s. ε is what the accounting would say if the data were private.\n\n", strings.Join(s.NoGuarantee, "; "))
	for _, l := range s.Labels {
		fmt.Fprintf(&b, "**%s**\n\n", l)
	}
	fmt.Fprintf(&b, "![%s](%s)\n\n", f.Name, filepath.Base(s.Picture))
	if len(p.Claims) > 0 {
		b.WriteString("## What is claimed, and what came out\n\n")
		t := Table{Head: []string{"claim, in our words", "what came out", "verdict"}}
		for _, c := range p.Claims {
			t.Rows = append(t.Rows, []string{c.Claim, c.Found, "**" + c.Verdict + "**"})
		}
		t.markdown(&b)
		b.WriteString("Comparisons are paired by seed. Intervals are 95% intervals by Student's t over seeds, unless another\nkind is named. Each interval holds by itself: of many, some are wrong. *Undecided* means that the runs\nneither show nor refute the claim.\n\n")
		if s.MostSeeds > s.Seeds {
			fmt.Fprintf(&b, "Every setting has %d seeds. Where the interval's half-width was more than half the effect, both settings\nhave more, up to %d.\n\n", s.Seeds, s.MostSeeds)
		}
	}
	for _, t := range p.Tables {
		fmt.Fprintf(&b, "## %s\n\n", t.Title)
		t.markdown(&b)
	}
	list(&b, "How", p.How)
	list(&b, "Left out", s.Skipped)
	if s.RunsOther > 0 {
		fmt.Fprintf(&b, "The file %s also keeps %d runs of other settings. This page does not show them.\n", filepath.Base(s.CSV), s.RunsOther)
	}
	return b.String()
}

// markdown writes a table without its title.
func (t *Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
	for _, row := range t.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
}

func list(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "- %s\n", l)
	}
	b.WriteString("\n")
}

// The verdicts on a claim.
const (
	Agrees      = "agrees"
	Contradicts = "contradicts"
	Undecided   = "undecided"
	Unmeasured  = "not measured"
)

// A Claim is what a paper says, in our words, beside what was found.
type Claim struct {
	Claim   string `json:"claim"`
	Found   string `json:"found"`
	Verdict string `json:"verdict"`
	Open    []Cell `json:"-"` // what more seeds might settle
}

// A Cell is the runs of a line at one setting.
type Cell struct {
	Panel, Series string
	X             float64
}

// open are the cells that a claim wants more seeds of.
func (p *Page) open() (all []Cell) {
	for _, c := range p.Claims {
		all = append(all, c.Open...)
	}
	return all
}

// Verdict is Unmeasured without figures, and Undecided where these neither show nor refute.
func Verdict(measured, shown, refuted bool) string {
	switch {
	case !measured:
		return Unmeasured
	case shown:
		return Agrees
	case refuted:
		return Contradicts
	}
	return Undecided
}

// Claim judges by a difference; of none there are no figures.
func (d Estimate) Claim(claim, found string, shown, refuted bool) Claim {
	if d.N == 0 {
		found = "no figures"
	}
	return Claim{Claim: claim, Found: found, Verdict: Verdict(d.N > 0, shown, refuted)}
}

// A Tally counts paired comparisons whose 95% interval leaves 0 out.
type Tally struct {
	Above, Below, Total int
	Open                []Cell // of comparisons that more seeds might settle
}

// Add takes another; one without figures does not count.
func (t *Tally) Add(d Estimate) { t.add(d.N, d.Mean-d.Half(), d.Mean+d.Half()) }

// AddMedian takes another, as Add does.
func (t *Tally) AddMedian(m Interval) { t.add(m.N, m.Low, m.High) }

func (t *Tally) add(n int, low, high float64) {
	if n == 0 {
		return
	}
	t.Total++
	if low > 0 {
		t.Above++
	}
	if high < 0 {
		t.Below++
	}
}

func (t Tally) String() string {
	if t.Total == 0 {
		return "no comparison"
	}
	return fmt.Sprintf("better at %d, worse at %d, undecided at %d of %d", t.Above, t.Below, t.undecided(), t.Total)
}

func (t Tally) undecided() int { return t.Total - t.Above - t.Below }

// Claim judges "better in most cases".
func (t Tally) Claim(claim string) Claim {
	return t.claim(claim, t.String(), 2*t.Above > t.Total, 2*t.Below > t.Total)
}

// NotWorse judges "about as good or better". An interval with 0 in it does not show that both are as good, so some comparison has to be better.
func (t Tally) NotWorse(claim string) Claim {
	return t.claim(claim, t.String(), t.Below == 0 && t.Above > 0, 2*t.Below > t.Total)
}

// Lower judges "lower at every one", of medians.
func (t Tally) Lower(claim string) Claim {
	found := fmt.Sprintf("median of the paired differences below 0 at %d, above 0 at %d, undecided at %d of %d", t.Below, t.Above, t.undecided(), t.Total)
	return t.claim(claim, found, t.Below == t.Total, t.Above > 0)
}

func (t Tally) claim(claim, found string, shown, refuted bool) Claim {
	return Claim{claim, found, Verdict(t.Total > 0, shown, refuted), t.Open}
}
