package nccl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/fault"
)

// A line joins rank 0 to all others, by TCP. It brings the name of the group to them, and tells of a rank that fails or
// ends: NCCL would wait for it. No sum goes over it.
type line struct {
	rank, size int
	conns      []net.Conn // at rank 0 of all others; elsewhere of rank 0

	mu     sync.Mutex
	err    error         // the first failure
	failed chan struct{} // closed with it
	byes   int
	ended  chan struct{} // closed when all others have said that they are done

	telling sync.Mutex // while the others are told of the failure
}

// Frames have a kind, the length of their text as 4 bytes, and the text.
const (
	name    = 'n' // of the group, from rank 0
	failure = 'f' // why the group has failed
	bye     = 'b' // a rank is done
)

// A hello is magic, the rank and the number of ranks.
const (
	magic     = "privgrad nccl 1\n"
	helloSize = len(magic) + 8
)

const (
	mostText = 1 << 16
	patience = 10 * time.Second // for what takes a moment: a hello, a word to another rank
	redial   = 50 * time.Millisecond
)

// raise says what to do about a rank that does not come.
const raise = "look for one that did not start or has stopped, or raise PRIVGRAD_RANK_TIMEOUT"

func newLine(rank, size int) *line {
	return &line{rank: rank, size: size, failed: make(chan struct{}), ended: make(chan struct{})}
}

// meet brings all ranks together, and gives each the name that rank 0 makes. address is where rank 0 listens.
func meet(rank, size int, address string, limit time.Duration, make func() (driver.NCCLID, error)) (*line, driver.NCCLID, error) {
	l := newLine(rank, size)
	var id driver.NCCLID
	var err error
	switch {
	case size == 1:
		id, err = make()
	case rank == 0:
		id, err = l.host(address, limit, make)
	default:
		id, err = l.visit(address, limit)
	}
	if err != nil {
		l.hangUp()
		return nil, id, err
	}
	for i, c := range l.conns {
		from := 0
		if rank == 0 {
			from = i + 1
		}
		go l.listen(from, c)
	}
	return l, id, nil
}

// A visitor is a process that has come to rank 0.
type visitor struct {
	conn       net.Conn
	rank, size int
}

// host waits at rank 0 for all others.
func (l *line) host(address string, limit time.Duration, make func() (driver.NCCLID, error)) (id driver.NCCLID, err error) {
	if id, err = make(); err != nil {
		return id, err
	}
	listener, err := net.Listen("tcp", here(address))
	if err != nil {
		return id, fmt.Errorf("rank 0 cannot listen at %s: %w; choose another MASTER_PORT", address, err)
	}
	defer listener.Close()
	come := visitors(listener)
	l.conns = append(l.conns, nils(l.size-1)...)
	late := time.NewTimer(limit)
	defer late.Stop()
	for missing := l.size - 1; missing > 0 && err == nil; missing-- {
		select {
		case v := <-come:
			err = l.admit(v)
		case <-late.C:
			err = fmt.Errorf("rank %s of %d has not come to %s within %s; %s", l.absent(), l.size, address, limit, raise)
		}
	}
	for _, c := range l.conns {
		switch {
		case c == nil:
		case err != nil:
			_ = send(c, failure, err.Error()) // it ends anyway
		default:
			if wrong := send(c, name, string(id[:])); wrong != nil {
				l.fail(fmt.Errorf("a rank cannot be told the name of the group: %w", wrong))
			}
		}
	}
	return id, err
}

func nils(n int) []net.Conn { return make([]net.Conn, n) }

// here is where rank 0 listens: the others' name for it may be none of this machine's own.
func here(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host == "localhost" || ip != nil && ip.IsLoopback() {
		return address
	}
	return ":" + port
}

// visitors reads the hello of whoever connects. Who says something else is sent away.
func visitors(from net.Listener) <-chan visitor {
	come := make(chan visitor)
	go func() {
		for {
			c, err := from.Accept()
			if err != nil {
				return
			}
			go func() {
				var hello [helloSize]byte
				_ = c.SetDeadline(time.Now().Add(patience))
				if _, err := io.ReadFull(c, hello[:]); err != nil || string(hello[:len(magic)]) != magic {
					c.Close()
					return
				}
				_ = c.SetDeadline(time.Time{})
				word := func(i int) int { return int(binary.LittleEndian.Uint32(hello[len(magic)+4*i:])) }
				select {
				case come <- visitor{c, word(0), word(1)}:
				case <-time.After(patience): // rank 0 has ended
					c.Close()
				}
			}()
		}
	}()
	return come
}

// admit keeps the line to a rank.
func (l *line) admit(v visitor) error {
	var err error
	switch {
	case v.size != l.size:
		err = fmt.Errorf("rank %d was started as one of %d, rank 0 as one of %d: start all with the same number of processes", v.rank, v.size, l.size)
	case v.rank < 1 || v.rank >= l.size:
		err = fmt.Errorf("a process says that it is rank %d of %d", v.rank, l.size)
	case l.conns[v.rank-1] != nil:
		err = fmt.Errorf("two processes say that they are rank %d of %d: give each its own RANK", v.rank, l.size)
	default:
		l.conns[v.rank-1] = v.conn
		return nil
	}
	_ = send(v.conn, failure, err.Error()) // it ends anyway
	v.conn.Close()
	return err
}

// absent names the ranks that have not come.
func (l *line) absent() string {
	var ranks []string
	for i, c := range l.conns {
		if c == nil {
			ranks = append(ranks, fmt.Sprint(i+1))
		}
	}
	return strings.Join(ranks, ", ")
}

// visit comes to rank 0, which may start later, and waits for its word.
func (l *line) visit(address string, limit time.Duration) (id driver.NCCLID, err error) {
	end := time.Now().Add(limit)
	var c net.Conn
	for c == nil {
		if c, err = net.DialTimeout("tcp", address, time.Until(end)); err == nil {
			break
		}
		if time.Until(end) < redial {
			return id, fmt.Errorf("rank 0 has not come to %s within %s (%w); %s", address, limit, err, raise)
		}
		time.Sleep(redial)
	}
	l.conns = []net.Conn{c}
	hello := binary.LittleEndian.AppendUint32([]byte(magic), uint32(l.rank))
	hello = binary.LittleEndian.AppendUint32(hello, uint32(l.size))
	_ = c.SetDeadline(end.Add(patience)) // rank 0 ends first, and says why
	if _, err = c.Write(hello); err != nil {
		return id, fmt.Errorf("rank 0 at %s does not listen: %w", address, err)
	}
	kind, text, err := receive(c)
	_ = c.SetDeadline(time.Time{})
	switch {
	case err == nil && kind == failure:
		return id, fmt.Errorf("rank 0: %s", text)
	case err == nil && kind == name && len(text) == len(id):
		copy(id[:], text)
		return id, nil
	case err == nil:
		err = errors.New("it speaks another language")
	}
	return id, fmt.Errorf("rank 0 at %s has not answered: %w; look for its error, or choose another MASTER_PORT", address, err)
}

func send(c net.Conn, kind byte, text string) error {
	if len(text) > mostText {
		text = text[:mostText]
	}
	b := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(text)))
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.Write(append(b, text...))
	return err
}

func receive(c net.Conn) (kind byte, text string, err error) {
	var head [5]byte
	if _, err = io.ReadFull(c, head[:]); err != nil {
		return 0, "", err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > mostText {
		return 0, "", errors.New("a word is too long")
	}
	b := make([]byte, n)
	_, err = io.ReadFull(c, b)
	return head[0], string(b), err
}

// listen hears what a rank says until it ends.
func (l *line) listen(rank int, c net.Conn) {
	var err error
	defer func() {
		if err != nil {
			l.fail(err)
		}
	}()
	defer fault.Recover(&err)
	for done := false; ; {
		kind, text, wrong := receive(c)
		switch {
		case wrong != nil && done:
			return
		case wrong != nil:
			err = fmt.Errorf("rank %d has ended without a word", rank)
			return
		case kind == failure && l.rank == 0:
			err = fmt.Errorf("rank %d: %s", rank, text)
			return
		case kind == failure:
			err = errors.New(text)
			return
		case kind == bye:
			done = true
			l.mu.Lock()
			if l.byes++; l.byes == len(l.conns) {
				close(l.ended)
			}
			l.mu.Unlock()
		}
	}
}

// heard is a failure that a rank is told of.
type heard struct{ error }

func (h heard) Unwrap() error { return h.error }

// fail keeps the first failure, and tells the others of it.
func (l *line) fail(err error) {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = heard{err}
		l.telling.Lock()
		defer l.telling.Unlock()
		close(l.failed)
	}
	l.mu.Unlock()
	for _, c := range l.conns {
		if first && c != nil {
			_ = send(c, failure, err.Error()) // who does not hear it has ended
		}
	}
}

// tell tells the others of this rank's own failure, of which rank 0 says whose it is.
func (l *line) tell(err error) {
	if l.rank == 0 {
		err = fmt.Errorf("rank 0: %w", err)
	}
	l.fail(err)
}

func (l *line) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// part ends the line when all ranks are done: rank 0 hears it from all others, and they from it.
func (l *line) part(limit time.Duration) error {
	if l.rank > 0 {
		_ = send(l.conns[0], bye, "")
	}
	if len(l.conns) > 0 {
		select {
		case <-l.ended:
		case <-l.failed:
			return l.failure()
		case <-time.After(limit):
			return fmt.Errorf("another rank has not ended within %s; %s", limit, raise)
		}
	}
	if l.rank == 0 {
		for _, c := range l.conns {
			_ = send(c, bye, "")
		}
	}
	return nil
}

func (l *line) hangUp() {
	l.telling.Lock() // a failure, of which all are told before
	defer l.telling.Unlock()
	for _, c := range l.conns {
		if c != nil {
			c.Close()
		}
	}
}
