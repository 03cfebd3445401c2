package runtime

import (
	"errors"
	"fmt"
	"math"
	stdruntime "runtime"
	"slices"
	"sync"
	"unsafe"
)

// A Session is a graph that is ready to run. Goroutines that share one wait for each other: give each its own.
type Session struct {
	l         *Library
	in, out   []int
	allocator uintptr
	session   uintptr
	names     [2]uintptr // of the input and of the output
	values    [2]uintptr // tensors of the input and of the output, in the library's memory
	numbers   [2][]float32
	using     sync.Mutex // the numbers of one record must not meet those of another
}

// Open makes a session of a whole ONNX file, without data in other files: on the CPU, one operation after the other, each on one
// thread. The graph must have one input and one output of float32, whose first axis counts the records (1, or open); the other axes
// of the input must be fixed. A graph that gives two rows for the same record, because it draws random numbers, is refused.
func (l *Library) Open(model []byte) (*Session, error) {
	s := &Session{l: l}
	if err := s.open(model); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) open(model []byte) (err error) {
	if len(model) == 0 {
		return errors.New("the ONNX file is empty")
	}
	t := s.l.api
	if s.allocator, err = t.made(defaultAllocator); err != nil {
		return err
	}
	options, err := s.l.options()
	defer t.release(releaseSessionOptions, options)
	if err != nil {
		return err
	}
	var held stdruntime.Pinner
	defer held.Unpin()
	if s.session, err = t.made(createSessionFromArray, s.l.environment, address(&held, model), uintptr(len(model)), options); err != nil {
		return err
	}
	if err := s.name(); err != nil {
		return err
	}
	if s.in, err = s.inputShape(); err != nil {
		return err
	}
	if s.values[0], s.numbers[0], err = s.tensor(s.in); err != nil {
		return err
	}
	return s.probe()
}

// options fix all that a row could depend on but for the graph, the record and the library.
func (l *Library) options() (options uintptr, err error) {
	t := l.api
	if options, err = t.made(createSessionOptions); err != nil {
		return options, err
	}
	// The library's own pools of memory would learn shapes from one run for the next; a record's memory is had and freed instead.
	return options, errors.Join(
		t.done(setExecutionMode, options, sequential),
		t.done(setIntraOpThreads, options, 1),
		t.done(setInterOpThreads, options, 1),
		t.done(setGraphOptimization, options, allOptimizations),
		t.done(disableMemPattern, options),
		t.done(disableCPUMemArena, options),
	)
}

// name finds the names of the one input and of the one output.
func (s *Session) name() error {
	t := s.l.api
	for i, of := range []struct {
		what        string
		count, name function
	}{{"inputs", sessionInputCount, sessionInputName}, {"outputs", sessionOutputCount, sessionOutputName}} {
		n, err := t.made(of.count, s.session)
		if err == nil && n != 1 {
			err = fmt.Errorf("the graph has %d %s, and must have one: export it with one", n, of.what)
		}
		if err != nil {
			return err
		}
		if s.names[i], err = t.made(of.name, s.session, 0, s.allocator); err != nil {
			return err
		}
	}
	return nil
}

// inputShape is that of a record.
func (s *Session) inputShape() ([]int, error) {
	t := s.l.api
	info, err := t.made(sessionInputTypeInfo, s.session, 0)
	if err != nil {
		return nil, err
	}
	defer t.release(releaseTypeInfo, info)
	tensor, err := t.made(castTypeInfoToTensorInfo, info)
	if err != nil {
		return nil, err
	}
	axes, err := s.axes("input", tensor)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(axes[1:], func(n int64) bool { return n < 1 }) {
		return nil, fmt.Errorf("the graph's input has the axes %s, of which the first alone may be open: export it with fixed sizes", axesText(axes))
	}
	return record(axes), nil
}

// axes are those of a tensor of float32, of which the first is 1 or open. An open axis is -1.
func (s *Session) axes(what string, tensor uintptr) ([]int64, error) {
	t := s.l.api
	if tensor == 0 {
		return nil, fmt.Errorf("the graph's %s is no tensor", what)
	}
	kind, err := t.made(getTensorElementType, tensor)
	if err == nil && kind != ofFloats {
		err = fmt.Errorf("the graph's %s has elements of type %d, and must have float32: cast it in the graph", what, kind)
	}
	if err != nil {
		return nil, err
	}
	n, err := t.made(getDimensionsCount, tensor)
	if err == nil && n == 0 {
		err = fmt.Errorf("the graph's %s has no axes, and must have one that counts records", what)
	}
	if err != nil {
		return nil, err
	}
	axes := make([]int64, n)
	var held stdruntime.Pinner
	defer held.Unpin()
	if err := t.done(getDimensions, tensor, address(&held, axes), n); err != nil {
		return nil, err
	}
	if axes[0] != 1 && axes[0] != -1 {
		return nil, fmt.Errorf("the graph's %s has the axes %s, and records are run one at a time: export it with a first axis that is open, or 1", what, axesText(axes))
	}
	return axes, nil
}

// record gives the axes behind the first.
func record(axes []int64) []int {
	shape := make([]int, len(axes)-1)
	for i := range shape {
		shape[i] = int(axes[i+1])
	}
	return shape
}

func axesText(axes []int64) string {
	text := ""
	for i, n := range axes {
		if i > 0 {
			text += "×"
		}
		if n < 0 {
			text += "?"
		} else {
			text += fmt.Sprint(n)
		}
	}
	return text
}

// mostNumbers bounds a record and a row, as 2 GiB of memory.
const mostNumbers = 1 << 29

// tensor makes one of a record in the library's memory, and gives its numbers.
func (s *Session) tensor(shape []int) (value uintptr, numbers []float32, err error) {
	axes, size := []int64{1}, 1
	for _, n := range shape {
		if axes = append(axes, int64(n)); size > mostNumbers/max(n, 1) {
			return 0, nil, fmt.Errorf("a record of the graph has the axes %s, and at most %d numbers are run", axesText(axes), mostNumbers)
		}
		size *= n
	}
	t := s.l.api
	var held stdruntime.Pinner
	defer held.Unpin()
	if value, err = t.made(createTensor, s.allocator, address(&held, axes), uintptr(len(axes)), ofFloats); err != nil {
		return value, nil, err
	}
	data, err := t.made(getTensorData, value)
	if err != nil {
		return value, nil, err
	}
	return value, unsafe.Slice(at[float32](data), size), nil
}

// probe runs a made-up record twice: it finds the shape of a row, which need not be declared, and graphs that draw.
func (s *Session) probe() error {
	for i := range s.numbers[0] {
		s.numbers[0][i] = float32(i%7-3) / 4
	}
	t := s.l.api
	first, err := s.run(0)
	defer t.release(releaseValue, first)
	if err != nil {
		return err
	}
	if kind, err := t.made(getValueType, first); err != nil || kind != aTensor {
		return errors.Join(err, errors.New("the graph's output is no tensor"))
	}
	info, err := t.made(getTensorTypeAndShape, first)
	if err != nil {
		return err
	}
	defer t.release(releaseTensorInfo, info)
	axes, err := s.axes("output", info)
	if err != nil {
		return err
	}
	s.out = record(axes)
	if s.values[1], s.numbers[1], err = s.tensor(s.out); err != nil {
		return err
	}
	data, err := t.made(getTensorData, first)
	if err != nil {
		return err
	}
	if _, err := s.run(s.values[1]); err != nil {
		return err
	}
	same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	if !slices.EqualFunc(unsafe.Slice(at[float32](data), len(s.numbers[1])), s.numbers[1], same) {
		return errors.New("the graph gives two rows for the same record, so it draws random numbers: leave these operations out")
	}
	return nil
}

// run runs the input's numbers into a tensor; where that is 0, into a new one.
func (s *Session) run(out uintptr) (uintptr, error) {
	var held stdruntime.Pinner
	defer held.Unpin()
	outputs := []uintptr{out}
	err := s.l.api.done(run, s.session, 0,
		address(&held, s.names[:1]), address(&held, s.values[:1]), 1,
		address(&held, s.names[1:]), 1, address(&held, outputs))
	return outputs[0], err
}

// In is the shape of a record.
func (s *Session) In() []int { return slices.Clone(s.in) }

// Out is the shape of its row.
func (s *Session) Out() []int { return slices.Clone(s.out) }

// A Failure is of a record for which the graph cannot be run, such as one that makes an index outside of a table. That is a property of
// the record: where records are private, give it the row of a damaged record, and show neither the error nor its message.
type Failure struct {
	Message string // ONNX Runtime's, which may say something of the record
}

func (*Failure) Error() string { return "ONNX Runtime cannot run the graph for this record" }

// Run writes the row of one record. Both have as many numbers as their shapes say. An error is a *Failure, or says that a length is
// wrong or the session closed; dst is then as it was.
func (s *Session) Run(dst, record []float32) error {
	s.using.Lock()
	defer s.using.Unlock()
	switch {
	case s.session == 0:
		return errors.New("the session of ONNX Runtime is closed")
	case len(record) != len(s.numbers[0]) || len(dst) != len(s.numbers[1]):
		return fmt.Errorf("the graph takes a record of %d values to a row of %d, not %d to %d", len(s.numbers[0]), len(s.numbers[1]), len(record), len(dst))
	}
	copy(s.numbers[0], record)
	if _, err := s.run(s.values[1]); err != nil {
		return &Failure{err.Error()}
	}
	copy(dst, s.numbers[1])
	return nil
}

// Close frees the session. Nothing runs afterwards.
func (s *Session) Close() {
	s.using.Lock()
	defer s.using.Unlock()
	t := s.l.api
	for i := range s.names {
		t.release(releaseValue, s.values[i])
		if s.names[i] != 0 {
			_ = t.done(allocatorFree, s.allocator, s.names[i])
		}
	}
	t.release(releaseSession, s.session)
	s.names, s.values, s.numbers, s.session = [2]uintptr{}, [2]uintptr{}, [2][]float32{}, 0
}
