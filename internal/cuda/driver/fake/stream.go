package fake

import (
	"fmt"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// A task is work on a stream.
type task struct {
	name string
	do   func() (time.Duration, error) // nil for an event's mark and a clock's; it says how long it takes
	mark *Event
	time *Clock
	// ready, unless nil, says whether the other ranks have come to it, for which the stream waits.
	ready func() bool
}

// Stream implements driver.Stream.
type Stream struct {
	context *Context
	queue   []task
	capture *capture
}

type capture struct {
	tasks   []task
	spoiled bool
}

func (c *Context) NewStream() (driver.Stream, error) {
	if err := c.enter("cuStreamCreate"); err != nil {
		return nil, err
	}
	s := &Stream{context: c}
	c.held[s] = true
	c.streams = append(c.streams, s)
	return s, nil
}

// Close implements driver.Stream. What the stream had to do is still done.
func (s *Stream) Close() error {
	c := s.context
	if err := c.enter("cuStreamDestroy"); err != nil {
		return err
	}
	if err := c.drop("cuStreamDestroy", s); err != nil {
		return err
	}
	c.advance(func() bool { return len(s.queue) == 0 })
	c.streams = slices.DeleteFunc(c.streams, func(o *Stream) bool { return o == s })
	return nil
}

// enter is the start of every call that puts work on the stream.
func (s *Stream) enter(call string) error {
	if err := s.context.enter(call); err != nil {
		return err
	}
	return s.check(call)
}

func (s *Stream) check(call string) error {
	if !s.context.held[s] {
		return failure(call, invalidHandle, "the stream is closed")
	}
	if s.capture != nil && s.capture.spoiled {
		return failure(call, captureSpoiled, "")
	}
	return nil
}

func (s *Stream) put(t ...task) {
	if s.capture != nil {
		s.capture.tasks = append(s.capture.tasks, t...)
		return
	}
	for _, x := range t {
		if x.time != nil {
			x.time.marked = true
			x.time.pending++
		}
	}
	s.queue = append(s.queue, t...)
}

// advance does work of any stream until there is none or done says so. It waits for other ranks.
func (c *Context) advance(done func() bool) {
	for !done() && c.lost == nil {
		if c.one() {
			continue
		}
		if !slices.ContainsFunc(c.streams, func(s *Stream) bool { return len(s.queue) > 0 }) {
			return
		}
		time.Sleep(10 * time.Microsecond)
	}
}

// one does the first task of a random stream, of those that wait for no other rank.
func (c *Context) one() bool {
	var busy []*Stream
	for _, s := range c.streams {
		if len(s.queue) > 0 && (s.queue[0].ready == nil || s.queue[0].ready()) {
			busy = append(busy, s)
		}
	}
	if len(busy) == 0 {
		return false
	}
	s := busy[c.random.IntN(len(busy))]
	t := s.queue[0]
	s.queue = s.queue[1:]
	if t.mark != nil {
		t.mark.pending--
		return true
	}
	if t.time != nil {
		t.time.pending--
		t.time.at = c.now
		return true
	}
	if code := c.driver.count("run"); code != 0 {
		c.stick(failure(t.name, code, ""))
		return true
	}
	took, err := t.do()
	if err != nil {
		c.stick(failure(t.name, fault(err), "%v", err))
	}
	c.now += took
	return true
}

// result is what a call reports after work was done.
func (c *Context) result(call string) error {
	if c.lost == nil {
		return nil
	}
	e := *c.lost
	e.Call = call
	return &e
}

func (s *Stream) Launch(l driver.Launch) error {
	const call = "cuLaunchKernel"
	if err := s.enter(call); err != nil {
		return err
	}
	f, ok := l.Function.(*Function)
	if !ok || f.module.context != s.context || !s.context.held[f.module] {
		return failure(call, invalidHandle, "the function is no live module's of this context")
	}
	if err := f.check(l); err != nil {
		return failure(call, invalidValue, "%s: %v", f.name, err)
	}
	l.Args = slices.Clone(l.Args)
	s.put(task{name: f.name, do: func() (time.Duration, error) {
		if !s.context.held[f.module] {
			return 0, fmt.Errorf("%s: its module was unloaded before it ran", f.name)
		}
		return f.run(s.context.memory, l, s.context.driver.options.Timer)
	}})
	return nil
}

func (s *Stream) Set(dst driver.Ptr, value uint32, n int) error {
	const call = "cuMemsetD32Async"
	if err := s.enter(call); err != nil {
		return err
	}
	if _, err := s.context.memory.Written(uint64(dst), 4*n); err != nil || n < 0 || dst%4 != 0 {
		return failure(call, invalidValue, "%d words at %#x are not allocated or not aligned", n, uint64(dst))
	}
	s.put(task{name: "fill", do: func() (time.Duration, error) {
		return s.context.driver.options.Timer.Fill(4 * n), s.context.memory.Fill(uint64(dst), value, n)
	}})
	return nil
}

func (s *Stream) Sync() error {
	const call = "cuStreamSynchronize"
	if err := s.context.enterUncaptured(call); err != nil {
		return err
	}
	if err := s.check(call); err != nil {
		return err
	}
	s.context.advance(func() bool { return len(s.queue) == 0 })
	return s.context.result(call)
}

// Query implements driver.Stream. One piece of work is done by the way, as time
// passes on a GPU.
func (s *Stream) Query() (bool, error) {
	const call = "cuStreamQuery"
	if err := s.context.enterUncaptured(call); err != nil {
		return false, err
	}
	if err := s.check(call); err != nil {
		return false, err
	}
	s.context.one()
	err := s.context.result(call)
	return err == nil && len(s.queue) == 0, err
}

func (c *Context) NewEvent() (driver.Event, error) {
	if err := c.enter("cuEventCreate"); err != nil {
		return nil, err
	}
	e := &Event{context: c}
	c.held[e] = true
	return e, nil
}

func (s *Stream) Record(event driver.Event) error {
	const call = "cuEventRecord"
	if err := s.enter(call); err != nil {
		return err
	}
	e, ok := event.(*Event)
	if !ok || !s.context.held[e] {
		return failure(call, invalidHandle, "the event is closed or another context's")
	}
	if e.captured = s.capture != nil; !e.captured {
		e.pending++
		s.put(task{mark: e})
	}
	return nil
}

// Event implements driver.Event.
type Event struct {
	context  *Context
	captured bool
	pending  int // marks that the streams have not come to
}

func (e *Event) enter(call string) error {
	if err := e.context.enterUncaptured(call); err != nil {
		return err
	}
	if !e.context.held[e] {
		return failure(call, invalidHandle, "the event is closed")
	}
	if e.captured {
		return failure(call, capturedEvent, "")
	}
	return nil
}

func (e *Event) Wait() error {
	if err := e.enter("cuEventSynchronize"); err != nil {
		return err
	}
	e.context.advance(func() bool { return e.pending == 0 })
	return e.context.result("cuEventSynchronize")
}

// Done implements driver.Event; see Query.
func (e *Event) Done() (bool, error) {
	if err := e.enter("cuEventQuery"); err != nil {
		return false, err
	}
	if e.pending > 0 {
		e.context.one()
	}
	err := e.context.result("cuEventQuery")
	return err == nil && e.pending == 0, err
}

func (e *Event) Close() error { return e.context.end("cuEventDestroy", e) }

// Graph implements driver.Graph.
type Graph struct {
	context *Context
	tasks   []task
}

// Capturing says whether a capture has begun.
func (s *Stream) Capturing() bool { return s.capture != nil }

func (s *Stream) Capture(f func() error) (driver.Graph, error) {
	if err := s.BeginCapture(); err != nil {
		return nil, err
	}
	failed := f()
	g, err := s.EndCapture()
	if failed != nil {
		if err == nil {
			_ = g.Close() // a context that is lost frees it
		}
		return nil, failed // a spoiled capture is its consequence
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// BeginCapture and EndCapture are the halves of Capture, as the driver API has them.
func (s *Stream) BeginCapture() error {
	const call = "cuStreamBeginCapture"
	if err := s.enter(call); err != nil {
		return err
	}
	if s.capture != nil {
		return failure(call, illegalState, "the stream captures already")
	}
	s.capture = &capture{}
	return nil
}

// EndCapture ends what BeginCapture began.
func (s *Stream) EndCapture() (*Graph, error) {
	const call = "cuStreamEndCapture"
	begun := s.capture
	s.capture = nil // whatever else is wrong
	if err := s.context.enter(call); err != nil {
		return nil, err
	}
	if begun == nil {
		return nil, failure(call, illegalState, "the stream does not capture")
	}
	if begun.spoiled {
		return nil, failure(call, captureSpoiled, "a call inside it is not allowed in captures")
	}
	if err := s.context.enter("cuGraphInstantiate"); err != nil {
		return nil, err
	}
	g := &Graph{s.context, begun.tasks}
	s.context.held[g] = true
	return g, nil
}

func (s *Stream) Run(graph driver.Graph) error {
	const call = "cuGraphLaunch"
	if err := s.enter(call); err != nil {
		return err
	}
	g, ok := graph.(*Graph)
	if !ok || !s.context.held[g] {
		return failure(call, invalidHandle, "the graph is closed or another context's")
	}
	if start := s.context.driver.options.Timer.Graph(); start > 0 {
		s.put(task{name: "graph", do: func() (time.Duration, error) { return start, nil }})
	}
	s.put(g.tasks...)
	return nil
}

// Close implements driver.Graph. Runs that were started are still done.
func (g *Graph) Close() error { return g.context.end("cuGraphExecDestroy", g) }
