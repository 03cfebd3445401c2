package record

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
)

// searches is what a net knows of the search that it has begun last, which may go over several steps.
type searches struct {
	search device.Search
	draw   uint64
	scales [3]float32
	asked  int
	latest *Step // of the search
}

var errBaseline = errors.New("a search with a baseline, or for the least value, over a sum of differences of losses, which a record moves by twice the clip norm: fill it by LossSum")

// fills notes that a step fills a sum by a query of losses.
func (s *sum) fills(form device.LossForm) error {
	if form != device.LossSum && s.based {
		return errBaseline
	}
	s.differences = s.differences || form != device.LossSum
	return nil
}

// base notes that a step compares a sum's values themselves, which LossSum must have filled.
func (s *sum) base() error {
	if s.differences {
		return errBaseline
	}
	s.based = true
	return nil
}

// searches notes that the step searches a sum.
func (s *Step) searches(of device.Search, x *sum) error {
	s.search, s.queries = of, of.Queries(x.scalars())
	return s.asks(of, x, s.queries, of.Trials(), of.Baseline())
}

// minimum notes that the step asks for the least of a sum's values.
func (s *Step) minimum(of device.Minimum, x *sum) error {
	s.checks = append(s.checks, func(in *device.Inputs) error {
		if in.First != 0 {
			return fmt.Errorf("the least of all values was asked for after %d of them: it goes over one run", in.First)
		}
		return nil
	})
	return s.asks(of, x, x.scalars(), 0, true)
}

// asks notes that the step asks for one index among so many queries, with noise for so
// many trials, 0 for any number.
func (s *Step) asks(d draw, x *sum, queries, trials int, base bool) error {
	if s.asked {
		return errors.New("a step has at most one search: its biases and its count of queries are a run's")
	}
	if n := x.scalars(); queries < 1 || n > device.MaxCandidates {
		return fmt.Errorf("a search over a sum of %d values: want 1 to %d, and one more than its queries where they share a baseline", n, device.MaxCandidates)
	}
	s.asked = true
	s.checks = append(s.checks, func(in *device.Inputs) error { return checkQueries(in, queries, trials) })
	if err := s.draw(d); err != nil || !base {
		return err
	}
	return x.base()
}

// checkQueries validates the noise and the biases of a run's queries.
func checkQueries(in *device.Inputs, queries, trials int) error {
	for _, slot := range []device.Slot{device.ThresholdStd, device.QueryStd} {
		if std := in.Scalars[slot]; std != 0 && !positive(std) {
			return fmt.Errorf("a search's noise of scale %v: must be a finite number, 0 or more", std)
		}
	}
	for i, bias := range in.Biases[:queries] {
		if math.IsNaN(bias) || math.IsInf(bias, -1) {
			return fmt.Errorf("bias %d of a search is %v: must be finite, or +Inf for a query that is never above", i, bias)
		}
		if trials > 0 && in.First+i >= trials && !math.IsInf(bias, 1) {
			return fmt.Errorf("a search asks query number %d: its noise is for %d; give those beyond the bias +Inf", in.First+i+1, trials)
		}
	}
	return nil
}

func scales(in *device.Inputs) [3]float32 {
	return [3]float32{in.Scalars[device.Clip], in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd]}
}

// resume checks a run that goes on with the net's search, and notes its queries.
func (s *Step) resume(in *device.Inputs) (bool, error) {
	if s.queries == 0 || in.First == 0 {
		return false, nil
	}
	u := &s.net.searches
	if u.search != s.search || u.draw != in.Draw || u.asked != in.First {
		return false, fmt.Errorf("query %d at noise position %d is not the next of the search under way: %w", in.First, in.Draw, device.ErrDrawUsed)
	}
	if u.scales != scales(in) {
		return false, errors.New("a search goes on with another clip norm or noise than it began with")
	}
	found, err := u.latest.Index()
	if err != nil {
		return false, err
	}
	if found >= 0 {
		return false, fmt.Errorf("the search at noise position %d has found its index: %w", in.Draw, device.ErrDrawUsed)
	}
	u.asked += s.queries
	u.latest = s
	return true, nil
}

// begin notes a search that takes the place of the one before.
func (s *Step) begin(in *device.Inputs) {
	if k := s.queries; k > 0 {
		u := &s.net.searches
		u.search, u.draw, u.scales, u.asked, u.latest = s.search, in.Draw, scales(in), k, s
	}
}
