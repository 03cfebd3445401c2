package price

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cli"
)

// A plan is what a schedule would do.
type plan struct {
	schedule   string
	conditions []string
	broken     []string // why a run of it would not cost what it says, conditions or not
	figures    figures

	title string
	rows  [][2]string
	more  func(w io.Writer) // what follows the rows, if anything does
}

func newPlan(schedule string, conditions ...string) *plan {
	return &plan{schedule: schedule, conditions: conditions, broken: []string{}}
}

func (p *plan) row(name, format string, a ...any) {
	p.rows = append(p.rows, [2]string{name, fmt.Sprintf(format, a...)})
}

// MarshalJSON gives what all plans share, then the schedule's own figures.
func (p *plan) MarshalJSON() ([]byte, error) {
	return append(figures{
		{"schedule", p.schedule},
		{"neighbouring", accountant.ReplaceOne},
		{"guarantee", len(p.broken) == 0},
		{"not_a_guarantee_because", p.broken},
		{"conditions", p.conditions},
	}, p.figures...).MarshalJSON()
}

func (p *plan) write(w io.Writer) {
	fmt.Fprint(w, p.title, "\n\n")
	cli.Table(w, 0, func(w io.Writer) {
		for _, r := range p.rows {
			cli.Row(w, r[0], "%s", r[1])
		}
	})
	if p.more != nil {
		p.more(w)
	}
	if len(p.broken) > 0 {
		fmt.Fprintln(w)
	}
	warn(w, p.broken)
	fmt.Fprintf(w, "\n%s neighbors; conditions:\n", accountant.ReplaceOne)
	for _, c := range p.conditions {
		fmt.Fprintln(w, "  "+c)
	}
}

// figures are a JSON object whose keys keep their order. Floats are real.
type figures []struct {
	name  string
	value any
}

func (f figures) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i, x := range f {
		b.WriteByte("{,"[min(i, 1)])
		if err := e.Encode(x.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if v, ok := x.value.(float64); ok {
			x.value = real(v)
		}
		if err := e.Encode(x.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
