package fake

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// NCCL says what the library of sums over several GPUs is like. Ranks are goroutines of one process, each with a Driver of its own.
type NCCL struct {
	Absent bool
	// Silent says that a rank does not learn that another one has left, as between GPUs of one machine.
	Silent bool
}

const ncclVersion = 22304

// Results of the library that callers see.
const (
	ncclInvalidArgument = 4
	ncclInvalidUsage    = 5
	ncclRemoteError     = 6
)

var ncclResults = map[int]string{
	ncclInvalidArgument: "ncclInvalidArgument", ncclInvalidUsage: "ncclInvalidUsage", ncclRemoteError: "ncclRemoteError",
}

func ncclFailure(call string, code int, log string, args ...any) *driver.Error {
	return &driver.Error{Call: call, Code: code, Name: ncclResults[code], Log: fmt.Sprintf(log, args...)}
}

func (d *Driver) NCCL() (int, error) {
	if d.options.NCCL.Absent {
		return 0, fmt.Errorf("looked for libnccl.so.2: this fake has none")
	}
	return ncclVersion, d.enter("ncclGetVersion")
}

// rooms are the groups of the process, by their names.
var rooms struct {
	sync.Mutex
	of map[driver.NCCLID]*room
}

// A room is where the ranks of a group meet.
type room struct {
	sync.Mutex
	size  int // 0 before the first has come
	ranks map[int]*Rank
	calls map[int]*call // by their number, of those that not all ranks have done
	err   *driver.Error // for all ranks
	left  bool          // one rank, at least
}

// A call is what the ranks have brought to one.
type call struct {
	what    string
	brought map[int][]byte
	taken   int
}

func (d *Driver) NewNCCLID() (id driver.NCCLID, err error) {
	if err := d.enter("ncclGetUniqueId"); err != nil {
		return id, err
	}
	rooms.Lock()
	defer rooms.Unlock()
	if rooms.of == nil {
		rooms.of = map[driver.NCCLID]*room{}
	}
	for i := range id {
		id[i] = byte(i + 1) // all bytes count, the last one too
	}
	binary.LittleEndian.PutUint64(id[len(id)-8:], uint64(len(rooms.of)+1))
	rooms.of[id] = &room{ranks: map[int]*Rank{}, calls: map[int]*call{}}
	return id, nil
}

// Rank implements driver.Rank.
type Rank struct {
	context *Context
	stream  *Stream
	room    *room
	rank    int
	ready   bool
	calls   int
	closed  bool
}

func (c *Context) NewRank(on driver.Stream, id driver.NCCLID, rank, size int) (driver.Rank, error) {
	s, ok := on.(*Stream)
	if !ok || s.context != c || !c.held[s] {
		return nil, ncclFailure("ncclAllReduce", ncclInvalidArgument, "the stream is no live one of this context")
	}
	k, err := c.Join(id, rank, size)
	if err != nil {
		return nil, err
	}
	return k, k.SetStream(s)
}

// SetStream says on which stream the next calls are, as each of NCCL's own does.
func (k *Rank) SetStream(s *Stream) error {
	if s.context != k.context || !k.context.held[s] {
		return ncclFailure("ncclAllReduce", ncclInvalidArgument, "the stream is no live one of the rank's context")
	}
	k.stream = s
	return nil
}

// Join is NewRank without a stream.
func (c *Context) Join(id driver.NCCLID, rank, size int) (*Rank, error) {
	const name = "ncclCommInitRankConfig"
	if err := c.enterUncaptured(name); err != nil {
		return nil, err
	}
	rooms.Lock()
	r := rooms.of[id]
	rooms.Unlock()
	if r == nil || size < 1 || rank < 0 || rank >= size {
		return nil, ncclFailure(name, ncclInvalidArgument, "rank %d of %d of a group that may have no such name", rank, size)
	}
	r.Lock()
	defer r.Unlock()
	if r.size == 0 {
		r.size = size
	}
	if r.size != size || r.ranks[rank] != nil {
		return nil, ncclFailure(name, ncclInvalidUsage, "rank %d of %d, in a group of %d", rank, size, r.size)
	}
	for _, other := range r.ranks {
		if other.context.driver == c.driver {
			return nil, ncclFailure(name, ncclInvalidUsage, "Duplicate GPU detected : rank %d and rank %d", other.rank, rank)
		}
	}
	k := &Rank{context: c, room: r, rank: rank}
	r.ranks[rank], c.held[k] = k, true
	return k, nil
}

// Ready implements driver.Rank. A call is taken up after the second question.
func (k *Rank) Ready() (bool, error) {
	const name = "ncclCommGetAsyncError"
	if err := k.enter(name); err != nil {
		return false, err
	}
	r := k.room
	r.Lock()
	defer r.Unlock()
	switch {
	case r.err != nil:
		e := *r.err
		e.Call = name
		return false, &e
	case r.left && !k.context.driver.options.NCCL.Silent:
		return false, ncclFailure(name, ncclRemoteError, "a rank has left")
	case len(r.ranks) < r.size:
		return false, nil
	}
	was := k.ready
	k.ready = true
	return was, nil
}

func (k *Rank) enter(call string) error {
	if err := k.context.enter(call); err != nil {
		return err
	}
	if k.closed {
		return ncclFailure(call, ncclInvalidArgument, "the rank has left")
	}
	return nil
}

func (k *Rank) Sum(at driver.Ptr, n int, of driver.Number) error {
	if of != driver.Int64 && of != driver.Float64 {
		return ncclFailure("ncclAllReduce", ncclInvalidArgument, "values of kind %d", of)
	}
	return k.put("ncclAllReduce", fmt.Sprintf("a sum of %d values of kind %d", n, of), at, 8*n, func(c *call) []byte {
		sum := slices.Clone(c.brought[k.rank]) // each begins with its own, so that floats get other bits
		for r := range k.room.size {
			for i := 0; i < len(sum) && r != k.rank; i += 8 {
				x, y := binary.LittleEndian.Uint64(sum[i:]), binary.LittleEndian.Uint64(c.brought[r][i:])
				if of == driver.Int64 {
					x += y
				} else {
					x = math.Float64bits(math.Float64frombits(x) + math.Float64frombits(y))
				}
				binary.LittleEndian.PutUint64(sum[i:], x)
			}
		}
		return sum
	})
}

func (k *Rank) Broadcast(at driver.Ptr, bytes, root int) error {
	if root < 0 || root >= k.room.size {
		return ncclFailure("ncclBroadcast", ncclInvalidArgument, "from rank %d of %d", root, k.room.size)
	}
	return k.put("ncclBroadcast", fmt.Sprintf("%d bytes of rank %d", bytes, root), at, bytes, func(c *call) []byte { return c.brought[root] })
}

// put puts a call on the stream, which is done when all ranks have brought what they have.
func (k *Rank) put(name, what string, at driver.Ptr, bytes int, make func(*call) []byte) error {
	if err := k.enter(name); err != nil {
		return err
	}
	if err := k.stream.check(name); err != nil {
		return err
	}
	memory := k.context.memory
	if !k.ready {
		return ncclFailure(name, ncclInvalidUsage, "the call before it has not been taken up")
	}
	if _, err := memory.Written(uint64(at), bytes); err != nil {
		return ncclFailure(name, ncclInvalidArgument, "%d bytes at %#x are not allocated", bytes, uint64(at))
	}
	number := k.calls
	k.ready, k.calls = false, k.calls+1
	k.stream.put(task{
		name:  name,
		ready: func() bool { return k.closed || k.room.bring(k, number, what, memory, at, bytes) },
		do: func() (time.Duration, error) {
			if k.closed {
				return 0, nil
			}
			return taskTime, memory.Write(uint64(at), k.room.take(number, make))
		},
	})
	return nil
}

// bring gives a rank's values to a call, once, and says whether all have come to it.
func (r *room) bring(k *Rank, number int, what string, memory *memory, at driver.Ptr, bytes int) bool {
	r.Lock()
	defer r.Unlock()
	c := r.calls[number]
	if c == nil {
		c = &call{what: what, brought: map[int][]byte{}}
		r.calls[number] = c
	}
	if c.brought[k.rank] == nil {
		b := slices.Repeat([]byte{poison}, bytes)
		if err := memory.Read(b, uint64(at)); err != nil || c.what != what {
			r.err = ncclFailure("", ncclInvalidUsage, "ranks make different calls: %s and %s (%v)", c.what, what, err)
			return false
		}
		c.brought[k.rank] = b
	}
	return len(c.brought) == r.size
}

// take makes a rank's result of a call.
func (r *room) take(number int, make func(*call) []byte) []byte {
	r.Lock()
	defer r.Unlock()
	c := r.calls[number]
	if c.taken++; c.taken == r.size {
		delete(r.calls, number)
	}
	return make(c)
}

func (k *Rank) Close() error {
	const name = "ncclCommAbort"
	if err := k.context.enterUncaptured(name); err != nil {
		return err
	}
	if err := k.context.drop(name, k); err != nil {
		return err
	}
	k.closed = true
	k.room.Lock()
	defer k.room.Unlock()
	k.room.left = true
	return nil
}
