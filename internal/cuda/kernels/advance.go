package kernels

// Advance lets a replayed graph see new inputs though its arguments are frozen.
// It copies slots of a ring into as many runs as a graph has steps: slot counter + k into run k, k < steps,
// which begins k·runStride bytes behind run. Then the counter, a uint64 in device memory below slots, grows by steps; behind
// the last slot comes the first, and steps is at most slots. A slot has the layout of Run and lies
// stride bytes after the one before; the ring is pinned host memory, at the
// address by which kernels read it. Addresses and strides are multiples of 16, and a slot may be read up to its capacity. Each row has
// each values of 4 bytes, its number and the words of its views: of all live rows the numbers come first, then the words, and only those are
// copied. A live count outside [0, capacity], capacity being what a run has room
// for, becomes the nearer end.
//
// Every graph begins with one Advance; the host may write a slot again
// when the graph that read it is done.
func Advance(ring Ptr, slots, stride int, counter, run Ptr, runStride, steps, capacity, each int) Launch {
	l := line("advance", "advance", 1, advanceThreads, ring, I(slots), I(stride), counter, run, I(runStride), I(steps), I(capacity))
	if each > 1 {
		l.Name, l.Args = "advance_words", append(l.Args, I(each))
	}
	return l
}

const advanceThreads = 512
