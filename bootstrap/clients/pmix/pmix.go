// Package pmix is the server's side of the PMIx client protocol, by which Open MPI 5 and later find
// their peers, for one connection of a client: bytes in, bytes and requests out. The engine reads
// and writes the wire; what needs knowledge of other processes it asks its owner:
//
//	for _, s := range engine.Feed(bytes) { // and the same for engine.Answer(s.Tag, answer)
//		switch {
//		case s.Err != nil:     the client was refused or broke the protocol: send what came before, close
//		case s.Request != nil: do it, then call engine.Answer with s.Tag; not for Finalize and Abort
//		default:               send s.Bytes to the client
//		}
//	}
//
// Unlike PMI, a client may have many requests open at a time, and answers come in any order.
//
// The wire has three layers. A handshake (handshake.go) names the process and the dialect. Messages
// have a header of 16 bytes, big-endian: index, tag, length, 0. Their items are written in one of
// two encodings (encoding.go), by types (types.go). The commands are one table (grammar.go).
//
// Requests share the bytes of their message: lists and values are checked when the message is read,
// and decoded when somebody looks at them. So a message takes its own length in memory and at most
// as much again. A message that cannot be read is answered by a status, and the client may go on. A
// header that makes no sense, and a handshake that is refused, end the connection by an Err.
//
// The package opens no socket, keeps no values, and knows nothing of other clients. It believes no
// claim of who the client is: its owner checks the socket and the namespace.
package pmix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Limits of one connection.
const (
	MaxMessage = 4 << 20 // bytes of a message behind its header
	maxWaiting = 4096    // requests that wait for an answer
	maxHeld    = 8 << 20 // bytes of their messages
	maxCodes   = 256     // codes of events that a client registers
)

// tagEvent is of messages that no request asked for.
const tagEvent = 0

// Step is one thing that came of input: Bytes, or a Request with its Tag, or Err.
type Step struct {
	Bytes   []byte  // for the client
	Tag     uint32  // of Request, for Answer
	Request Request // for the owner
	Err     error   // the connection ends; says what was seen
}

type state uint8

// fresh -> joining -> open -> closed; each may become ended. joining may become refused, too.
const (
	fresh   state = iota // before the handshake
	joining              // the owner has been asked
	refused              // by the owner
	open
	closed // after finalize
	ended  // after an error or Abort
)

// Engine serves one connection. It is not safe for use by several goroutines.
type Engine struct {
	state  state
	client Join
	enc    Encoding

	head []byte // of the message that arrives, up to headerSize bytes
	body []byte // of the same
	want int    // bytes of body in all, once head is complete

	waiting  map[uint32]pending // requests without an answer, by tag
	held     int                // bytes of their messages
	codes    []Status           // of events
	allCodes bool

	steps []Step
}

// pending is a request without an answer.
type pending struct {
	*row
	size int // bytes of its message
}

// New makes an engine for a client that has just connected.
func New() *Engine { return &Engine{waiting: map[uint32]pending{}} }

// Open reports whether the client has been taken in and has not taken its leave.
func (e *Engine) Open() bool { return e.state == open }

// Finalized reports whether the client has taken its leave.
func (e *Engine) Finalized() bool { return e.state == closed }

// Waits reports whether the request of a tag waits for an answer.
func (e *Engine) Waits(tag uint32) bool {
	_, waits := e.waiting[tag]
	return waits
}

// Feed takes bytes from the client, in any pieces, and returns what comes of them, in order. The
// engine keeps neither b nor the result.
func (e *Engine) Feed(b []byte) []Step {
	for len(b) > 0 && e.state != ended {
		if e.state == joining {
			e.fail("%d bytes before the handshake was answered", len(b))
			break
		}
		if e.state == refused {
			e.end(errRefused)
			break
		}
		b = e.arrive(b)
	}
	return e.done()
}

// arrive adds to the message that arrives, takes the message if it is complete, and returns the
// bytes behind it.
func (e *Engine) arrive(b []byte) []byte {
	if missing := headerSize - len(e.head); missing > 0 {
		n := min(missing, len(b))
		e.head, b = append(e.head, b[:n]...), b[n:]
		if n < missing || !e.begin() {
			return b
		}
	}
	n := min(e.want-len(e.body), len(b))
	e.body, b = append(e.body, b[:n]...), b[n:]
	if len(e.body) == e.want {
		e.complete()
	}
	return b
}

// begin reads the header.
func (e *Engine) begin() bool {
	n := binary.BigEndian.Uint32(e.head[8:])
	if e.state == fresh {
		var err error
		if n, err = helloLength(e.head); err != nil {
			e.refuse(BadParameter, err)
			return false
		}
	}
	if n > MaxMessage {
		e.fail("a message of %d bytes; at most %d are taken", n, MaxMessage)
		return false
	}
	e.want = int(n)
	return true
}

// complete takes the message that has arrived. Requests keep its bytes, so the next one gets
// others.
func (e *Engine) complete() {
	tag, body := binary.BigEndian.Uint32(e.head[4:]), e.body
	e.head, e.body, e.want = e.head[:0], nil, 0
	switch e.state {
	case fresh:
		e.hello(body)
	case closed:
		e.fail("a message after finalize")
	default:
		e.message(tag, body)
	}
}

func (e *Engine) hello(body []byte) {
	j, err := parseHello(body)
	if err != nil {
		e.refuse(BadParameter, err)
		return
	}
	e.state, e.client, e.enc = joining, j, dialects[j.Dialect]
	e.steps = append(e.steps, Step{Request: j})
}

// refuse answers a handshake that is not taken.
func (e *Engine) refuse(s Status, why error) {
	e.send(handshakeReply(s, 0))
	e.end(why)
}

// message takes a message of a client that is known.
func (e *Engine) message(tag uint32, body []byte) {
	if _, again := e.waiting[tag]; again {
		e.fail("a second request with tag %d", tag)
		return
	}
	r := reader{b: body, enc: e.enc}
	number := command(r.topOctet())
	if r.err != nil {
		e.fail("a message of %d bytes without a command: %w", len(body), r.err)
		return
	}
	c := grammar[number]
	if c == nil {
		e.respond(tag, &row{}, NotSupported)
		return
	}
	request := c.parse(&r)
	switch {
	case r.err != nil && c.bare:
		e.fail("%s: %w", c.name, r.err)
	case r.err != nil && !c.quiet:
		e.respond(tag, c, Unreadable)
	case r.err != nil:
	case request == nil:
		e.respond(tag, c, NotSupported)
	default:
		e.handle(tag, pending{c, len(body)}, request)
	}
}

// handle takes a request that could be read.
func (e *Engine) handle(tag uint32, c pending, request Request) {
	switch q := request.(type) {
	case registerEvents:
		e.respond(tag, c.row, e.register(q.codes))
	case deregisterEvents:
		e.deregister(q.codes)
	case Finalize:
		e.respond(tag, c.row, Done)
		e.state = closed
		e.steps = append(e.steps, Step{Tag: tag, Request: q})
	case Abort:
		e.respond(tag, c.row, Done)
		e.steps = append(e.steps, Step{Tag: tag, Request: q})
	default:
		if len(e.waiting) == maxWaiting || e.held+c.size > maxHeld {
			e.fail("%d requests of %d bytes wait for an answer: no more can", len(e.waiting), e.held)
			return
		}
		e.waiting[tag] = c
		e.held += c.size
		e.steps = append(e.steps, Step{Tag: tag, Request: q})
	}
}

// register adds codes of events; none means all events.
func (e *Engine) register(codes List[Status]) Status {
	if codes.Len() > maxCodes {
		return OutOfResource
	}
	if codes.Len() == 0 {
		e.allCodes = true
	}
	for code := range codes.All() {
		switch {
		case slices.Contains(e.codes, code):
		case len(e.codes) == maxCodes:
			return OutOfResource
		default:
			e.codes = append(e.codes, code)
		}
	}
	return Done
}

// deregister removes codes of events. An empty list removes nothing: clients send one for a handler
// whose code another handler shares.
func (e *Engine) deregister(codes List[Status]) {
	if codes.Len() > maxCodes {
		return // so many are not registered
	}
	for code := range codes.All() {
		if code == allCodes {
			e.allCodes = false
		}
		if i := slices.Index(e.codes, code); i >= 0 {
			e.codes = slices.Delete(e.codes, i, i+1)
		}
	}
}

// Answer takes the owner's answer to the request of a tag, and returns what comes of it. An answer
// that nobody waits for any more does nothing.
func (e *Engine) Answer(tag uint32, a Answer) []Step {
	if e.state == joining {
		e.joined(a)
		return e.done()
	}
	p, waits := e.waiting[tag]
	if !waits || e.state == ended {
		return nil
	}
	delete(e.waiting, tag)
	e.held -= p.size
	c := p.row
	reply, err := e.reply(c, a)
	switch {
	case c.bare && (a.Status != Done || err != nil):
		e.end(errors.Join(fmt.Errorf("%s: %w", c.name, errRefused), err))
	case err != nil:
		e.respond(tag, c, Unreadable)
	default:
		e.send(e.framed(tag, reply))
	}
	return e.done()
}

// joined takes the owner's answer to Join. A client that is refused ends the connection itself. If
// it is of libpmix 4, it does not look at the status, and begins to wait for its job information:
// the end of the connection must come after that request, or the client sometimes waits for ever.
func (e *Engine) joined(a Answer) {
	if a.Status != Done {
		e.send(handshakeReply(a.Status, 0))
		e.state = refused
		return
	}
	e.state = open
	e.send(handshakeReply(Done, e.index()))
}

// respond sends a reply that has only a status.
func (e *Engine) respond(tag uint32, c *row, s Status) {
	reply, _ := e.reply(&row{empty: c.empty}, Answer{Status: s}) // empty bodies can be written
	e.send(e.framed(tag, reply))
}

// framed is a message with its header.
func (e *Engine) framed(tag uint32, body []byte) []byte {
	b := make([]byte, 0, headerSize+len(body))
	for _, n := range []uint32{e.index(), tag, uint32(len(body)), 0} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, body...)
}

func (e *Engine) send(b []byte) { e.steps = append(e.steps, Step{Bytes: b}) }

func (e *Engine) fail(format string, args ...any) { e.end(fmt.Errorf(format, args...)) }

// end ends the connection.
func (e *Engine) end(err error) {
	e.state, e.head, e.body, e.waiting = ended, nil, nil, nil
	e.steps = append(e.steps, Step{Err: err})
}

// done hands the steps out.
func (e *Engine) done() []Step {
	steps := e.steps
	e.steps = nil
	return steps
}
