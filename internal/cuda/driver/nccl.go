package driver

// NCCL is what a Driver has besides where it can look for NCCL, NVIDIA's library by which GPUs add up what each of them has.
type NCCL interface {
	// NCCL is the version of the library that is installed, 22304 for 2.23.4. The error says what was looked for.
	NCCL() (int, error)
	// NewNCCLID names a new group. One rank asks for the name and gives it to the others.
	NewNCCLID() (NCCLID, error)
}

// NCCLID is the name of a group, by which its ranks find each other.
type NCCLID [128]byte

// NCCLContext is what a Context of such a Driver has besides.
type NCCLContext interface {
	// NewRank joins a group, in which each rank has a GPU of its own. It does not wait for the others: Ready does.
	NewRank(on Stream, id NCCLID, rank, size int) (Rank, error)
}

// Rank is one of a group. All ranks make the same calls in the same order, each with as many values. A call puts work on the stream,
// which is done when all ranks have come to it, and waits for nobody. The next one may begin when Ready says so.
type Rank interface {
	// Ready says whether the last call, or NewRank, has been taken up. Its error is that of anything that has failed
	// meanwhile, on this rank or on another one, and it stays.
	Ready() (bool, error)
	// Sum puts the sum over all ranks in the place of n values of 8 bytes. Integers wrap around. Of floats it is not promised that
	// all ranks get the same bits.
	Sum(at Ptr, n int, of Number) error
	// Broadcast puts the bytes of one rank in the place of those of all.
	Broadcast(at Ptr, bytes, root int) error
	// Close leaves the group at once, whatever the others do: work that is not done never will be.
	Close() error
}

// Number is a kind of values.
type Number int

// Kinds of values, with NCCL's own numbers.
const (
	Int64   Number = 4
	Float64 Number = 8
)
