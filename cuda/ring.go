package cuda

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// slots is how many runs may be held back or under way before the host waits.
const slots = 4 * Together

// ring hands inputs to recorded steps. A run takes the next slot of pinned host memory; the kernel
// Advance, with which every graph begins, copies the slots that a counter on the device names. A
// slot is written again when the run that read it is done, which a mark behind its graph tells.
type ring struct {
	net     *net
	host    driver.HostMemory
	stride  int        // of slots here, and of runs in the arena
	counter driver.Ptr // of Advance
	// How many runs have had a slot; of these are on the stream; and are known to be done.
	runs, sent, done uint64
	// Marks are used in turns. No more than slots are needed, since each graph has a run.
	marks          [slots]mark
	marked, passed uint64
}

// mark is a point in the stream, behind so many runs.
type mark struct {
	event driver.Event
	runs  uint64
}

// runStride is the memory of a run of at most so many rows, with the words of their views.
func runStride(s *ir.Schedule, capacity int) int {
	return align(kernels.ViewRunBytes(capacity, words(s)))
}

func (n *net) newRing() (*ring, error) {
	r := &ring{net: n, stride: runStride(n.Schedule, n.Options.Capacity)}
	var err error
	if r.counter, err = n.zeros(8, "the run counter"); err != nil {
		return nil, err
	}
	for i := range r.marks {
		if r.marks[i].event, err = n.device.context.NewEvent(); err != nil {
			return r, n.device.failed("an event", err)
		}
	}
	if r.host, err = n.device.context.AllocHost(slots * r.stride); err != nil {
		return r, n.device.failed("pinned memory for the inputs of runs", err)
	}
	return r, nil
}

// advance begins a graph: the inputs of its runs come into the arena.
func (r *ring) advance(runs int) kernels.Launch {
	n := r.net
	return kernels.Advance(uint64(r.host.Address()), slots, r.stride, uint64(r.counter), n.arena.run, r.stride, runs, n.Options.Capacity, 1+words(n.Schedule))
}

// slot is that of a run.
func (r *ring) slot(run uint64) []byte { return r.host.Bytes()[int(run%slots)*r.stride:][:r.stride] }

// put writes a run's inputs into the next slot, and waits for the slot if it has to.
func (r *ring) put(in *device.Inputs) error {
	if r.runs-r.done == slots {
		m := &r.marks[r.passed%slots]
		if err := m.event.Wait(); err != nil {
			return err
		}
		r.done, r.passed = m.runs, r.passed+1
	}
	s := r.slot(r.runs)
	binary.LittleEndian.PutUint32(s[kernels.RunLive:], uint32(len(in.Rows)))
	binary.LittleEndian.PutUint64(s[kernels.RunDraw:], in.Draw)
	for j, x := range in.Scalars {
		binary.LittleEndian.PutUint32(s[kernels.RunScalars+4*j:], math.Float32bits(x))
	}
	for j, x := range in.Candidates {
		binary.LittleEndian.PutUint32(s[kernels.RunCandidates+4*j:], math.Float32bits(x))
	}
	copy(s[kernels.RunRows:], bytesOf(in.Rows))
	if words(r.net.Schedule) > 0 { // a step that reads none may bring any
		copy(s[kernels.RunRows+4*len(in.Rows):], bytesOf(in.Words))
	}
	r.runs++
	return nil
}

// draw gives the last run another noise position.
func (r *ring) draw(position uint64) {
	binary.LittleEndian.PutUint64(r.slot(r.runs - 1)[kernels.RunDraw:], position)
}

// send puts a graph on the stream that reads the next slots, so many, and marks its end.
func (r *ring) send(g driver.Graph, runs int) error {
	if err := r.net.stream.Run(g); err != nil {
		return err
	}
	r.sent += uint64(runs)
	m := &r.marks[r.marked%slots]
	m.runs = r.sent
	r.marked++
	return r.net.stream.Record(m.event)
}

func (r *ring) free() error {
	var errs []error
	for _, m := range r.marks {
		if m.event != nil {
			errs = append(errs, m.event.Close())
		}
	}
	if r.host != nil {
		clear(r.host.Bytes()) // row numbers, and words
		errs = append(errs, r.host.Free())
	}
	return errors.Join(errs...)
}
