package drivertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// A member is a rank with what belongs to it, current on the goroutine that made it.
type member struct {
	context driver.Context
	stream  driver.Stream
	rank    driver.Rank
	at      driver.Ptr
}

// join makes a rank that is alone, with some memory.
func join(d driver.Driver, memory int) (m member, err error) {
	of := d.(driver.NCCL)
	id, err := of.NewNCCLID()
	if err != nil {
		return m, err
	}
	if m.context, err = d.Open(0); err != nil {
		return m, err
	}
	for _, call := range []func() error{
		func() (err error) { m.at, err = m.context.Alloc(int64(memory)); return err },
		func() (err error) { m.stream, err = m.context.NewStream(); return err },
		func() (err error) {
			m.rank, err = m.context.(driver.NCCLContext).NewRank(m.stream, id, 0, 1)
			return err
		},
		func() error { return m.ready() },
	} {
		if err := call(); err != nil {
			return m, errors.Join(err, m.context.Close())
		}
	}
	return m, nil
}

// ready is when the rank takes the next call.
func (m member) ready() error {
	for {
		if ok, err := m.rank.Ready(); ok || err != nil {
			return err
		}
	}
}

// does makes a call and waits for its work.
func (m member) does(call error) error { return errors.Join(call, m.ready(), m.stream.Sync()) }

// alone is a group of one rank, whose sums are what it has.
func alone(t *testing.T, d driver.Driver) {
	m := Got(join(d, 24))(t)
	defer m.context.Close()
	want := binary.LittleEndian.AppendUint64(nil, math.MaxUint64)
	want = binary.LittleEndian.AppendUint64(want, math.Float64bits(-1.5))
	want = binary.LittleEndian.AppendUint64(want, 7)
	if err := m.context.CopyIn(m.at, want); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"integers":  func() error { return m.rank.Sum(m.at, 1, driver.Int64) },
		"floats":    func() error { return m.rank.Sum(m.at+8, 1, driver.Float64) },
		"broadcast": func() error { return m.rank.Broadcast(m.at, 24, 0) },
	} {
		got := make([]byte, 24)
		if err := errors.Join(m.does(call()), m.context.CopyOut(got, m.at)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s of one rank: %x, want %x: %v", what, got, want, err)
		}
	}
	for i, err := range []error{m.rank.Broadcast(m.at, 8, 1), m.rank.Close()} {
		if (err == nil) != (i == 1) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if m.rank.Close() == nil || m.rank.Sum(m.at, 1, driver.Int64) == nil {
		t.Error("a rank that has left goes on")
	}
	if _, err := m.context.(driver.NCCLContext).NewRank(m.stream, driver.NCCLID{}, 1, 1); err == nil {
		t.Error("a rank behind the last")
	}
	if err := m.context.Close(); err != nil {
		t.Error(err)
	}
}

// everyRank makes every call of the library once, where there is one.
func everyRank(d driver.Driver) error {
	l, ok := d.(driver.NCCL)
	if !ok {
		return nil
	}
	v, err := l.NCCL()
	if err != nil {
		return err
	}
	if v < 21400 {
		return fmt.Errorf("NCCL has version %d", v)
	}
	m, err := join(d, 8)
	if err != nil {
		return err
	}
	for _, call := range []func() error{
		func() error { return m.context.CopyIn(m.at, make([]byte, 8)) },
		func() error { return m.does(m.rank.Sum(m.at, 1, driver.Int64)) },
		func() error { return m.does(m.rank.Broadcast(m.at, 8, 0)) },
		func() error { return m.rank.Close() },
		func() error { return m.stream.Close() },
		func() error { return m.context.Free(m.at) },
	} {
		if err == nil {
			err = call()
		}
	}
	if closed := m.context.Close(); err == nil {
		err = closed
	}
	return err
}
