package cuda

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// slots is how many runs may be under way before the host waits.
const slots = 8

// ring hands inputs to recorded steps. A run takes the next slot of pinned host
// memory; the kernel Advance, with which every step begins, copies the slot that a
// counter on the device names. A slot is written again when the run that read it is
// done, which an event behind that run tells.
type ring struct {
	net     *net
	host    driver.HostMemory
	stride  int
	counter driver.Ptr
	runs    uint64
	done    [slots]driver.Event // nil: nobody reads the slot
}

func (n *net) newRing() (*ring, error) {
	r := &ring{net: n, stride: align(kernels.RunBytes + 4*n.Options.Capacity)}
	var err error
	if r.counter, err = n.zeros(8, "the run counter"); err != nil {
		return nil, err
	}
	if r.host, err = n.device.context.AllocHost(slots * r.stride); err != nil {
		return nil, n.device.failed("pinned memory for the inputs of runs", err)
	}
	return r, nil
}

// advance begins a step: the inputs of its run come into the arena.
func (r *ring) advance() kernels.Launch {
	return kernels.Advance(uint64(r.host.Address()), slots, r.stride, uint64(r.counter), r.net.arena.run, 0, 1, r.net.Options.Capacity)
}

// put writes a run's inputs into the next slot, and waits for the slot if it has to.
func (r *ring) put(in *device.Inputs) error {
	i := r.runs % slots
	if e := r.done[i]; e != nil {
		r.done[i] = nil
		if err := errors.Join(e.Wait(), e.Close()); err != nil {
			return err
		}
	}
	s := r.host.Bytes()[int(i)*r.stride:][:r.stride]
	binary.LittleEndian.PutUint32(s[kernels.RunLive:], uint32(len(in.Rows)))
	binary.LittleEndian.PutUint64(s[kernels.RunDraw:], in.Draw)
	for j, x := range in.Scalars {
		binary.LittleEndian.PutUint32(s[kernels.RunScalars+4*j:], math.Float32bits(x))
	}
	for j, x := range in.Candidates {
		binary.LittleEndian.PutUint32(s[kernels.RunCandidates+4*j:], math.Float32bits(x))
	}
	copy(s[kernels.RunRows:], bytesOf(in.Rows))
	return nil
}

// enqueued notes that the run that read the slot is on the stream.
func (r *ring) enqueued() (err error) {
	r.done[r.runs%slots], err = r.net.stream.Record()
	r.runs++
	return err
}

func (r *ring) free() error {
	var errs []error
	for i, e := range r.done {
		if e != nil {
			errs = append(errs, e.Close())
			r.done[i] = nil
		}
	}
	clear(r.host.Bytes()) // row numbers
	return errors.Join(append(errs, r.host.Free())...)
}
