package pmi

import (
	"fmt"

	"ibrun/internal/job"
)

// A call is a connection to the node's port: anybody on the machine can make
// one, so that it counts for nothing until it has said a number that a rank was
// started with. Callers who do not are hung up on without a word to the user.
type (
	// Bind asks whose number a caller has said; Bound is the answer.
	Bind struct {
		Call uint32
		ID   int
	}
	// HangUp ends a call when all words to it are written.
	HangUp struct{ Call uint32 }
)

// ReceiveCall takes what a caller has said, in whatever pieces. Calls are numbered
// from 1; a number does not come again.
func (h *Server) ReceiveCall(call uint32, words []byte) []Effect {
	c := h.calls[call]
	if c == nil {
		c = &client{call: call, engine: NewEngine(h.config()), op: h.op, fences: h.op}
		h.calls[call] = c
	}
	if c.over {
		return nil
	}
	h.obey(c, c.engine.Feed(words))
	return h.done()
}

// CallClosed takes the end of a call.
func (h *Server) CallClosed(call uint32) { delete(h.calls, call) }

// Bound takes the answer to Bind: the caller's rank, or why it is none.
func (h *Server) Bound(call uint32, slot job.Slot, refused string) []Effect {
	c := h.calls[call]
	if c == nil {
		return nil
	}
	if _, taken := h.clients[slot]; taken && refused == "" {
		refused = "another program speaks for this rank already"
		h.do(Warn{fmt.Sprintf("rank %d: a program that came through PMI_PORT was refused: another one speaks for this rank already", h.job.Layout.Rank(slot))})
	}
	if refused != "" {
		h.answer(c, Answer{Refused: refused})
		return h.done()
	}
	c.slot, c.known = slot, true
	h.admit(c)
	h.answer(c, Answer{Rank: int(h.job.Layout.Rank(slot)), App: h.app(slot)})
	return h.done()
}

// introduce obeys a step of a caller whose rank is not known.
func (h *Server) introduce(c *client, s Step) {
	switch {
	case s.Err != nil:
		c.over = true
		h.do(HangUp{c.call})
	case s.Request == nil:
		h.do(Words{Call: c.call, Bytes: s.Bytes})
	default: // nothing else is asked before init
		h.do(Bind{c.call, s.Request.(Identify).ID})
	}
}
