package pmi

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of PMI-1, in bytes, as announced to clients. Programs in the field
// expect exactly these.
const (
	MaxName  = 256     // of a name of a key-value space
	MaxKey   = 64      // of a key
	MaxValue = 1024    // of a value, unless Config raises it or the client takes more
	MaxLong  = 1 << 14 // of a value for a client that says it takes longer lines
)

const (
	maxLine   = 1023    // of a line to a stock client, with its end: it reads into 1024 bytes
	maxFrame  = 1 << 16 // of a PMI-2 frame without its length: what clients allocate
	maxBlock  = 1 << 16 // of all lines of one spawn
	keep      = 1 << 12 // of the input's buffer between commands
	mostValue = 1 << 18 // of Config.MaxValue: a frame of it has six digits
)

// Config is what an Engine knows at birth.
type Config struct {
	Rank     int    // the client's; -1: it says so itself, see Identify, and AppNum comes with the answer
	Size     int    // ranks of the job, 1 or more
	AppNum   int    // which of the job's programs it runs, from 0
	Universe int    // ranks that could run; 0: Size; negative: not known
	KVS      string // name of the job's key-value space, at most MaxName bytes, without spaces
	JobID    string // PMI-2's name of the job
	Spawner  string // PMI-2's name of the job that has spawned this one; empty: none has
	Mapping  string // which node holds which ranks, see Mapping; empty: not told
	// bytes of a value: MaxValue (or 0) to 256 KiB, even; more than MaxValue only for clients that
	// take longer lines
	MaxValue int
}

// Step is one thing that came of input: exactly one field is set.
type Step struct {
	Bytes   []byte  // for the client
	Request Request // for the owner
	Err     error   // the client cannot be served further; says what was seen
}

type state uint8

// fresh -> named (initack only) -> open -> closed; PMI-2 is greeted between
// its first line and fullinit. Each may become ended.
const (
	fresh   state = iota // nothing said, or only an init of a version that we do not speak
	named                // after initack
	greeted              // PMI-2, before fullinit
	open                 // between init and finalize
	closed               // after finalize
	ended                // after Abort or an error: no more
)

// Engine serves one client. It is not safe for use by several goroutines.
type Engine struct {
	cfg     Config
	state   state
	version int
	in      []byte // not used yet: at most one line or frame, more while an answer is awaited
	block   *block // of a spawn, between mcmd and the answer
	steps   []Step

	asked Request // that awaits its answer; nil: none
	by    *command
	thrid string // of PMI-2's threads, echoed

	mapped int // gets of the mapping
}

// NewEngine returns the engine for one new client.
func NewEngine(cfg Config) *Engine {
	if cfg.Universe == 0 {
		cfg.Universe = cfg.Size
	}
	cfg.MaxValue = min(max(cfg.MaxValue, MaxValue), mostValue)
	return &Engine{cfg: cfg}
}

// Version is the protocol's that the client speaks, 1 or 2; 0 as long as it
// has not said.
func (e *Engine) Version() int { return e.version }

// Mapped is how many times the client has got the mapping, of which its owner
// hears nothing.
func (e *Engine) Mapped() int { return e.mapped }

// Finalized says whether the client has taken its leave.
func (e *Engine) Finalized() bool { return e.state == closed }

// Feed takes bytes from the client, in any pieces of at most 64 KiB, and
// returns what comes of them, in order. The engine keeps neither b nor the
// result. A client that does not wait for its answers may run 64 KiB ahead.
func (e *Engine) Feed(b []byte) []Step {
	if e.state == ended {
		return nil
	}
	e.in = append(e.in, b...)
	return e.run()
}

// Answer takes the owner's answer to the request that waits for one, and
// returns what comes of it and of what the client has said since. An answer
// that nobody waits for any more, since the client is gone, does nothing.
func (e *Engine) Answer(a Answer) []Step {
	req, c := e.asked, e.by
	if req == nil || e.state == ended {
		return nil
	}
	e.asked, e.by = nil, nil
	if a.Refused != "" {
		e.refuse(c, a.Refused)
		if r, ok := req.(Identify); ok {
			e.fail("no place for number %d: %s", r.ID, a.Refused)
		}
	} else {
		e.answered(c, req, a)
	}
	return e.run()
}

// run uses up the input, as far as it may.
func (e *Engine) run() []Step {
	used := 0
	for e.state != ended {
		text, n, err := e.next(e.in[used:])
		if e.asked != nil && (err != nil || !e.isAbort(text)) {
			if rest := len(e.in) - used; rest > e.mostFrame() {
				e.fail("%d bytes sent before an answer came", rest)
			}
			break // whatever is wrong with it will be wrong after the answer
		}
		if err != nil {
			e.end(err)
			break
		}
		if n == 0 {
			break
		}
		used += n
		e.hear(text)
	}
	switch {
	case e.state == ended:
		e.in, e.block, e.asked = nil, nil, nil
	case used == len(e.in) && cap(e.in) > keep:
		e.in = nil
	case used > 0:
		e.in = append(e.in[:0], e.in[used:]...)
	}
	steps := e.steps
	e.steps = nil
	return steps
}

// hear takes one line or frame.
func (e *Engine) hear(text string) {
	if e.block != nil && e.block.open {
		e.spawning(text)
		return
	}
	m, err := e.parse(text)
	if err != nil {
		e.end(err)
		return
	}
	c := find(max(e.version, 1), m.cmd)
	switch {
	case c == nil && e.version == 2:
		e.unknown(m)
	case c == nil, m.multi != (c.version == 1 && c.name == "spawn"):
		e.fail("unknown command: %s", seen(text))
	case m.multi && e.version == 1:
		e.begin() // whether it may come now is looked at when all of it is there
	case !e.inOrder(c):
		if e.version == 0 && c.name == "init" && e.state == fresh {
			e.fail("init without initack: the client did not say which rank it is")
		} else if e.version == 0 {
			e.fail("before init: %s", seen(text))
		} else {
			e.thrid = m.thread()
			e.refuse(c, e.disorder())
		}
	default:
		e.thrid = m.thread()
		e.handle(c, m)
	}
}

// handle takes a command that comes in order.
func (e *Engine) handle(c *command, m message) {
	if m.odd != "" && c.reply != "" {
		e.refuse(c, "malformed: "+m.odd)
		return
	}
	for name := range strings.FieldsSeq(c.in) {
		if _, ok := m.get(name); !ok && name[0] != '?' {
			e.refuse(c, "no "+name)
			return
		}
	}
	c.take(e, c, m)
}

// inOrder says whether the command may come now.
func (e *Engine) inOrder(c *command) bool {
	switch c.name {
	case "initack":
		return e.state == fresh
	case "init":
		return e.state == named || e.state == fresh && e.cfg.Rank >= 0
	case "fullinit":
		return e.state == greeted
	case "abort":
		return e.version != 0
	}
	return e.state == open
}

// disorder is what is wrong with a command that does not come in order.
func (e *Engine) disorder() string {
	switch e.state {
	case closed:
		return "after finalize"
	case greeted:
		return "before fullinit"
	}
	return "a second init: two programs on one descriptor?"
}

// ask gives the owner a request and waits for its answer.
func (e *Engine) ask(c *command, r Request) {
	e.asked, e.by = r, c
	e.steps = append(e.steps, Step{Request: r})
}

// tell gives the owner a request that has no answer.
func (e *Engine) tell(r Request) { e.steps = append(e.steps, Step{Request: r}) }

func (e *Engine) fail(format string, args ...any) { e.end(fmt.Errorf(format, args...)) }

func (e *Engine) end(err error) {
	e.state = ended
	version := max(e.version, 1)
	e.steps = append(e.steps, Step{Err: fmt.Errorf("pmi-%d: %w", version, err)})
}

var errNUL = errors.New("a NUL byte")
