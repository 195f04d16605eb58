// Package pmixserver is the state of a PMIx server: what the PMIx clients of one node share. It
// turns what clients ask for into what any rank says to its agent (package rankwire), and the
// answers back into replies of PMIx. It is pure: no I/O, clock or goroutine; the agent's loop owns
// it. docs/dev/decisions/0018-pmix.md has the design.
//
// What a rank commits for other nodes stays on its node, as one value of the KVS, and others ask
// for it. A fence is a Barrier that carries no values.
//
//	connection --Join--> welcomed by the core --> served --Finalize or end--> closed
//
// A rank may have several connections, at the same time and one after the other. A program that
// joins when the one before it has finalized is the rank's next epoch: it has values of its own.
//
// The package does not check who connects, and removes no files: its owner does.
package pmixserver

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Effect is Bytes, ClientFrame, Admit, HangUp, Print, RemoveLater, ShutPMI, Timer, FirstClient or
// Warn.
type Effect any

type (
	// Bytes go to a client.
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
	// Print is text on a rank's standard output (1) or error (2).
	Print struct {
		Rank   job.Slot
		Stream uint8
		Text   []byte
	}
	// RemoveLater registers a file that is to be removed when a connection ends. The path is a
	// client's word.
	RemoveLater struct {
		Call uint32
		Path string
		Tree bool // a folder goes with all that is in it; else only an empty one goes
	}
	// ShutPMI ends PMI over a rank's descriptor.
	ShutPMI struct{ Rank job.Slot }
	// Timer asks for Due after some time.
	Timer struct {
		Call, Tag uint32
		After     time.Duration
	}
	// FirstClient says that a rank of this node speaks PMIx; it comes once.
	FirstClient struct{}
	// Warn is for the user.
	Warn struct{ Text string }
)

// Server is one node's.
type Server struct {
	job       *job.Job
	node      job.Node
	index     job.NodeIndex
	namespace string
	conns     map[uint32]*conn
	ranks     []rank // of this node
	joined    bool   // a client has come
	values
	layout
	meetings
	names
	groups
	// related maps namespaces to the jobs of the same family to which ranks of this job have connected.
	// Of a related job, only the ID, the sizes, the layout and the ranks of programs are known.
	related map[string]*job.Job
	out     []Effect
}

// conn is a connection.
type conn struct {
	call   uint32
	engine *pmix.Engine
	rank   *rank // nil before Join
	join   uint32
	over   bool // closed, or not listened to any more
}

// rank is a rank of this node, whatever its connections.
type rank struct {
	slot    job.Slot
	number  job.Rank
	epoch   uint16 // of its present program, from 1; 0: none has joined
	conns   int    // connections, from Join to their end
	open    int    // of these, that have been taken in and not finalized
	waiting int    // requests and questions without an answer, those of connections that are gone included
	handles bool   // a connection that has ended had a handler for the end of ranks
	unsure  bool   // some of waiting may be of requests that wait no longer
	broken  bool   // a connection ended without Finalize
	over    bool   // the rank has ended
	foreign bool   // a program of it speaks PMI or uses the package ibrun
	shut    bool   // PMI over its descriptor has ended, by RefusePMI
	welcome []*conn
	op      uint32 // collectives that its programs have joined
	commits
	exported  blob       // that ranks of related jobs find; number 0: none
	published []string   // services that it has published
	spawns    []spawning // the first is under way
	logged    int        // bytes of texts for the user
	counts    job.Tally
}

// New makes the server of a node of a job.
func New(j *job.Job, n job.Node, index job.NodeIndex) *Server {
	s := &Server{
		job: j, node: n, index: index, namespace: Namespace(j), conns: map[uint32]*conn{},
		related: map[string]*job.Job{}, values: values{asked: map[string][]asking{}}, layout: layout{hosts: hostsOf(j)},
		meetings: meetings{map[meetingName]*meeting{}, map[uint32]*meeting{}, map[meetingName]uint32{}},
		names:    names{open: map[uint32]openQuestion{}, awaited: map[awaited][]asking{}},
		groups:   groups{byContext: map[uint64]*group{}},
	}
	for i := range n.Ranks {
		slot := n.First + job.Slot(i)
		s.ranks = append(s.ranks, rank{slot: slot, number: j.Layout.Rank(slot)})
	}
	return s
}

// Namespace is the job's name for its clients. Nobody guesses it: it has 128 bits that only the
// job's secret yields, and ranks learn it by their environment.
func Namespace(j *job.Job) string {
	b, err := hkdf.Expand(sha256.New, j.Secret[:], "ibrun pmix namespace", 16)
	if err != nil {
		panic(err) // only for lengths that no caller can ask for
	}
	return "ibrun-" + hex.EncodeToString(b)
}

// IsClient reports whether what the core tells a rank is ours.
func (s *Server) IsClient(slot job.Slot) bool {
	r := s.local(slot)
	return r.epoch > 0 || len(r.welcome) > 0
}

// AfterPMIx is why a program cannot join: it would take the answers to its rank's client of PMIx.
const AfterPMIx = "another program of this rank has joined the job by PMIx: start this one as a job of its own"

// Take says that a program of a rank speaks PMI, or uses the package ibrun. It may do so if no
// program of the rank has spoken PMIx; later none can.
func (s *Server) Take(slot job.Slot) (ok bool) {
	if s.IsClient(slot) {
		return false
	}
	s.local(slot).foreign = true
	return true
}

// RefusePMI ends the PMI of a rank that Take has not let join. It is said once: more of what the
// program says may be on its way.
func (s *Server) RefusePMI(slot job.Slot) []Effect {
	if r := s.local(slot); !r.shut {
		r.shut = true
		s.warn("rank %d: a program that speaks PMI was refused: %s", r.number, AfterPMIx)
		s.do(ShutPMI{slot})
	}
	return s.done()
}

func (s *Server) local(slot job.Slot) *rank { return &s.ranks[slot-s.node.First] }

// here reports whether a slot is of this node.
func (s *Server) here(slot job.Slot) bool { return slot >= s.node.First && slot < s.node.End() }

// done hands the effects out.
func (s *Server) done() []Effect {
	out := s.out
	s.out = nil
	return out
}

func (s *Server) do(e Effect) { s.out = append(s.out, e) }

// send says something to the core as a rank.
func (s *Server) send(r *rank, m frame.Message) { s.do(ClientFrame{r.slot, m}) }

func (s *Server) warn(format string, args ...any) { s.do(Warn{fmt.Sprintf(format, args...)}) }

// Receive takes what a client has sent, in whatever pieces. Connections are numbered from 1; a
// number does not come again.
func (s *Server) Receive(call uint32, b []byte) []Effect {
	c := s.conns[call]
	if c == nil {
		c = &conn{call: call, engine: pmix.New()}
		s.conns[call] = c
	}
	if !c.over {
		s.obey(c, c.engine.Feed(b))
	}
	return s.done()
}

// obey does what an engine wants.
func (s *Server) obey(c *conn, steps []pmix.Step) {
	for _, step := range steps {
		switch {
		case c.over:
			return
		case step.Err != nil:
			s.drop(c, step.Err)
		case step.Request == nil:
			s.do(Bytes{c.call, step.Bytes})
		default:
			s.ask(c, step.Tag, step.Request)
		}
	}
}

// drop ends a connection whose client broke the protocol. One that no rank has made is ended
// without a word to the user: anybody's program may have connected.
func (s *Server) drop(c *conn, why error) {
	if c.rank != nil {
		s.warn("rank %d: PMIx: %v; this connection is closed", c.rank.number, why)
	}
	s.leave(c, false)
	s.do(HangUp{c.call})
}

// answer gives an answer to a client, if it is still there.
func (s *Server) answer(w waiter, a pmix.Answer) {
	if !w.over {
		s.obey(w.conn, w.engine.Answer(w.tag, a))
	}
}

// give answers a Get with pairs, which are keys and values of the process of.
func (s *Server) give(w waiter, of pmix.Proc, pairs pmix.Pairs) {
	s.answer(w, pmix.Answer{Body: pmix.Values{Of: of, Pairs: pairs}})
}

// status answers without a body.
func (s *Server) status(w waiter, status pmix.Status) { s.answer(w, pmix.Answer{Status: status}) }

// ask does what a client wants.
func (s *Server) ask(c *conn, tag uint32, request pmix.Request) {
	w := waiter{c, tag}
	if c.rank != nil && c.rank.over {
		return
	}
	if c.rank != nil && !s.hasRoom(c.rank, questions(request)) {
		s.status(w, pmix.OutOfResource)
		return
	}
	switch q := request.(type) {
	case pmix.Join:
		s.join(c, tag, q)
	case pmix.GetJob:
		s.answer(w, pmix.Answer{Body: s.describe()})
	case pmix.Commit:
		s.commit(w, q)
	case pmix.Get:
		s.get(w, q)
	case pmix.Fence:
		s.count(c.rank, job.CountFences)
		s.meet(w, q.Procs, purpose{what: "fence", timeout: q.Timeout})
	case pmix.Connect:
		s.connect(w, q)
	case pmix.Disconnect:
		s.meet(w, q.Procs, purpose{what: "disconnect", timeout: q.Timeout})
	case pmix.GroupConstruct:
		s.construct(w, q)
	case pmix.GroupDestruct:
		s.destruct(w, q)
	case pmix.Publish:
		s.publish(w, q)
	case pmix.Lookup:
		s.lookUp(w, q)
	case pmix.Unpublish:
		s.unpublish(w, q)
	case pmix.Spawn:
		s.spawn(w, q)
	case pmix.Notify:
		s.notify(w, q)
	case pmix.Cleanup:
		s.cleanUp(w, q)
	case pmix.Query:
		s.query(w, q)
	case pmix.Log:
		s.print(c.rank, 1, q.Stdout)
		s.print(c.rank, 2, q.Stderr)
		s.status(w, pmix.Done)
	case pmix.Finalize:
		s.leave(c, true)
	case pmix.Abort:
		s.abort(c.rank, q)
	default:
		s.status(w, pmix.NotSupported)
	}
}

// Awaits reports whether others may wait for a rank: it has joined them and not taken its leave.
func (s *Server) Awaits(slot job.Slot) bool {
	r := s.local(slot)
	return (r.open > 0 || r.broken) && s.job.Size > 1
}

// Handles reports whether a rank's program has a handler for the end of ranks, so that it can go on
// without one.
func (s *Server) Handles(slot job.Slot) bool {
	r := s.local(slot)
	for _, c := range s.conns {
		if c.rank == r && c.engine.Registered(pmix.Aborted) {
			return true
		}
	}
	return r.handles
}

// Exited takes the end of a rank's process.
func (s *Server) Exited(slot job.Slot) []Effect {
	r := s.local(slot)
	r.over = true
	for _, c := range s.conns {
		c.over = c.over || c.rank == r
	}
	s.unpark()
	s.absent(r)
	return s.done()
}

// Deliver takes what the core tells a rank that is a client.
func (s *Server) Deliver(slot job.Slot, m frame.Message) []Effect {
	r := s.local(slot)
	switch m := m.(type) {
	case rankwire.Answer:
		s.answered(m)
	case rankwire.Name:
		s.named(m)
	case rankwire.JobSpawned:
		s.spawned(r, m)
	case rankwire.Failures:
		s.failed(r, m)
	case rankwire.Welcome:
		s.welcomed(r, m)
	case rankwire.Refused:
		s.refuse(r, m)
	case rankwire.Release:
		if !r.over {
			s.released(r, m)
		}
	}
	return s.done()
}

// welcomed begins a rank's program.
func (s *Server) welcomed(r *rank, m rankwire.Welcome) {
	r.epoch, r.op, r.counts = m.Epoch, m.Op, job.Tally{}
	r.commits = commits{received: r.received, kept: r.kept}
	waiting := r.welcome
	r.welcome = nil
	for _, c := range waiting {
		if !c.over {
			s.serve(c)
		}
	}
}

func (s *Server) refuse(r *rank, m rankwire.Refused) {
	s.warn("rank %d: a program that speaks PMIx was refused: %s", r.number, m.Text)
	waiting := r.welcome
	r.welcome = nil
	for _, c := range waiting {
		s.status(waiter{c, c.join}, pmix.NotSupported)
	}
}

// slotOf is the slot of a rank of this job.
func (s *Server) slotOf(n pmix.Rank) (slot job.Slot, ok bool) {
	if uint32(n) >= s.job.Size {
		return 0, false
	}
	return s.job.Layout.Slot(job.Rank(n)), true
}
