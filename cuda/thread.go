package cuda

import (
	"runtime"
	"sync"

	"github.com/privgrad/privgrad/internal/fault"
)

// thread runs functions one at a time on one operating system thread, since a
// driver's context is current on the thread that opened it and nowhere else.
type thread struct {
	mu     sync.Mutex // held while a function runs
	work   chan func() error
	done   chan error
	closed bool
}

func startThread() *thread {
	t := &thread{work: make(chan func() error), done: make(chan error)}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its context with it
		for f := range t.work {
			t.done <- guarded(f)
		}
	}()
	return t
}

// guarded makes an error of a fault, which must not end the process.
func guarded(f func() error) (err error) {
	defer fault.Recover(&err)
	return f()
}

// do runs f and waits for it.
func (t *thread) do(f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	t.work <- f
	return <-t.done
}

// stop runs f as the last function; later calls do nothing.
func (t *thread) stop(f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	t.work <- f
	err := <-t.done
	close(t.work)
	return err
}
