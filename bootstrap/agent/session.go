package agent

import (
	"sync"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire/rankwire"
)

// sessionSide is what a caller with a session has besides output and ends.
type sessionSide struct {
	opened  []flow.MembersOn
	pieces  []rankwire.ToolPiece
	room    int64         // of what may be sent to member 0
	roomed  chan struct{} // capacity 1; addRoom pokes it when room has grown; never closed
	left    chan struct{} // closed by leave when the caller has disconnected
	once    sync.Once
	sending sync.Mutex // held while a piece is sent
	kept    bool       // of the controlSide's lock: it lives on without its caller
}

func (s *sessionSide) leave() { s.once.Do(func() { close(s.left) }) }

// addRoom raises by n the budget for messages from the caller to member 0. The caller of addRoom must hold the lock of
// the exec.
func (s *sessionSide) addRoom(n uint32) {
	s.room += int64(n)
	poke(s.roomed)
}

// received queues a piece of a message of member 0 for the caller of the session. If the session goes on without its
// caller, received drops the piece and returns its cost. The loop must then acknowledge this cost to the core, so that
// member 0 does not wait.
func (c *controlSide) received(e flow.SessionReceived) (dropped uint32) {
	c.update(e.ID, func(x *exec) {
		if x.kept {
			dropped = e.Data.Cost()
		} else {
			x.pieces = append(x.pieces, e.Data)
		}
	})
	return dropped
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
		c.events.SessionTaken(flow.SessionTaken{ID: ticket, N: p.Cost()})
	}
	return nil
}

// begin starts the members of a session, and sends their reports to the caller.
func (c *controlSide) begin(r caller) {
	var on []flow.MembersOn
	for _, m := range r.On {
		on = append(on, flow.MembersOn{Host: m.Host, Count: m.Count})
	}
	perRank := r.PerRank
	r.PerRank = false // members have numbers of their own
	c.follow(r, func(ticket uint32) {
		c.events.SessionAsked(flow.SessionAsked{ID: ticket, On: on, PerRank: perRank, Argv: r.Command, Env: r.Env})
	})
}

// send waits until the session has room for a piece of a message to member 0, and passes it on. If that is
// impossible, it returns the reason; otherwise it returns "".
func (c *controlSide) send(x *exec, r caller) string {
	piece := rankwire.ToolPiece{Last: r.Last, Data: r.Data}
	switch {
	case x.reads:
		return "it is no session of a tool"
	case len(r.Data) > rankwire.MaxToolPiece || len(r.Data) == 0 && !r.Last:
		return "a piece of a message has 1 to 32768 bytes, or it is the last"
	}
	return c.sendWhenRoom(x, piece.Cost(), r.gone, func() {
		c.events.SessionSent(flow.SessionSent{ID: r.Session, Data: piece})
	})
}

// sendWhenRoom waits until x.room is at least cost, subtracts cost from it, and calls send. If the session ends or the
// caller disconnects first, sendWhenRoom returns the reason; otherwise it returns "".
func (c *controlSide) sendWhenRoom(x *exec, cost uint32, gone <-chan struct{}, send func()) string {
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
			send()
			return ""
		}
		select {
		case <-x.roomed:
			continue
		case <-x.left:
		case <-gone:
		case <-c.over:
		}
		return noSession
	}
}

const noSession = "there is no such session, or its members have ended"
