package banco

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Server learns from reports alone (Jun and Orabona 2019, algorithm 1). A client evaluates its gradient at
// Point and reports it with noise; Update takes the report. The model is the Average. A Server is for
// one goroutine.
//
// Reports are of gradients, as clients know them: the negative subgradients ĝ of the paper are their
// opposites. The direction moves by +ĝ, where the paper's line 5 prints a minus; docs/proofs/local.md
// shows that the points are the same.
type Server struct {
	params Params
	state  state
}

// state is what a Server keeps: Save's JSON.
type state struct {
	Reports   int       `json:"reports"`
	Won       float64   `json:"won"`     // Σ⟨ĝ, q⟩
	Squares   float64   `json:"squares"` // Σ‖ĝ‖²
	Direction []float64 `json:"direction"`
	Magnitude float64   `json:"magnitude"`
	Points    []float64 `json:"points"` // the sum of those at which reports were made
}

// A bet is no larger than e^mostLog, so that a point fits into single precision, and a report's numbers no
// larger than mostReport, so that their squares add up.
const (
	mostLog    = 80
	mostReport = 0x1p400
)

// NewServer begins at zero.
func NewServer(p Params) *Server {
	return &Server{p, state{Direction: make([]float64, p.dim), Points: make([]float64, p.dim)}}
}

// Point is where the next client evaluates its gradient, and the last iterate. It is the caller's.
func (s *Server) Point() []float64 {
	w := slices.Clone(s.state.Direction)
	for i := range w {
		w[i] *= s.state.Magnitude
	}
	return w
}

// Reports is how many were taken.
func (s *Server) Reports() int { return s.state.Reports }

// Average is the mean of the points at which reports were made, and zero before the first.
func (s *Server) Average() []float64 {
	w := slices.Clone(s.state.Points)
	for i := range w {
		w[i] /= float64(max(s.state.Reports, 1))
	}
	return w
}

// Update takes a report of a gradient at Point. One that is refused changes nothing.
func (s *Server) Update(report []float64) error {
	st := &s.state
	if len(report) != len(st.Direction) {
		return fmt.Errorf("a report of %d values, for a model of %d", len(report), len(st.Direction))
	}
	for _, x := range report {
		if !(math.Abs(x) <= mostReport) {
			return fmt.Errorf("a report with the value %v: no client of these settings sends it; ignore the report", x)
		}
	}
	for i, q := range st.Direction {
		st.Points[i] += st.Magnitude * q
		st.Won -= report[i] * q
		st.Squares += report[i] * report[i]
	}
	st.Reports++
	st.Magnitude = 0
	if log, sign := s.params.LogMagnitude(st.Won, st.Reports); sign != 0 {
		st.Magnitude = float64(sign) * math.Exp(min(log, mostLog))
	}
	s.turn(report)
	return nil
}

// turn is projected descent on the unit ball, with scale-free steps (lines 5 and 6).
func (s *Server) turn(report []float64) {
	if s.state.Squares == 0 {
		return
	}
	q, step, norm := s.state.Direction, 1/math.Sqrt(s.state.Squares), 0.0
	for i, x := range report {
		q[i] -= step * x
		norm += q[i] * q[i]
	}
	if norm = math.Sqrt(norm); norm > 1 {
		for i := range q {
			q[i] /= norm
		}
	}
}

// Save encodes where the server stands: public numbers alone.
func (s *Server) Save() ([]byte, error) { return json.Marshal(s.state) }

// Restore goes on from what a server of the same settings has saved.
func (s *Server) Restore(saved []byte) error {
	var st state
	d := json.NewDecoder(bytes.NewReader(saved))
	d.DisallowUnknownFields()
	if err := d.Decode(&st); err != nil {
		return fmt.Errorf("the state of a server: %w", err)
	}
	if len(st.Direction) != s.params.dim || len(st.Points) != s.params.dim || st.Reports < 0 || !(st.Squares >= 0) {
		return fmt.Errorf("the state of a server after %d reports has %d values, for a model of %d", st.Reports, len(st.Direction), s.params.dim)
	}
	s.state = st
	return nil
}
