// Package charm implements the server side of the protocol between charmrun and Charm++ programs of the machine layer
// netlrts. It has two parts. The first part encodes and parses frames, the table of processes in the three forms that
// versions of Charm++ expect, the input that a call of scanf consumes, and the requests of CCS clients (package ccs).
// The second part is Server, which serves all such programs of one node. A Server translates their frames into messages
// from ranks to the agent (package rankwire), and the agent's answers into frames.
//
//	connection --initnode--> greeted --Welcome--> in the collective that makes the table --Release--> running
//	running: barrier, barrier0 and ending become collectives of the job; print, scanf and CCS requests do not
//	ending --Release--> released: the connection is closed, and the exit status of the program is ignored
//
// The package performs no I/O and starts no goroutine; the loop of the agent calls the Server. The agent must refuse
// connections of other users, and must map the PE of a CCS request to the rank that gets the request.
// docs/dev/decisions/0029-charm.md has the design.
package charm

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Effect is one of the types below.
type Effect any

type (
	// Bytes go to a program.
	Bytes struct {
		Call  uint32
		Bytes []byte
	}
	// ClientFrame is a frame that the core takes as if the rank had sent it.
	ClientFrame struct {
		Rank job.Slot
		Msg  frame.Message
	}
	// Admit says that a connection is a rank's, and ends with it.
	Admit struct {
		Call uint32
		Rank job.Slot
	}
	// HangUp ends a connection when all bytes to it are written.
	HangUp struct{ Call uint32 }
	// Hold lets a connection be read no further, or again.
	Hold struct {
		Call uint32
		Held bool
	}
	// Mute asks for Muted, when all that a rank has written to its descriptors has been read: what
	// it writes there then comes as frames, too.
	Mute struct{ Rank job.Slot }
	// PrintText is text that a rank has printed to standard output (Stream 1) or standard error (Stream 2). The
	// Server returns the next PrintText of the same stream after Resumed was called.
	PrintText struct {
		Rank   job.Slot
		Stream uint8
		Text   []byte
	}
	// InputRead says that a rank has taken N bytes of input.
	InputRead struct {
		Rank job.Slot
		N    int
	}
	// Drained says that all that a rank has printed was handed out.
	Drained struct{ Rank job.Slot }
	// Replied answers a request of a client.
	Replied struct {
		ID      uint32
		Rank    job.Slot
		Trouble string // why there is no reply; empty: Data is it
		Data    []byte
	}
	// FirstClient says that a rank of this node has said initnode; it comes once.
	FirstClient struct{}
	// Warn is for the user.
	Warn struct{ Text string }
)

// Server is one node's.
type Server struct {
	job    *job.Job
	node   job.Node
	addr   [4]byte
	conns  map[uint32]*conn
	ranks  []rank // of this node
	joined bool   // a program has come
	table  table
	asked  requests
	out    []Effect
}

// conn is a connection.
type conn struct {
	call uint32
	in   Reader
	rank *rank // nil before initnode
	over bool  // not listened to any more
}

// rank is a rank of this node.
type rank struct {
	slot   job.Slot
	number job.Rank
	pes    uint32 // that its process has; 0: the rank is no program of Charm++
	prints bool   // frames are its output, and not its descriptors
	init   Init
	conn   *conn // nil: none, or it is gone
	op     uint32
	open   map[uint32]step // collectives that it waits for
	text   text
	input  input
	held   [][]byte // requests that came while it was muted

	resizes bool            // it can go on with another number of processes
	again   bool            // it executes itself again: initnode comes once more
	change  rankwire.Resize // the last that it was told of

	greeted  bool // it has said initnode
	welcomed bool // by the core
	muting   bool // it gets the table when all that its descriptors have is read
	running  bool // it has the table
	ended    bool // it has said ending
	released bool // all have
	failed   bool // it was told to die
	over     bool // its process has ended
	code     uint8
}

// step is a collective that a rank waits for.
type step uint8

const (
	stepTable step = iota
	stepBarrier
	stepBarrier0
	stepEnding
	stepResize
)

// NewServer returns the server for node n of job j. The first collective of each rank gets the number op+1, because
// earlier starts of the ranks have used the numbers up to op.
func NewServer(j *job.Job, n job.Node, op uint32) *Server {
	s := &Server{job: j, node: n, conns: map[uint32]*conn{}, asked: requests{open: map[uint32]request{}}}
	for i := range n.Ranks {
		slot := n.First + job.Slot(i)
		s.ranks = append(s.ranks, rank{slot: slot, number: j.Layout.Rank(slot), op: op})
	}
	return s
}

// Place says by which address other nodes reach this one.
func (s *Server) Place(addr [4]byte) { s.addr = addr }

// Expect says that a rank is a program of Charm++, started with as many PEs. What it prints is
// taken from frames if prints is true, and from its descriptors otherwise. If resizes is true it is
// built for another number of processes as it runs, and ends as such programs do.
func (s *Server) Expect(slot job.Slot, pes uint32, prints, resizes bool) {
	r := s.local(slot)
	r.pes, r.prints, r.resizes = max(pes, 1), prints, resizes
}

// Expects reports whether a rank is a program of Charm++.
func (s *Server) Expects(slot job.Slot) bool { return s.here(slot) && s.local(slot).pes > 0 }

// IsClient reports whether a rank has said initnode: what the core tells it is ours.
func (s *Server) IsClient(slot job.Slot) bool { return s.here(slot) && s.local(slot).greeted }

// Prints reports whether what a rank prints comes as frames.
func (s *Server) Prints(slot job.Slot) bool {
	return s.here(slot) && s.local(slot).prints && s.local(slot).running
}

// Awaits reports whether others may wait for a rank: it has joined them and not taken its leave.
func (s *Server) Awaits(slot job.Slot) bool {
	r := s.local(slot)
	return r.greeted && !r.ended && s.job.Size > 1
}

// Code is the exit code of a rank that has said ending, after which that of its process says
// nothing.
func (s *Server) Code(slot job.Slot) (code uint8, ended bool) {
	r := s.local(slot)
	return r.code, r.ended
}

func (s *Server) here(slot job.Slot) bool {
	return slot >= s.node.First && uint32(slot-s.node.First) < s.node.Ranks
}

func (s *Server) local(slot job.Slot) *rank { return &s.ranks[slot-s.node.First] }

func (s *Server) do(e Effect) { s.out = append(s.out, e) }

// done hands the effects out.
func (s *Server) done() []Effect {
	out := s.out
	s.out = nil
	return out
}

func (s *Server) warn(format string, args ...any) { s.do(Warn{fmt.Sprintf(format, args...)}) }

// send sends a program bytes, if it is there.
func (s *Server) send(r *rank, b []byte) {
	if r.conn != nil {
		s.do(Bytes{r.conn.call, b})
	}
}

// Receive takes what has come by a connection, in whatever pieces. Calls are numbered from 1; a
// number does not come again.
func (s *Server) Receive(call uint32, b []byte) []Effect {
	c := s.conns[call]
	if c == nil {
		c = &conn{call: call}
		s.conns[call] = c
	}
	if c.over {
		return nil
	}
	c.in.Feed(b)
	for !c.over {
		f, ok, err := c.in.Next()
		switch {
		case err != nil:
			s.refuse(c, err)
		case !ok:
			return s.done()
		case c.rank == nil:
			s.greet(c, f)
		default:
			s.obey(c.rank, f)
		}
	}
	return s.done()
}

// refuse ends a connection. Who has not said initnode is not one of ours, and no matter for the
// user.
func (s *Server) refuse(c *conn, why error) {
	c.over = true
	if c.rank != nil {
		s.warn("rank %d sent what no program of Charm++ sends: %v", c.rank.number, why)
	}
	s.do(HangUp{c.call})
}

// greet takes a connection's first frame.
func (s *Server) greet(c *conn, f Frame) {
	in, err := ParseInit(f.Data)
	slot, known := job.Slot(0), false
	if f.Type == InitNode && in.Process < s.job.Size {
		slot = s.job.Layout.Slot(job.Rank(in.Process))
		known = s.Expects(slot)
	}
	if !known {
		s.refuse(c, nil)
		return
	}
	r := s.local(slot)
	switch {
	case err != nil:
		s.die(c, err.Error())
		s.warn("rank %d: %v", r.number, err)
		return
	case r.greeted && !r.again || r.over:
		s.die(c, "another program speaks for this process already")
		return
	}
	c.rank, r.conn, r.init, r.greeted = r, c, in, true
	s.do(Admit{c.call, slot})
	if r.again {
		r.again, r.welcomed = false, true
		s.joinTable(r)
		return
	}
	if !s.joined {
		s.joined = true
		s.do(FirstClient{})
	}
	s.report(r, rankwire.Hello{})
}

// die ends a program that waits for the table.
func (s *Server) die(c *conn, why string) {
	c.over = true
	s.do(Bytes{c.call, Append(nil, Die, len(why)+1, append([]byte(why), 0)...)})
	s.do(HangUp{c.call})
}

// report says something to the core on behalf of a rank.
func (s *Server) report(r *rank, m frame.Message) { s.do(ClientFrame{r.slot, m}) }

// join joins the next collective.
func (s *Server) join(r *rank, what step, parcels ...rankwire.Parcel) {
	r.op++
	if r.open == nil {
		r.open = map[uint32]step{}
	}
	r.open[r.op] = what
	m := rankwire.Collect{Op: r.op, Parcels: rankwire.NewParcels(parcels...)}
	switch what {
	case stepTable, stepEnding:
		m.What = rankwire.AllGather
	case stepResize:
		m.What = rankwire.Resizing
	case stepBarrier0:
		m.What = rankwire.Gather // of nothing, at rank 0
	}
	s.report(r, m)
}

// obey does what a frame of a program asks for.
func (s *Server) obey(r *rank, f Frame) {
	switch f.Type {
	case Ping: // expects no reply: the program only tests the connection
	case Print, PrintErr, PrintSyn, PrintErrSyn:
		s.print(r, f)
	case Scanf:
		s.scanf(r, f.Text())
	case Abort:
		s.abort(r, f.Text())
	case ReplyFw:
		s.replied(r, f.Data)
	case Ending:
		s.ending(r, f.Text())
	case Realloc:
		s.realloc(r, f.Data)
	case Barrier, Barrier0:
		switch {
		case !r.running:
			s.refuse(r.conn, fmt.Errorf("%s before the table", f.Type))
		case r.ended: // it has been counted
		case f.Type == Barrier:
			s.join(r, stepBarrier)
		default:
			s.join(r, stepBarrier0)
		}
	default:
		s.warn("rank %d: a request of Charm++ that ibrun does not know: %s", r.number, f.Type)
	}
}

// maxText is how much of what a program says at its end is told of, in bytes.
const maxText = 1000

// abort ends the job as a program wants it.
func (s *Server) abort(r *rank, text string) {
	if r.ended {
		return
	}
	s.report(r, rankwire.Abort{Code: 1, Text: text[:min(len(text), maxText)]})
}

// Closed takes the end of a connection.
func (s *Server) Closed(call uint32) []Effect {
	c := s.conns[call]
	delete(s.conns, call)
	if c != nil && c.rank != nil && c.rank.conn == c {
		c.rank.conn = nil
		s.unanswered(c.rank)
	}
	return s.done()
}

// Exited takes the end of a rank's process; well: its code was 0.
func (s *Server) Exited(slot job.Slot, well bool) []Effect {
	r := s.local(slot)
	if well && s.Awaits(slot) && !r.failed {
		s.report(r, rankwire.Abort{Code: 1, Text: "its program ended without CkExit"})
	}
	r.over = true
	s.unanswered(r)
	return s.done()
}

// Deliver takes what the core tells a rank.
func (s *Server) Deliver(slot job.Slot, m frame.Message) []Effect {
	r := s.local(slot)
	switch m := m.(type) {
	case rankwire.Welcome:
		if !r.welcomed {
			r.welcomed, r.op = true, m.Op
			s.joinTable(r)
		}
	case rankwire.Resize:
		s.resize(r, m)
	case rankwire.Follow:
		s.follow(r, m)
	case rankwire.Refused:
		s.fail(r, m.Text)
	case rankwire.Release:
		s.release(r, m)
	}
	return s.done()
}

// fail ends a rank's program, and the job.
func (s *Server) fail(r *rank, why string) {
	if r.failed || r.over {
		return
	}
	r.failed = true
	if r.conn != nil {
		s.die(r.conn, why)
	}
	s.report(r, rankwire.Abort{Code: 1, Text: why[:min(len(why), maxText)]})
}

// release takes the end of a collective.
func (s *Server) release(r *rank, m rankwire.Release) {
	what, open := r.open[m.Op]
	delete(r.open, m.Op)
	if !open || r.over {
		return
	}
	if m.Trouble != "" {
		s.fail(r, "it waits in a barrier of Charm++ in vain: "+m.Trouble)
		return
	}
	switch what {
	case stepTable:
		s.begin(r, m.Parcels)
	case stepBarrier:
		s.send(r, Reply(Barrier))
	case stepBarrier0:
		if r.number == 0 {
			s.send(r, Reply(Barrier0))
		}
	case stepEnding:
		s.allEnded(r, m.Parcels)
	case stepResize:
		s.resized(r)
	}
}

// all reports whether all ranks of this node are so.
func (s *Server) all(so func(*rank) bool) bool {
	return !slices.ContainsFunc(s.ranks, func(r rank) bool { return !so(&r) })
}
