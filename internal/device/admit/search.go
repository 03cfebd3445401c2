package admit

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
)

// UnderWay is the search that a net has begun last. All of a net's steps share
// it, since a search may go over several.
type UnderWay struct {
	search device.Search
	draw   uint64
	scales [3]float32
	asked  int
	// Found says whether a run has found the search's index. It may wait for one.
	Found func() (bool, error)
}

// search is what a step asks of its runs for its FirstAbove.
type search struct {
	device.Search
	queries int // 0: the step has none
	net     *UnderWay
}

// Search notes that the step searches a sum of so many values.
func (s *Step) Search(of device.Search, values int, net *UnderWay) error {
	if s.search.queries > 0 {
		return errors.New("a step has at most one search: its biases and its count of queries are a run's")
	}
	k, err := of.Queries(values)
	if err != nil {
		return err
	}
	if err := s.draw(of); err != nil {
		return err
	}
	s.search = search{of, k, net}
	s.Checks = append(s.Checks, s.search.check)
	return nil
}

// check validates what does not depend on earlier runs.
func (s *search) check(in *device.Inputs) error {
	for _, slot := range []device.Slot{device.ThresholdStd, device.QueryStd} {
		if std := in.Scalars[slot]; std != 0 && !Positive(std) {
			return fmt.Errorf("a search's noise of scale %v: must be a finite number, 0 or more", std)
		}
	}
	if in.First < 0 {
		return fmt.Errorf("a search that has asked %d queries: must be 0 or more", in.First)
	}
	for i, bias := range in.Biases[:s.queries] {
		if math.IsNaN(bias) || math.IsInf(bias, -1) {
			return fmt.Errorf("bias %d of a search is %v: must be finite, or +Inf for a query that is never above", i, bias)
		}
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
		*s.net = UnderWay{search: s.Search, draw: in.Draw, scales: scales(in), asked: s.queries, Found: s.net.Found}
	}
}
