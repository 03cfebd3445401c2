package admit

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
)

// Searches is what a net knows of its searches: of the one that it has begun last,
// which may go over several steps, and of the sums that they search.
type Searches struct {
	search device.Search
	draw   uint64
	scales [3]float32
	asked  int
	// Found says whether a run has found the search's index. It may wait for one.
	Found func() (bool, error)

	based, differences map[device.Sum]bool
}

var errBaseline = errors.New("a search with a baseline, or for the least value, over a sum of differences of losses, which a record moves by twice the clip norm: fill it by LossSum")

// Fills notes that a step fills a sum by a query of losses.
func (u *Searches) Fills(dst device.Sum, form device.LossForm) error {
	if form == device.LossSum {
		return nil
	}
	if u.based[dst] {
		return errBaseline
	}
	if u.differences == nil {
		u.differences = map[device.Sum]bool{}
	}
	u.differences[dst] = true
	return nil
}

// base notes that a step reads a sum's values themselves, which LossSum must have filled.
func (u *Searches) base(src device.Sum) error {
	if u.differences[src] {
		return errBaseline
	}
	if u.based == nil {
		u.based = map[device.Sum]bool{}
	}
	u.based[src] = true
	return nil
}

// search is what a step asks of its runs for its AboveThreshold.
type search struct {
	device.Search
	queries int // 0: the step has none
	net     *Searches
}

// Search notes that the step searches a sum of so many values.
func (s *Step) Search(of device.Search, src device.Sum, values int, net *Searches) error {
	k, err := of.Queries(values)
	if err == nil {
		err = s.ask(of, k)
	}
	if err == nil && of.Baseline() {
		err = net.base(src)
	}
	if err != nil {
		return err
	}
	s.search = search{of, k, net}
	s.Checks = append(s.Checks, s.search.check)
	return nil
}

// Minimum notes that the step asks for the least of a sum's values.
func (s *Step) Minimum(of device.Minimum, src device.Sum, values int, net *Searches) error {
	err := of.Check(values)
	if err == nil {
		err = s.ask(of, values)
	}
	if err == nil {
		err = net.base(src)
	}
	s.Checks = append(s.Checks, func(in *device.Inputs) error {
		if in.First != 0 {
			return fmt.Errorf("the least of all values was asked for after %d of them: it goes over one run", in.First)
		}
		return nil
	})
	return err
}

// ask notes that the step asks for one index among so many queries.
func (s *Step) ask(d draw, queries int) error {
	if s.asks {
		return errors.New("a step has at most one search: its biases and its count of queries are a run's")
	}
	s.asks = true
	s.Checks = append(s.Checks, func(in *device.Inputs) error { return checkQueries(in, queries) })
	return s.draw(d)
}

// checkQueries validates the noise and the biases of a run's queries.
func checkQueries(in *device.Inputs, n int) error {
	for _, slot := range []device.Slot{device.ThresholdStd, device.QueryStd} {
		if std := in.Scalars[slot]; std != 0 && !Positive(std) {
			return fmt.Errorf("a search's noise of scale %v: must be a finite number, 0 or more", std)
		}
	}
	for i, bias := range in.Biases[:n] {
		if math.IsNaN(bias) || math.IsInf(bias, -1) {
			return fmt.Errorf("bias %d of a search is %v: must be finite, or +Inf for a query that is never above", i, bias)
		}
	}
	return nil
}

// check refuses queries beyond those that the search's noise is for.
func (s *search) check(in *device.Inputs) error {
	for i, bias := range in.Biases[:s.queries] {
		if most := s.Trials(); most > 0 && in.First+i >= most && !math.IsInf(bias, 1) {
			return fmt.Errorf("a search asks query number %d: its noise is for %d; give those beyond the bias +Inf", in.First+i+1, most)
		}
	}
	return nil
}

func scales(in *device.Inputs) [3]float32 {
	return [3]float32{in.Scalars[device.Clip], in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd]}
}

// resume checks a run that goes on with the net's search, and notes its queries.
func (s *search) resume(in *device.Inputs) (bool, error) {
	if s.queries == 0 || in.First == 0 {
		return false, nil
	}
	u := s.net
	if u.search != s.Search || u.draw != in.Draw || u.asked != in.First {
		return false, fmt.Errorf("query %d at noise position %d is not the next of the search under way: %w", in.First, in.Draw, device.ErrDrawUsed)
	}
	if u.scales != scales(in) {
		return false, errors.New("a search goes on with another clip norm or noise than it began with")
	}
	found, err := u.Found()
	if err != nil {
		return false, err
	}
	if found {
		return false, fmt.Errorf("the search at noise position %d has found its index: %w", in.Draw, device.ErrDrawUsed)
	}
	u.asked += s.queries
	return true, nil
}

// begin notes a search that takes the place of the one before.
func (s *search) begin(in *device.Inputs) {
	if s.queries > 0 {
		n := s.net
		n.search, n.draw, n.scales, n.asked = s.Search, in.Draw, scales(in), s.queries
	}
}
