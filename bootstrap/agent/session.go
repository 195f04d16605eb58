package agent

import (
	"sync"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/rankwire"
)

// sessionSide is what a caller with a session has besides output and ends.
type sessionSide struct {
	opened  []core.MembersOn
	pieces  []rankwire.ToolPiece
	room    int64         // of what may be sent to member 0
	roomed  chan struct{} // capacity 1: there is more
	left    chan struct{} // closed when the caller has gone
	once    sync.Once
	sending sync.Mutex // held while a piece is sent
	kept    bool       // of the controlSide's lock: it lives on without its caller
}

func (s *sessionSide) leave() { s.once.Do(func() { close(s.left) }) }

// session takes what the core says to a caller with a session.
func (c *controlSide) session(e core.Effect) {
	var id uint32
	switch e := e.(type) {
	case core.SessionOpened:
		id = e.ID
	case core.SessionReceived:
		id = e.ID
	case core.SessionRoom:
		id = e.ID
	}
	c.mu.Lock()
	x := c.execs[id]
	gone := x != nil && x.kept
	c.mu.Unlock()
	if x == nil {
		return
	}
	x.mu.Lock()
	switch e := e.(type) {
	case core.SessionOpened:
		x.opened = e.On
	case core.SessionReceived:
		if gone { // member 0 shall not wait for a caller that has gone
			c.loop.hear(core.SessionTaken{ID: id, N: e.Data.Cost()})
			break
		}
		x.pieces = append(x.pieces, e.Data)
	case core.SessionRoom:
		x.room += int64(e.N)
		select {
		case x.roomed <- struct{}{}:
		default:
		}
	}
	x.mu.Unlock()
	x.poke()
}

// passSession gives a caller what has come for it of its session.
func (c *controlSide) passSession(ticket uint32, x *exec, put func(control.Response) error) error {
	x.mu.Lock()
	opened, pieces := x.opened, x.pieces
	x.opened, x.pieces = nil, nil
	x.mu.Unlock()
	if opened != nil {
		s := &control.Session{ID: ticket}
		for _, m := range opened {
			s.On = append(s.On, control.Members{Host: m.Host, Count: m.Count})
		}
		if err := put(control.Response{ToolResponse: control.ToolResponse{Session: s}}); err != nil {
			return err
		}
	}
	for _, p := range pieces {
		m := &control.Message{Data: p.Data, Last: p.Last}
		if err := put(control.Response{ToolResponse: control.ToolResponse{Message: m}}); err != nil {
			return err
		}
		c.loop.post(core.SessionTaken{ID: ticket, N: p.Cost()})
	}
	return nil
}

// begin starts the members of a session, and passes on what comes of them.
func (c *controlSide) begin(r control.Request, put func(control.Response) error, gone <-chan struct{}) {
	var on []core.MembersOn
	for _, m := range r.On {
		on = append(on, core.MembersOn{Host: m.Host, Count: m.Count})
	}
	perRank := r.PerRank
	r.PerRank = false // members have numbers of their own
	c.follow(r, put, gone, func(ticket uint32) core.Event {
		return core.SessionAsked{ID: ticket, On: on, PerRank: perRank, Argv: r.Command, Env: r.Env}
	})
}

// send takes a piece of a message for member 0, as soon as there is room on the way.
func (c *controlSide) send(x *exec, r control.Request, gone <-chan struct{}) string {
	piece := rankwire.ToolPiece{Last: r.Last, Data: r.Data}
	switch {
	case x.reads:
		return "it is no session of a tool"
	case len(r.Data) > rankwire.MaxToolPiece || len(r.Data) == 0 && !r.Last:
		return "a piece of a message has 1 to 32768 bytes, or it is the last"
	}
	return c.sendWhenRoom(x, piece.Cost(), core.SessionSent{ID: r.Session, Data: piece}, gone)
}

// sendWhenRoom gives the core what a caller sends, as soon as there is room on the way.
func (c *controlSide) sendWhenRoom(x *exec, cost uint32, sent core.Event, gone <-chan struct{}) string {
	x.sending.Lock()
	defer x.sending.Unlock()
	for {
		x.mu.Lock()
		ok, over := x.room >= int64(cost), x.over != nil
		if ok && !over {
			x.room -= int64(cost)
		}
		x.mu.Unlock()
		if over {
			return noSession
		}
		if ok {
			c.loop.post(sent)
			return ""
		}
		select {
		case <-x.roomed:
		case <-x.left:
			return noSession
		case <-gone:
			return noSession
		case <-c.loop.over:
			return noSession
		}
	}
}

const noSession = "there is no such session, or its members have ended"
