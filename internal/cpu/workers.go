package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/fault"
)

// worker is one thread's scratch memory, grown once.
type worker struct {
	number  int
	b       gemm.PackedB
	ws      gemm.Workspace
	squares gemm.WinogradWork
	floats  []float32
	tree    pairwise

	images, gradients [][]float32 // by op, spread for a convolution's taps
	exact             exactWork
	gradient          []float32 // of an example, where it is not kept
	gramA, gramD      []float32 // columns and δ by position
	kept              []float32 // one example's gradients on their way into a partial sum
	view              *view     // on an evaluation
}

func (w *worker) scratch(n int) []float32 {
	w.floats = grow(w.floats, n)
	return w.floats
}

// workers are persistent goroutines. The caller of do is the first of them.
//
// A step is a few jobs, some of less than a tenth of a millisecond, and waking a thread took up to 0.1 ms where this was measured.
// So a worker without work looks for some before it sleeps, for as long as that has been worth it.
type workers struct {
	own      worker
	jobs     chan *job
	n        int
	mayLook  bool
	patience patience // of who waits for helpers
	job      job
}

// patience is how many times a worker looks before it sleeps. It grows where work came while it looked, and shrinks where it
// did not, as beside other programs that take the processors.
type patience int

// A look takes some 40 ns.
const (
	leastLooks = 64
	mostLooks  = 4096
)

// look asks whether the wait is over, for as long as patience lasts.
func (p *patience) look(over func() bool) bool {
	for range *p {
		if over() {
			*p = min(2**p, mostLooks)
			return true
		}
		pause()
	}
	*p = max(*p/2, leastLooks)
	return false
}

// pause lets some 40 ns pass.
func pause() {
	for range 100 {
	}
}

type job struct {
	tiles int
	next  atomic.Int64
	f     func(tile int, w *worker)
	wg    sync.WaitGroup
	fault atomic.Pointer[error] // the first one

	_    [64]byte     // who looks at it does not slow down who takes tiles
	left atomic.Int64 // of helpers, none of which is left before its wg.Done
}

func startWorkers(n int, prepare func(*worker)) *workers {
	ws := &workers{n: n, jobs: make(chan *job, n), patience: leastLooks}
	ws.mayLook = n <= runtime.GOMAXPROCS(0) // else who looks keeps others from working
	prepare(&ws.own)
	for i := range n - 1 {
		w := &worker{number: i + 1}
		prepare(w)
		go ws.help(w)
	}
	return ws
}

// help does jobs until stop.
func (ws *workers) help(w *worker) {
	var j *job
	more := true
	here := func() bool {
		select {
		case j, more = <-ws.jobs:
			return true
		default:
			return false
		}
	}
	p := patience(leastLooks)
	for {
		if !ws.mayLook || !p.look(here) {
			j, more = <-ws.jobs
		}
		if !more {
			return
		}
		j.run(w)
		j.wg.Done()
		j.left.Add(-1)
	}
}

// run works on tiles until none is left. A fault leaves none to anybody.
func (j *job) run(w *worker) {
	if err := j.take(w); err != nil {
		first := err // what err itself would keep on the heap, at every call
		j.next.Store(int64(j.tiles))
		j.fault.CompareAndSwap(nil, &first)
	}
}

func (j *job) take(w *worker) (err error) {
	defer fault.Recover(&err)
	fault.Map()
	for {
		t := int(j.next.Add(1)) - 1
		if t >= j.tiles {
			return nil
		}
		j.f(t, w)
	}
}

// do runs f for every tile and returns when all are done. Which worker takes a tile is
// left to chance. A fault of any of them is the caller's.
func (ws *workers) do(tiles int, f func(tile int, w *worker)) {
	j := &ws.job
	j.tiles, j.f = tiles, f
	j.next.Store(0)
	helpers := min(ws.n, tiles) - 1
	j.left.Store(int64(max(helpers, 0)))
	for range helpers {
		j.wg.Add(1)
		ws.jobs <- j
	}
	j.run(&ws.own)
	if ws.mayLook && helpers > 0 {
		ws.patience.look(j.over)
	}
	j.wg.Wait()
	if err := j.fault.Swap(nil); err != nil {
		fault.Raise(*err)
	}
}

// over says that no helper is at work. A helper of an earlier job, of which that has not waited, may still count itself off.
func (j *job) over() bool { return j.left.Load() <= 0 }

func (ws *workers) stop() { close(ws.jobs) }
