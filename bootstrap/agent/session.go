package agent

import (
	"sync"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire/rankwire"
)

// sessionSide is the part of an exec for data from the caller, and for the messages of a session.
type sessionSide struct {
	opened  []flow.MembersOn     // hosts of the members, to be sent to the caller; nil before, and after they are sent
	pieces  []rankwire.ToolPiece // data from member 0, to be sent to the caller
	room    int64                // credit in bytes: the caller may send data of this cost to member 0 or to its daemon
	roomed  chan struct{}        // capacity 1; addRoom pokes it after it has raised room; never closed
	left    chan struct{}        // closed by leave, when the caller has disconnected
	once    sync.Once
	sending sync.Mutex // held by sendWhenRoom, so that pieces stay in order
	kept    bool       // the daemons outlive the connection of the caller; guarded by controlSide.mu
}

func (s *sessionSide) leave() { s.once.Do(func() { close(s.left) }) }

// addRoom raises by n bytes the credit for data from the caller. The mu of the exec must be held.
func (s *sessionSide) addRoom(n uint32) {
	s.room += int64(n)
	poke(s.roomed)
}

// received queues data from member 0 of a session for the caller, and returns 0. If the session is kept without its
// caller, received drops the data and returns its cost in bytes. The loop must then acknowledge this cost to the core,
// so that member 0 can send more.
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

// passSession sends the caller what the session has reported since the last call: the hosts of the members, and data
// from member 0. It acknowledges the data to the core. It returns the error of put if the caller has disconnected.
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

// begin starts a session for the caller, and sends the reports and the output of its members to the caller until all of
// them have ended.
func (c *controlSide) begin(r caller) {
	var on []flow.MembersOn
	for _, m := range r.On {
		on = append(on, flow.MembersOn{Host: m.Host, Count: m.Count})
	}
	perRank := r.PerRank
	r.PerRank = false // reports name members by their own numbers, not by ranks
	c.follow(r, func(ticket uint32) {
		c.events.SessionAsked(flow.SessionAsked{ID: ticket, On: on, PerRank: perRank, Argv: r.Command, Env: r.Env})
	})
}

// send passes a piece of a message from the caller to member 0. It blocks until the session has room for the piece. It
// returns "", or the reason why the piece was not sent.
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

// sendWhenRoom waits until x.room is at least cost, in bytes, subtracts cost from it, and calls send. It returns "", or
// noSession if the daemons or the job end, or the client disconnects, before that.
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
