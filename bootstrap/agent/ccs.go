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

// ccsSide passes CCS requests from clients to a Charm++ program (docs/dev/decisions/0029-charm.md). Only the root has
// one. It asks the agent of the first process once for the number of PEs, processing elements, of each process.
type ccsSide struct {
	events  controlEvents
	over    <-chan struct{} // closed when the loop has ended
	last    atomic.Uint32   // ID of the newest request
	replies replies[ccsKey, wire.CCSReply]

	mu     sync.Mutex
	layout job.Layout
	pes    []uint32 // number of PEs of each process; nil until the agent of the first process has replied
}

// ccsKey identifies a request by its ID and the rank that must reply to it.
type ccsKey struct {
	id   uint32
	rank job.Slot
}

var errOver = errors.New("the job is over")

// send asks a rank, and waits for its reply, or until the caller is gone or the job over.
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

// table is the PEs of each process.
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

// resized forgets what held for another layout.
func (s *ccsSide) resized(l job.Layout) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.layout, s.pes = l, nil
}

// slot is where a process is.
func (s *ccsSide) slot(number job.Rank) job.Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.layout.Slot(number)
}

// answer answers a request.
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

// ask performs a request of type ccs that a client sent to the control socket.
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
	mostCCSClients = 64               // that are connected at a time
	ccsPatience    = 30 * time.Second // that a client may take for its request, or for the reply
)

// ccsPort accepts TCP connections of ordinary CCS clients, which do not use the control socket of ibrun.
type ccsPort struct {
	*ccsSide
	listener *net.TCPListener
	room     chan struct{} // one element for each client, and one while serve waits for the next; never closed
	keys     ccsKeys
	warnings atomic.Uint32
}

// mostCCSWarnings bounds what the user is told of clients: anybody here may try.
const mostCCSWarnings = 10

func (p *ccsPort) warn(format string, args ...any) {
	if p.warnings.Add(1) <= mostCCSWarnings {
		p.events.Warn(fmt.Sprintf(format, args...))
	}
}

// listenCCS opens the port of --ccs-port on the loopback: 0 is any. It tells by the words that such
// clients look for.
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

// serve takes clients until the port is closed. A client over the limit waits in the kernel's
// queue.
func (p *ccsPort) serve() {
	for {
		p.room <- struct{}{}
		c, err := p.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // no descriptors, say
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

// client answers one request. A bad one is answered by the end of the connection, as charmrun does.
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
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1)) // the end, or more than one request
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
