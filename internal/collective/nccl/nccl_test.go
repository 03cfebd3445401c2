package nccl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/collectivetest"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
)

// address is one where nobody listens.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// each runs f on every rank, the last one first, with a driver of its own, and gives their errors. No driver may keep anything.
func each(t *testing.T, size int, o Options, of func(rank int) fake.Options, f func(*group) error) []error {
	t.Helper()
	o.Address, o.Size, o.Chunk = address(t), size, 1<<20
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	errs := make([]error, size)
	drivers := make([]*fake.Driver, size)
	var w sync.WaitGroup
	for i := size - 1; i >= 0; i-- {
		drivers[i] = fake.New(of(i))
		w.Go(func() {
			o := o
			o.Rank = i
			g, err := Open(drivers[i], o)
			if err != nil {
				errs[i] = err
				return
			}
			errs[i] = f(g.(*group))
			if err := g.Close(); errs[i] == nil {
				errs[i] = err
			}
			if g.Barrier() == nil || g.Close() != nil {
				errs[i] = errors.New("a closed group goes on")
			}
		})
	}
	w.Wait()
	for i, d := range drivers {
		if n := d.Live(); n != 0 {
			t.Errorf("rank %d of %d leaves %d things of the driver", i, size, n)
		}
	}
	return errs
}

func plain(int) fake.Options { return fake.Options{} }

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		for i, err := range each(t, n, Options{}, plain, func(g *group) error { return collectivetest.Run(g) }) {
			if err != nil {
				t.Errorf("rank %d of %d: %v", i, n, err)
			}
		}
	}
}

// Where there is a GPU: a group of one rank, and one of all GPUs of the machine.
func TestGPU(t *testing.T) {
	if !gputest.On() {
		t.Skipf("%s is not set", gputest.Variable)
	}
	d := gputest.Driver(t)
	v, err := Version(d)
	if err != nil {
		t.Skip(err)
	}
	n, err := d.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, n} {
		at := address(t)
		errs := make([]error, size)
		var w sync.WaitGroup
		for i := range size {
			w.Go(func() {
				g, err := Open(d, Options{Rank: i, Size: size, GPU: i, Address: at, Limit: time.Minute})
				if err == nil {
					err = errors.Join(collectivetest.Run(g), g.Close())
				}
				errs[i] = err
			})
		}
		w.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("NCCL %s, %d ranks: %v", v, size, err)
		}
		t.Logf("NCCL %s, %d ranks", v, size)
	}
}

// die ends a line as the end of its process does.
func die(l *line) error {
	err := errors.New("dead")
	l.mu.Lock()
	l.err = err
	close(l.failed)
	l.mu.Unlock()
	l.hangUp()
	return err
}

// A rank that dies, that fails, or that stalls ends all others with a word that says which or what. The first error sticks.
func TestFaults(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, bad := range []int{0, 1} {
			for what, c := range map[string]struct {
				limit time.Duration
				does  func(*group) error
				want  string // of the others' errors
			}{
				"dies":   {time.Minute, func(g *group) error { return die(g.line) }, fmt.Sprintf("rank %d has ended without a word", bad)},
				"aborts": {time.Minute, func(g *group) error { g.Abort(errors.New("no power")); return g.Barrier() }, fmt.Sprintf("rank %d: no power", bad)},
				"stalls": {300 * time.Millisecond, func(g *group) error {
					<-g.line.failed // as when it comes at last
					return g.Barrier()
				}, "another rank has not come within 300ms"},
			} {
				errs := each(t, 3, Options{Limit: c.limit}, func(int) fake.Options { return fake.Options{NCCL: fake.NCCL{Silent: silent}} }, func(g *group) error {
					for k := range 6 {
						if g.Rank() == bad && k == 3 {
							return c.does(g)
						}
						if err := g.SumInt64([]int64{int64(k)}); err != nil {
							if again := g.Barrier(); again != err {
								return fmt.Errorf("%w, and then %v", err, again)
							}
							if k < 2 && what != "stalls" { // the last that the bad one has made may not be done here
								return fmt.Errorf("in call %d, and then %w", k, err)
							}
							return err
						}
					}
					return nil
				})
				for i, err := range errs {
					switch text := fmt.Sprint(err); {
					case err == nil:
						t.Errorf("rank %d %s: rank %d goes on", bad, what, i)
					case i != bad && (!strings.Contains(text, c.want) || !strings.HasPrefix(text, "NCCL: ") || strings.Contains(text, "then")):
						t.Errorf("rank %d %s: rank %d ends with %q, want %q", bad, what, i, text, c.want)
					case i == bad && what == "stalls" && !strings.Contains(text, c.want):
						t.Errorf("a rank that has stalled ends with %q", text)
					}
				}
			}
		}
	}
}

// Whatever call fails on a rank, all ranks end with its error.
func TestFailingCalls(t *testing.T) {
	for _, call := range []string{
		"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemAlloc", "ncclCommInitRankConfig", "ncclCommGetAsyncError", "cuMemcpyHtoD", "ncclAllReduce",
		"ncclBroadcast", "cuStreamQuery", "cuMemcpyDtoH", "run",
	} {
		errs := each(t, 2, Options{}, func(rank int) fake.Options {
			return fake.Options{Fail: func(c string, n int) int {
				if rank == 1 && c == call && n == 1 {
					return driver.Lost
				}
				return 0
			}}
		}, func(g *group) error {
			return errors.Join(g.SumInt64([]int64{1}), g.Broadcast(0, make([]byte, 9)))
		})
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "719") || i == 0 && !strings.Contains(err.Error(), "rank 1: ") {
				t.Errorf("%s fails on rank 1: rank %d ends with %v", call, i, err)
			}
		}
	}
}

// come is one process at the meeting.
func come(at string, rank, size int, limit time.Duration) (driver.NCCLID, error) {
	l, id, err := meet(rank, size, at, limit, func() (driver.NCCLID, error) { return driver.NCCLID{1, 2, 127: 3}, nil })
	if err != nil {
		return id, err
	}
	defer l.hangUp()
	return id, l.part(time.Minute)
}

func TestMeeting(t *testing.T) {
	type process struct{ rank, size int }
	for _, c := range []struct {
		name      string
		processes []process
		limit     time.Duration
		want      []string // of their errors
	}{
		{"all come", []process{{2, 3}, {1, 3}, {0, 3}}, time.Minute, []string{"", "", ""}},
		{"one never comes", []process{{2, 4}, {0, 4}}, 2 * time.Second, []string{"rank 0: rank 1, 3 of 4 has not come", "rank 1, 3 of 4 has not come"}},
		{"rank 0 never comes", []process{{1, 2}}, 200 * time.Millisecond, []string{"rank 0 has not come to"}},
		{"another number of processes", []process{{1, 3}, {0, 2}}, time.Minute, []string{"rank 0: rank 1 was started as one of 3, rank 0 as one of 2", "rank 1 was started as one of 3"}},
		{"a number twice", []process{{1, 3}, {1, 3}, {0, 3}}, time.Minute, []string{"two processes say that they are rank 1", "two processes say that they are rank 1", "two processes say that they are rank 1"}},
		{"a number too high", []process{{5, 2}, {0, 2}}, time.Minute, []string{"rank 5 of 2", "rank 5 of 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := address(t)
			var w sync.WaitGroup
			for i, p := range c.processes {
				w.Go(func() {
					id, err := come(at, p.rank, p.size, c.limit)
					if c.want[i] == "" && (err != nil || id != driver.NCCLID{1, 2, 127: 3}) || c.want[i] != "" && (err == nil || !strings.Contains(err.Error(), c.want[i])) {
						t.Errorf("rank %d of %d: %v, %v", p.rank, p.size, id, err)
					}
				})
			}
			w.Wait()
		})
	}
}

// Whoever else comes to the port disturbs nobody, and a rank 0 of another program is told from ours.
func TestStrangers(t *testing.T) {
	at := address(t)
	var w sync.WaitGroup
	w.Go(func() {
		if _, err := come(at, 0, 2, time.Minute); err != nil {
			t.Error(err)
		}
	})
	for said := 0; said < 3; {
		c, err := net.Dial("tcp", at)
		if err != nil {
			continue // rank 0 does not listen yet
		}
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
			t.Error(err)
		}
		said++
		if said == 3 {
			c.Close()
		} else {
			defer c.Close()
		}
	}
	if _, err := come(at, 1, 2, time.Minute); err != nil {
		t.Error(err)
	}
	w.Wait()

	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, answer := range []string{"", "x", "n\x03\x00\x00\x00abc", "f\xff\xff\xff\xff"} {
		w.Go(func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			hello := make([]byte, helloSize)
			if _, err := c.Read(hello); err != nil || string(hello[:len(magic)]) != magic || binary.LittleEndian.Uint32(hello[len(magic):]) != 1 {
				t.Errorf("a rank says %q: %v", hello, err)
			}
			if _, err := c.Write([]byte(answer)); err != nil {
				t.Error(err)
			}
		})
		if _, err := come(l.Addr().String(), 1, 2, time.Minute); err == nil || !strings.Contains(err.Error(), "choose another MASTER_PORT") {
			t.Errorf("an answer of %q: %v", answer, err)
		}
		w.Wait()
	}
}

func TestWhereRank0Listens(t *testing.T) {
	for at, want := range map[string]string{"localhost:1": "localhost:1", "127.0.0.1:2": "127.0.0.1:2", "[::1]:3": "[::1]:3", "node7:4": ":4", "10.0.0.7:5": ":5", "nothing": "nothing"} {
		if got := here(at); got != want {
			t.Errorf("the others find rank 0 at %s, and it listens at %q, want %q", at, got, want)
		}
	}
}

// bare is a driver without NCCL.
type bare struct{ driver.Driver }

// many has more GPUs than the fake.
type many struct{ driver.Driver }

func (many) Devices() (int, error) { return 4, nil }

func TestWhatIsMissing(t *testing.T) {
	f := fake.New(fake.Options{NCCL: fake.NCCL{Absent: true}})
	for d, want := range map[driver.Driver]string{f: "NCCL was not found: looked for libnccl.so.2", bare{f}: "has no NCCL"} {
		if _, err := Open(d, Options{Size: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without NCCL: %v, want %q", err, want)
		}
	}
	for _, c := range []struct {
		d           driver.Driver
		local, want int
	}{{f, 0, 0}, {f, 3, 0}, {many{f}, 3, 3}, {many{f}, 4, -1}} {
		got, err := Choose(c.d, c.local)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("process %d has GPU %d: %v", c.local, got, err)
		}
	}
	if g, err := Open(fake.New(fake.Options{}), Options{Size: 1, Limit: time.Minute}); err != nil {
		t.Error(err)
	} else if err := g.Broadcast(1, nil); err == nil || g.Close() != nil {
		t.Errorf("a broadcast from nowhere: %v", err)
	}
}

var _ collective.Group = (*group)(nil)
