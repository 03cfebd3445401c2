package kernels

// Advance lets a replayed graph see new inputs though its arguments are frozen. It copies so many slots
// of a ring, from slot (counter mod slots) on, into as many runs, and then adds their number to the
// counter, of which each of the MostSteps blocks has its own: a uint64 of device memory, at first the
// same in all. A slot has the layout of Run. Slots lie stride bytes apart and runs runStride bytes, all
// multiples of 4; the ring is pinned host memory, at the address by which kernels read it. Of the row
// numbers only the live ones are copied. A live count outside [0, capacity], capacity being what a run
// has room for, becomes the nearer end.
//
// Every graph begins with one Advance; the host may write a slot again when the run that read it is
// done.
func Advance(ring Ptr, slots, stride int, counters, runs Ptr, runStride, steps, capacity int) Launch {
	return Launch{
		Module: "advance", Name: "advance", Grid: [3]int{MostSteps, 1, 1}, Block: [3]int{advanceThreads, 1, 1},
		Args: []uint64{ring, I(slots), I(stride), counters, runs, I(runStride), I(steps), I(capacity)},
	}
}

// MostSteps is the most runs of one Advance.
const MostSteps = 8

const advanceThreads = 256
