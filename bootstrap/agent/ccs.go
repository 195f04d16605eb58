package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// ccsSide passes requests of CCS clients to the processes of a Charm++ program, and returns the replies
// (docs/dev/decisions/0029-charm.md). Only the root has a ccsSide. At the first request, it asks the agent of process 0
// for the number of PEs (processing elements) of each process. It asks again after a change of the number of processes.
type ccsSide struct {
	events  controlEvents
	over    <-chan struct{} // closed when the loop has ended
	last    atomic.Uint32   // ID of the newest request; the first has ID 1
	replies replies[ccsKey, wire.CCSReply]

	mu     sync.Mutex
	layout job.Layout
	pes    []uint32 // number of PEs of each process of layout; nil if unknown
}

// ccsKey identifies a request by its ID and the rank that must reply to it.
type ccsKey struct {
	id   uint32
	rank job.Slot
}

// errOver means that a request has no reply, because the client has disconnected or the job has ended.
var errOver = errors.New("the job is over")

// send sends the request q to the process of a rank, and waits for its reply. The caller closes gone when the client
// has disconnected. If this happens or the job ends before the reply arrives, send returns errOver.
func (s *ccsSide) send(rank job.Slot, q ccs.Request, gone <-chan struct{}) ([]byte, error) {
	id := s.last.Add(1)
	reply, forget := s.replies.await(ccsKey{id, rank})
	defer forget()
	s.events.CCSAsked(core.CCSAsked{CCSRequest: wire.CCSRequest{ID: id, Rank: rank, Request: q}})
	select {
	case m := <-reply:
		if m.Trouble != "" {
			return nil, errors.New(m.Trouble)
		}
		return m.Data, nil
	case <-gone:
	case <-s.over:
	}
	return nil, errOver
}

// table returns the number of PEs of each process, in the order of the ranks. It asks the agent of rank 0 if the
// numbers are unknown.
func (s *ccsSide) table(gone <-chan struct{}) ([]uint32, error) {
	s.mu.Lock()
	pes, size := s.pes, s.layout.Ranks()
	s.mu.Unlock()
	if pes != nil {
		return pes, nil
	}
	b, err := s.send(s.slot(0), ccs.Request{Handler: ccs.InfoHandler}, gone)
	if err != nil {
		return nil, err
	}
	pes, ok := ccs.ParseCensus(b)
	if !ok || uint32(len(pes)) != size {
		return nil, errors.New("the agent of rank 0 told the PEs of other processes")
	}
	s.mu.Lock()
	if s.layout.Ranks() == size {
		s.pes = pes
	}
	s.mu.Unlock()
	return pes, nil
}

// resized stores the layout l that the job has after a change of its size, and discards the numbers of PEs of the old
// layout.
func (s *ccsSide) resized(l job.Layout) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.layout, s.pes = l, nil
}

// slot returns the slot of a rank in the present layout of the job.
func (s *ccsSide) slot(number job.Rank) job.Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.layout.Slot(number)
}

// answer returns the reply to the request q. It sends q to the process that has the PE q.First(), but answers a request
// to ccs.InfoHandler itself. The caller closes gone when the client has disconnected.
func (s *ccsSide) answer(q ccs.Request, gone <-chan struct{}) ([]byte, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	pes, err := s.table(gone)
	if err != nil || q.Handler == ccs.InfoHandler {
		return ccs.Census(pes), err
	}
	pe, all := q.First(), uint64(0)
	for number, n := range pes {
		if all += uint64(n); pe >= 0 && uint64(pe) < all {
			return s.send(s.slot(job.Rank(number)), q, gone)
		}
	}
	return nil, fmt.Errorf("there is no PE %d: the program has %d", pe, all)
}

// ask performs a request with the verb ccs that a client sent to the control socket.
func (s *ccsSide) ask(r caller) {
	pe := int32(-1)
	if r.PE != nil {
		pe = *r.PE
	}
	if pe < -1 {
		r.done("a PE is a number from 0 on")
		return
	}
	reply, err := s.answer(ccs.Request{Handler: r.Handler, PE: pe, Data: r.Data}, r.gone)
	if err != nil {
		r.done(err.Error())
		return
	}
	_ = r.put(control.Response{Reply: &control.Reply{Data: reply}, Done: true})
}

const (
	mostCCSClients = 64               // maximum number of connected clients
	ccsPatience    = 30 * time.Second // limit for reading a request, and for writing a reply
)

// ccsPort accepts TCP connections from programs that are clients of CCS but do not use the control socket of ibrun.
type ccsPort struct {
	*ccsSide
	listener *net.TCPListener
	room     chan struct{} // one element for each client, and one while serve waits for the next; never closed
	keys     ccsKeys
	warnings atomic.Uint32
}

// mostCCSWarnings is the maximum number of warnings about clients. It is limited because every process on this machine
// can connect.
const mostCCSWarnings = 10

func (p *ccsPort) warn(format string, args ...any) {
	if p.warnings.Add(1) <= mostCCSWarnings {
		p.events.Warn(fmt.Sprintf(format, args...))
	}
}

// listenCCS opens the TCP port with the given number on 127.0.0.1, for --ccs-port. If number is 0, the kernel chooses a
// port. listenCCS prints the address by a call of warn, in the words of charmrun, which CCS clients search for.
func (s *ccsSide) listenCCS(number uint16, keys ccs.Keys, warn func(string)) (*ccsPort, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(number)})
	if err != nil {
		return nil, fmt.Errorf("--ccs-port %d: %w", number, err)
	}
	p := &ccsPort{ccsSide: s, listener: l, room: make(chan struct{}, mostCCSClients),
		keys: ccsKeys{known: keys}}
	warn(fmt.Sprintf("ccs: Server IP = 127.0.0.1, Server port = %d $", l.Addr().(*net.TCPAddr).Port))
	go p.serve()
	return p, nil
}

// serve accepts clients until the listener is closed. While mostCCSClients are connected, further clients wait in the
// kernel's queue.
func (p *ccsPort) serve() {
	for {
		p.room <- struct{}{}
		c, err := p.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // for example, the process has no free descriptor
			<-p.room
			continue
		}
		go func() {
			defer func() { <-p.room }()
			defer c.Close()
			p.client(c)
		}()
	}
}

// client reads one request from c and writes the reply. If the request is invalid or has no reply, client returns
// without a reply, and the caller closes the connection, as charmrun does.
func (p *ccsPort) client(c *net.TCPConn) {
	uid, err := spawn.Caller(c)
	if err != nil || uid != os.Geteuid() {
		if err == nil {
			p.warn("user %d of this machine calls the port for CCS, and is not answered", uid)
		}
		return
	}
	_ = c.SetDeadline(time.Now().Add(ccsPatience))
	head, answer, done, err := p.keys.admit(c)
	if err != nil {
		p.warn("a client of CCS is refused: %v", err)
	}
	if done || err != nil {
		return
	}
	q, rest, err := ccs.ParseRequest(head)
	if err == nil {
		q.Data = make([]byte, rest)
		if _, err := io.ReadFull(c, q.Data); err != nil {
			return
		}
	}
	_ = c.SetDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1)) // until the client disconnects or sends more
	}()
	var reply []byte
	if err == nil {
		reply, err = p.answer(q, gone)
	}
	if err != nil && !errors.Is(err, errOver) {
		p.warn("a request of CCS to %.32q is refused: %v", q.Handler, err)
	}
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(ccsPatience))
	_, _ = c.Write(append(binary.BigEndian.AppendUint32(answer, uint32(len(reply))), reply...))
}
