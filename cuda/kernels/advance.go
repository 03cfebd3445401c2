package kernels

// Advance lets a replayed graph see new inputs though its arguments are frozen.
// It copies slot (counter mod slots) of a ring into run, then adds 1 to the
// counter, a uint64 in device memory. A slot has the layout of Run and lies
// stride bytes after the one before, both multiples of 4; the ring is pinned host memory, at the
// address by which kernels read it. Of the row numbers only the live ones are
// copied. A live count outside [0, capacity], capacity being what run has room
// for, becomes the nearer end.
//
// Every run of a step begins with one Advance; the host may write a slot again
// when the run that read it is done.
func Advance(ring Ptr, slots, stride int, counter, run Ptr, capacity int) Launch {
	return Launch{
		Module: "advance", Name: "advance", Grid: [3]int{1, 1, 1}, Block: [3]int{advanceThreads, 1, 1},
		Args: []uint64{ring, I(slots), I(stride), counter, run, I(capacity)},
	}
}

const advanceThreads = 256
