package imported

import (
	"errors"
	"math"
	"strings"
	"sync"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/lower"
	"github.com/privgrad/privgrad/internal/onnx/runtime"
	"github.com/privgrad/privgrad/internal/usage"
)

// byRuntime gives what opens a frozen part in ONNX Runtime.
func byRuntime(file []byte, p *lower.Prefix, n config.Normalization, shape [3]int) (func() (features.Runner, error), error) {
	library, err := runtime.Find()
	if err != nil {
		return nil, usage.Errorf("it has operations that privgrad does not (%s), and ONNX Runtime, which has them, is not usable: %w", strings.Join(p.Needs, ", "), err)
	}
	return func() (features.Runner, error) {
		session, err := library.Open(file)
		if err != nil {
			return nil, err
		}
		return &alone{session: session, in: ir.Size(shape[:]), out: ir.Size(p.Out), norm: n, channel: shape[1] * shape[2]}, nil
	}, nil
}

// alone gives a session records one by one, so that none can depend on another.
type alone struct {
	session *runtime.Session
	in, out int
	norm    config.Normalization
	channel int // values of one
	record  []float32
}

func (a *alone) Of(dst, records []float32) error {
	scale, shift := a.norm.Affine()
	for i := range len(records) / a.in {
		a.record = append(a.record[:0], records[i*a.in:(i+1)*a.in]...)
		for k := range a.record {
			c := 0
			if len(scale) > 1 {
				c = k / a.channel
			}
			a.record[k] = float32(a.record[k]*scale[c]) + shift[c]
		}
		row := dst[i*a.out : (i+1)*a.out]
		err := a.session.Run(row, a.record)
		if failure := (*runtime.Failure)(nil); errors.As(err, &failure) { // which must not show: it counts as damaged
			for k := range row {
				row[k] = float32(math.NaN())
			}
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *alone) Close() { a.session.Close() }

// shared are runners of one thread each that share records.
type shared []features.Runner

// several opens so many runners.
func several(open func() (features.Runner, error), threads int) (features.Runner, error) {
	var all shared
	for range threads {
		r, err := open()
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func (s shared) Of(dst, records []float32) error {
	a := s[0].(*alone)
	n := len(records) / a.in
	errs := make([]error, len(s))
	var group sync.WaitGroup
	for k, r := range s {
		group.Go(func() {
			lo, hi := k*n/len(s), (k+1)*n/len(s)
			errs[k] = r.Of(dst[lo*a.out:hi*a.out], records[lo*a.in:hi*a.in])
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s shared) Close() {
	for _, r := range s {
		r.Close()
	}
}
