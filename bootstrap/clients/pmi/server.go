// Package pmi implements the server side of PMI-1 and PMI-2, the protocols by which the processes of an MPI program
// find each other. It has two parts, Engine and Server. Neither performs I/O.
//
// An Engine handles the protocol of one client: it parses bytes into requests, and encodes answers. It answers requests
// for values of its Config, such as the size of the job. It passes all other requests to its owner, one at a time and
// in the order of the client:
//
//	for _, s := range engine.Feed(bytes) {      // and the same for engine.Answer(a)
//		switch {
//		case s.Err != nil:      the client broke the protocol: close the descriptor, end the job
//		case s.Request != nil:  serve it, and then call engine.Answer, except for Finalize and Abort
//		default:                write s.Bytes to the client
//		}
//	}
//
// One table (grammar.go) describes all commands. If the reply to a command has an error code, a malformed command is
// answered by that reply, and the client can continue. Otherwise the last Step has an Err, and the engine ignores
// further input. An engine buffers at most one line or frame while no answer is awaited, and the parts of an unfinished
// spawn command.
//
// A Server holds the state that the PMI clients of one node share: values, names and attributes. It translates requests
// into messages from ranks to their agent (package rankwire), and the agent's answers into replies. A fence is a
// Barrier: one frame up and one frame down on each edge of the tree. In eager mode the frames carry all values that
// were put since the last fence, so no Get leaves its node. In lazy mode they carry the keys and the ranks that have
// put them, so a Get is sent to the node that has the value. If job.Transport.Learn is set, a fence carries the values
// of the ranks that put few bytes, and the keys of the others.
package pmi

import (
	"bytes"
	"encoding/hex"
	"strings"

	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// Effect is Words, ClientFrame, BulkFetch, FirstClient, Warn, Bind or HangUp.
type Effect any

type (
	// Words go to a rank, by its descriptor if Call is 0, else to a caller,
	// whose rank may not be known.
	Words struct {
		Rank  job.Slot
		Call  uint32
		Bytes []byte
	}
	// ClientFrame is a frame that the core takes as if the rank had sent it.
	ClientFrame struct {
		Rank job.Slot
		Msg  frame.Message
	}
	// BulkFetch asks for the values of all nodes up to a fence. The answer is BulkFetched.
	BulkFetch struct{ Fence uint32 }
	// FirstClient says that a rank of this node speaks PMI; it comes once.
	FirstClient struct{}
	// Warn is for the user.
	Warn struct{ Text string }
)

// Server is one node's.
type Server struct {
	// Carries is how many bytes of all ranks' values a fence carries in a job that chooses, 512 KiB
	// by default. Ranks do not know of each other's, so each has an equal share of them.
	Carries int

	job     *job.Job
	op      uint32 // collectives of earlier starts of the ranks
	mapping string // PMI_process_mapping, made for the first client; it costs as much as there are ranks
	clients map[job.Slot]*client
	calls   map[uint32]*client // that came through the port, by call
	store
	attrs       map[string]string // of this node
	waiting     []waiter          // for an attribute
	lastRelease uint32            // number of the last collective whose outcome is here
	shared      []string          // files of shared memory that ranks of this node have told each other of
	out         []Effect
}

// client is a rank that speaks PMI.
type client struct {
	slot   job.Slot
	call   uint32 // number of the connection; 0 if the client uses the descriptor PMI_FD
	known  bool   // slot is known
	engine *Engine
	op     uint32   // number of fences and rings that the client has joined
	ring   *Ring    // ring that the client waits for; nil if it waits for a fence or for nothing
	fences uint32   // number of fences that the client has joined
	fresh  []string // keys that the client has put since its last fence
	wants  string   // key of the get that waits for a value; empty if none waits
	over   bool     // the client has ended, or its further input is ignored
	counts job.Tally
}

type waiter struct {
	*client
	key string
}

// NewServer returns the server for one node of job j. The first fence or ring of each rank gets the number op+1,
// because earlier starts of the ranks have used the numbers up to op.
func NewServer(j *job.Job, op uint32) *Server {
	return &Server{
		Carries: mostCarried, job: j, op: op, store: newStore(j),
		clients: map[job.Slot]*client{}, calls: map[uint32]*client{}, attrs: map[string]string{},
	}
}

// IsClient reports whether a rank has spoken PMI: what the core tells it is ours.
func (h *Server) IsClient(slot job.Slot) bool { return h.clients[slot] != nil }

// done hands the effects out.
func (h *Server) done() []Effect {
	out := h.out
	h.out = nil
	return out
}

func (h *Server) do(e Effect) { h.out = append(h.out, e) }

// Receive takes what a rank has said, in whatever pieces.
func (h *Server) Receive(slot job.Slot, words []byte) []Effect {
	c := h.clients[slot]
	if c == nil {
		cfg := h.config()
		cfg.Rank, cfg.AppNum = int(h.job.Layout.Rank(slot)), h.app(slot)
		c = &client{slot: slot, known: true, engine: NewEngine(cfg), op: h.op, fences: h.op}
		h.admit(c)
	}
	if c.over || c.call != 0 { // who came through the port speaks there
		return nil
	}
	h.obey(c, c.engine.Feed(words))
	return h.done()
}

// admit takes a rank that speaks PMI.
func (h *Server) admit(c *client) {
	if len(h.clients) == 0 {
		h.do(FirstClient{})
	}
	h.clients[c.slot] = c
}

// Shared are files in /dev/shm that ranks of this node have made and told each
// other of. They unlink them when all have opened them; ranks that die before
// leave them behind, and who ends them should remove them.
func (h *Server) Shared() []string { return h.shared }

const sharedDir = "/dev/shm/"

// noteShared looks for the name of such a file in a value, where MPICH puts it
// in hexadecimal digits.
func (h *Server) noteShared(value string) {
	if len(value) > 2*256 {
		return
	}
	b, err := hex.DecodeString(value)
	name, inside := strings.CutPrefix(string(bytes.TrimRight(b, "\x00")), sharedDir)
	if err == nil && inside && name != "" && !strings.ContainsAny(name, "/\x00") && name != "." && name != ".." {
		h.shared = append(h.shared, sharedDir+name)
	}
}
