package accountant

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
)

// A GroupMethod says how an ε of several records at once was found; empty: it is of one record.
type GroupMethod string

const (
	// GroupDirect is a bound on what that many records do together (docs/proofs/groups.md).
	GroupDirect GroupMethod = "direct"
	// GroupConverted is what the ε of one record implies for any release.
	GroupConverted GroupMethod = "general-conversion"
)

// mostGroup is as many records of a group as the bounds are computed for.
const mostGroup = 100_000

func (o Options) checkGroup() error {
	if o.Group < 0 || o.Group > mostGroup {
		return usage.Errorf("group %d: must be from 1 to %d records", o.Group, mostGroup)
	}
	return nil
}

// records is how many are added, removed or replaced together.
func (o Options) records() int { return max(o.Group, 1) }

// distance is how far apart the data sets are, in additions and removals of one record.
func (o Options) distance() float64 { return o.Neighbouring.distance() * float64(o.records()) }

// groupMethod says how an accountant finds the ε of a list. Of its own are bounds on what is asked of all records, by
// the distance, and on Gaussian releases of a Poisson batch, by the number of the group's records in it. Objective
// perturbation has none: its bound does not grow with the distance alone.
func (m method) groupMethod(events []Event, o Options) GroupMethod {
	return groupMethod(events, o, m.groups)
}

func groupMethod(events []Event, o Options, relations []Neighbouring) GroupMethod {
	if o.records() == 1 {
		return ""
	}
	if relations == nil {
		return GroupConverted
	}
	for _, e := range events {
		if slices.ContainsFunc(e.Mechanisms, func(m Mechanism) bool { _, is := m.(ObjectivePerturbation); return is }) {
			return GroupConverted
		}
		if e.rate() == 1 {
			continue
		}
		bounds, err := e.bounds(1)
		if err != nil || e.Sampling != Poisson || joint(bounds) == 0 || !slices.Contains(relations, o.Neighbouring) {
			return GroupConverted
		}
	}
	return GroupDirect
}

// group solves for what o asks of a group of records.
func (m method) group(events []Event, o Options) (Result, error) {
	if method := m.groupMethod(events, o); method != GroupConverted {
		r, err := m.account(events, o)
		if err != nil && method == GroupDirect {
			err = fmt.Errorf("a group of %d records: %w", o.Group, err)
		}
		return r, err
	}
	one := o
	one.Group = 1
	if o.Epsilon != nil {
		return m.convertDelta(events, one, o.records())
	}
	return m.convertEpsilon(events, one, o.records())
}

// logGrowth is ln((e^{kε}−1)/(e^ε−1)): of a release that is (ε, δ)-private for one record, k records have kε and so
// many times δ (Vadhan 2017, "The Complexity of Differential Privacy", lemma 2.2, with its sum left as it is).
func logGrowth(k, epsilon float64) float64 {
	if epsilon == 0 {
		return math.Log(k)
	}
	return logExpm1(k*epsilon) - logExpm1(epsilon)
}

const (
	leastOneDelta = -230 // ln δ of one record that an accountant is asked for
	groupSlack    = 1e-4 // of ln δ
)

// convertEpsilon finds the largest δ of one record whose δ for the group is at most o's, and gives its ε. An ε at a
// smaller δ is no smaller, so that it is the best of the curve.
func (m method) convertEpsilon(events []Event, o Options, records int) (Result, error) {
	k, want := float64(records), math.Log(o.Delta)
	try := func(log float64) (over, epsilon float64, err error) {
		one := o
		one.Delta = math.Exp(log)
		r, err := m.account(events, one)
		if err != nil {
			err = fmt.Errorf("a group of %d records by the general conversion from one: %w", records, err)
		}
		return log + logGrowth(k, r.Epsilon) - want, r.Epsilon, err
	}
	high := want - math.Log(k)
	over, epsilon, err := try(high)
	if err != nil || over <= 0 {
		return o.result(k * epsilon), err
	}
	low := high
	for over > 0 {
		if math.IsInf(over, 1) || low <= leastOneDelta {
			return Result{}, fmt.Errorf("a group of %d records has no epsilon at delta %v that the general conversion finds, which would ask one record's epsilon at a delta below 1e-100: "+
				"give a smaller group, or train with users as the privacy unit", records, o.Delta)
		}
		high, low = low, max(leastOneDelta, low-max(1, 2*over))
		if over, epsilon, err = try(low); err != nil {
			return Result{}, err
		}
	}
	for high-low > groupSlack {
		mid := (low + high) / 2
		over, e, err := try(mid)
		if err != nil {
			return Result{}, err
		}
		if over > 0 {
			high = mid
		} else {
			low, epsilon = mid, e
		}
	}
	return o.result(k * epsilon), nil
}

// convertDelta is the least δ of the group that points of one record's curve give at o's ε, of which that at ε/k is one.
// An accountant may not resolve some of them. Each alone is a bound.
func (m method) convertDelta(events []Event, o Options, records int) (Result, error) {
	const points = 16
	k, best, found := float64(records), 0.0, false
	var failed error
	for i := range points + 1 {
		epsilon := *o.Epsilon / k * float64(i) / points
		one := o
		one.Epsilon = &epsilon
		r, err := m.account(events, one)
		if err != nil {
			failed = err
			continue
		}
		best, found = min(best, math.Log(r.Delta)+logGrowth(k, epsilon)), true
	}
	if !found {
		return Result{}, failed
	}
	return o.result(positiveDelta(best)), nil
}
