//go:build mpi

package mpi

/*
#include <mpi.h>
#include <sched.h>
#include <stdint.h>

static MPI_Comm group;

static int start(int *rank, int *size) {
	int is, has;
	MPI_Initialized(&is);
	if (!is && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &has) != MPI_SUCCESS) return -1;
	MPI_Query_thread(&has);
	if (has < MPI_THREAD_SERIALIZED) return -2;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int e = MPI_Comm_dup(MPI_COMM_WORLD, &group);
	if (e != MPI_SUCCESS) return e;
	MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
	MPI_Comm_rank(group, rank);
	return MPI_Comm_size(group, size);
}

// The requests of a group: one at a time.
static MPI_Request pending;

static int sum_ints(void *v, int n) { return MPI_Iallreduce(MPI_IN_PLACE, v, n, MPI_INT64_T, MPI_SUM, group, &pending); }

static int sum_floats(void *v, int n, int rank) {
	return MPI_Ireduce(rank == 0 ? MPI_IN_PLACE : v, rank == 0 ? v : NULL, n, MPI_DOUBLE, MPI_SUM, 0, group, &pending);
}

static int broadcast(void *v, int n, int root) { return MPI_Ibcast(v, n, MPI_BYTE, root, group, &pending); }

static int barrier(void) { return MPI_Ibarrier(group, &pending); }

// done asks whether the request is done, up to n times, and lets other processes run in between.
static int done(int *flag, int n) {
	for (;;) {
		int e = MPI_Test(&pending, flag, MPI_STATUS_IGNORE);
		if (e != MPI_SUCCESS || *flag || --n == 0) return e;
		sched_yield();
	}
}

static void end(void) { MPI_Abort(MPI_COMM_WORLD, 1); }

static int finish(void) { return MPI_Finalize(); }

static int explain(int code, char *text) {
	int n = 0;
	MPI_Error_string(code, text, &n);
	return n;
}

enum { most_text = MPI_MAX_ERROR_STRING };
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/privgrad/privgrad/internal/collective"
)

// Built says whether this program has MPI.
const Built = true

// Open joins the processes that mpirun, mpiexec or srun has started. A call fails where the others have not come within the limit.
func Open(limit time.Duration) (collective.Group, error) {
	var r, n C.int
	switch e := C.start(&r, &n); {
	case e == -1:
		return nil, errors.New("MPI does not start: begin the program by mpirun")
	case e == -2:
		return nil, errors.New("this MPI serves one thread of a process alone: use a build with MPI_THREAD_SERIALIZED")
	case e != C.MPI_SUCCESS:
		return nil, failure("starting", e)
	}
	return &group{rank: int(r), size: int(n), limit: limit}, nil
}

type group struct {
	rank, size int
	limit      time.Duration
	err        error
}

func (g *group) Rank() int { return g.rank }
func (g *group) Size() int { return g.size }

func failure(what string, code C.int) error {
	text := make([]byte, C.most_text)
	n := C.explain(code, (*C.char)(unsafe.Pointer(&text[0])))
	return fmt.Errorf("MPI: %s: %s", what, text[:n])
}

// For a while the polls of a request follow each other at once, so many at a time. Between later ones the process sleeps.
const (
	awake = time.Millisecond
	polls = 64
)

// wait is for the request that begin makes, of memory that Go must not move.
func (g *group) wait(what string, begin func() C.int, memory unsafe.Pointer) error {
	if g.err != nil {
		return g.err
	}
	var pin runtime.Pinner
	if memory != nil {
		pin.Pin(memory)
	}
	defer pin.Unpin()
	if e := begin(); e != C.MPI_SUCCESS {
		g.err = failure(what, e)
		return g.err
	}
	started := time.Now()
	var flag C.int
	for n := C.int(polls); ; {
		if e := C.done(&flag, n); e != C.MPI_SUCCESS {
			g.err = failure(what, e)
			return g.err
		}
		if flag != 0 {
			return nil
		}
		waited := time.Since(started)
		if waited > g.limit {
			g.err = fmt.Errorf("MPI: %s: another rank has not come within %s; look for one that has stopped, or raise PRIVGRAD_RANK_TIMEOUT", what, g.limit)
			g.Abort(g.err) // MPI still holds the memory
			return g.err
		}
		if waited > awake {
			n = 1
			collective.Nap(waited)
		}
	}
}

// most values of one request, whose count is an int.
const most = 1 << 28

func chunks[T any](g *group, what string, v []T, begin func(p unsafe.Pointer, n C.int) C.int) error {
	for len(v) > 0 {
		n := min(len(v), most)
		p := unsafe.Pointer(&v[0])
		if err := g.wait(what, func() C.int { return begin(p, C.int(n)) }, p); err != nil {
			return err
		}
		v = v[n:]
	}
	return g.err
}

func (g *group) SumInt64(values []int64) error {
	return chunks(g, "a sum", values, func(p unsafe.Pointer, n C.int) C.int { return C.sum_ints(p, n) })
}

// SumFloat64 adds up at rank 0, whose bits all ranks get.
func (g *group) SumFloat64(values []float64) error {
	if err := chunks(g, "a sum", values, func(p unsafe.Pointer, n C.int) C.int { return C.sum_floats(p, n, C.int(g.rank)) }); err != nil || len(values) == 0 {
		return err
	}
	return g.Broadcast(0, unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 8*len(values)))
}

func (g *group) Broadcast(root int, data []byte) error {
	if root < 0 || root >= g.size {
		return fmt.Errorf("there is no rank %d of %d", root, g.size)
	}
	return chunks(g, "a message", data, func(p unsafe.Pointer, n C.int) C.int { return C.broadcast(p, n, C.int(root)) })
}

func (g *group) Barrier() error {
	return g.wait("a barrier", func() C.int { return C.barrier() }, nil)
}

// Abort ends all processes of the job, this one too.
func (g *group) Abort(err error) {
	fmt.Fprintf(os.Stderr, "privgrad: rank %d: %v\n", g.rank, err)
	C.end()
}

func (g *group) Close() error {
	if g.err != nil {
		return g.err
	}
	g.err = errors.New("the group is closed")
	if e := C.finish(); e != C.MPI_SUCCESS {
		return failure("ending", e)
	}
	return nil
}
