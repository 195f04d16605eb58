package pmix

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// peer is a client of a test, with the engine that serves it.
type peer struct {
	t testing.TB
	*Engine
	tag uint32
}

// usual is a client of a version and a dialect.
func usual(version, dialect string) *trace {
	c := Join{Proc: Proc{"ns", 1}, Version: version, Dialect: dialect, Store: "hash", UID: 1000, GID: 100}
	tr := &trace{client: c, header: make([]byte, headerSize)}
	for i := range 8 {
		tr.header[i] = 0xff
	}
	binary.NativeEndian.PutUint32(tr.header[8:], uint32(len(tr.hello())-headerSize))
	return tr
}

func newPeer(t testing.TB, version, dialect string) *peer {
	return &peer{t, joinedAs(t, usual(version, dialect)), 100}
}

// send sends a command with fields, and returns what comes of it.
func (p *peer) send(c command, fields func(w *writer)) []Step {
	w := writer{enc: p.enc}
	w.count(1)
	w.octet(byte(c))
	if fields != nil {
		fields(&w)
	}
	p.tag++
	return p.Feed(append(header(p.tag, len(w.b)), w.b...))
}

// ask sends a command that becomes a request.
func (p *peer) ask(c command, fields func(w *writer)) Request {
	steps := p.send(c, fields)
	require.Len(p.t, steps, 1)
	require.NoError(p.t, steps[0].Err)
	require.Equal(p.t, p.tag, steps[0].Tag)
	return steps[0].Request
}

// result returns the status of the only step, a reply to the last command, and a reader of what
// follows.
func (p *peer) result(steps []Step) (Status, *reader) {
	require.Len(p.t, steps, 1)
	require.NoError(p.t, steps[0].Err)
	r := &reader{b: unframed(p.t, p.tag, steps[0].Bytes), enc: p.enc}
	s := r.topStatus()
	require.NoError(p.t, r.err)
	return s, r
}

// status is a reply that has nothing but a status.
func (p *peer) status(steps []Step) Status {
	s, r := p.result(steps)
	require.Empty(p.t, r.b)
	return s
}

func none(w *writer) { writeTop(w, List[Attr]{}) }

func procsOf(ranks ...Rank) func(w *writer) {
	var procs []Proc
	for _, rank := range ranks {
		procs = append(procs, Proc{"ns", rank})
	}
	return func(w *writer) { writeTop(w, ListOf(procs...)); none(w) }
}

func TestScenarioHandshake(t *testing.T) {
	for dialect, enc := range dialects {
		e := joinedAs(t, usual("4.2.2", dialect))
		require.Equal(t, enc, e.enc)
		require.Equal(t, dialect, e.client.Dialect)
	}
	for name, change := range map[string]func(tr *trace, b []byte) []byte{
		"tool":              func(tr *trace, b []byte) []byte { b[headerSize+19] = 3; return b },
		"described buffers": func(tr *trace, b []byte) []byte { b[len(b)-6] = 0; return b },
		"long credential":   func(tr *trace, b []byte) []byte { b[headerSize+10] = 200; return b },
		"munge":             func(tr *trace, b []byte) []byte { b[headerSize] = 'm'; return b },
		"cut":               func(tr *trace, b []byte) []byte { b[8] -= 4; return b[:len(b)-4] },
		"dialect": func(tr *trace, b []byte) []byte {
			tr.client.Dialect = "v61"
			return tr.hello()
		},
		"4 GiB":       func(tr *trace, b []byte) []byte { b[11] = 0xff; return b },
		"another":     func(tr *trace, b []byte) []byte { copy(b, "GET / HTTP/1.1\r\n\r\n"); return b },
		"empty":       func(tr *trace, b []byte) []byte { copy(b[8:], []byte{0, 0, 0, 0}); return b[:headerSize] },
		"impatient":   nil,
		"unwelcome":   nil,
		"unwelcome 0": nil,
	} {
		t.Run(name, func(t *testing.T) {
			tr := usual("4.2.2", "v41")
			b := tr.hello()
			e := New()
			var steps []Step
			switch {
			case change != nil:
				steps = e.Feed(change(tr, b))
			case name == "impatient":
				steps = e.Feed(append(b, 0))
				require.IsType(t, Join{}, steps[0].Request)
				require.Error(t, steps[1].Err)
				require.Nil(t, e.Answer(0, Answer{}))
				return
			default:
				e.Feed(b)
				steps = e.Answer(0, Answer{Status: BadCredential})
				require.Len(t, steps, 1, "a client of libpmix 4 has to ask for its job information first")
				steps = append(steps, e.Feed(header(101, 2))...)
			}
			require.Len(t, steps, 2)
			require.NotZero(t, binary.BigEndian.Uint32(steps[0].Bytes))
			require.Len(t, steps[0].Bytes, 8)
			require.Error(t, steps[1].Err)
			require.Nil(t, e.Feed(b))
			require.False(t, e.Open())
		})
	}
}

// TestScenarioOrder: requests wait beside each other, and are answered in any order.
func TestScenarioOrder(t *testing.T) {
	p := newPeer(t, "5.0.7a1", "v41")
	fence := p.ask(cmdFence, procsOf(RankWildcard)).(Fence)
	require.Equal(t, 1, fence.Procs.Len())
	first := p.tag
	get := p.ask(cmdGet, func(w *writer) {
		w.count(1)
		w.text("ns")
		w.count(1)
		w.u32(7)
		writeTop(w, ListOf(Attr{Key: keyTimeout, Value: IntValue(3)}, Attr{Key: keyImmediate, Value: BoolValue(true)}))
	}).(Get)
	require.Equal(t, Proc{"ns", 7}, get.Of)
	require.Equal(t, 3*time.Second, get.Timeout)
	require.True(t, get.Immediate)
	require.Empty(t, get.Key)
	require.Len(t, p.waiting, 2)
	require.Equal(t, NotFound, p.status(p.Answer(p.tag, Answer{Status: NotFound})))
	require.Nil(t, p.Answer(p.tag, Answer{Status: NotFound}), "twice")
	p.tag = first
	require.Equal(t, Done, p.status(p.Answer(first, Answer{})))
	require.Empty(t, p.waiting)
	p.ask(cmdFence, procsOf(0))
	p.tag--
	require.Error(t, p.send(cmdFence, procsOf(0))[0].Err, "a tag that waits")
	require.Nil(t, p.Answer(p.tag, Answer{}))
}

func TestScenarioEvents(t *testing.T) {
	p := newPeer(t, "5.0.7a1", "v41")
	register := func(codes ...Status) []Step {
		return p.send(cmdRegisterEvents, func(w *writer) { writeTop(w, ListOf(codes...)); none(w) })
	}
	forget := func(codes ...Status) {
		require.Empty(t, p.send(cmdDeregisterEvents, func(w *writer) {
			for _, code := range codes {
				w.count(1)
				w.status(code)
			}
		}))
	}
	ev := Event{LeftWithoutLeave, Proc{"ns", 3}, RangeNamespace, ListOf(Attr{Key: "a", Value: BoolValue(true)})}
	require.Nil(t, p.Notify(ev))
	require.Equal(t, Done, p.status(register(Aborted, LeftWithoutLeave)))
	r := &reader{b: unframed(t, tagEvent, p.Notify(ev))}
	require.EqualValues(t, cmdNotify, r.topOctet())
	require.Equal(t, ev.Code, r.topStatus())
	r.count(1)
	require.Equal(t, ev.Source, Proc{}.read(r))
	require.Equal(t, ev.Attrs, topList[Attr](r))
	require.EqualValues(t, RangeNamespace, r.topOctet())
	require.Empty(t, r.b)
	require.NoError(t, r.err)
	forget()
	require.NotNil(t, p.Notify(ev), "an empty list removes nothing")
	forget(LeftWithoutLeave)
	require.Nil(t, p.Notify(ev))
	require.Equal(t, Done, p.status(register()))
	require.NotNil(t, p.Notify(ev))
	forget(allCodes)
	require.Nil(t, p.Notify(ev))
	for i := range maxCodes - 1 {
		require.Equal(t, Done, p.status(register(Status(i+1))))
	}
	require.Equal(t, Done, p.status(register(1)), "it has that")
	require.Equal(t, OutOfResource, p.status(register(1000)))
	require.Equal(t, OutOfResource, p.status(register(make([]Status, maxCodes+1)...)))

	old := newPeer(t, "3.2.5", "v3")
	old.send(cmdRegisterEvents, func(w *writer) { writeTop(w, List[Status]{}); none(w) })
	r = &reader{b: unframed(t, tagEvent, old.Notify(ev)), enc: Fixed}
	r.topOctet()
	r.topStatus()
	r.count(1)
	Proc{}.read(r)
	topList[Attr](r)
	require.NoError(t, r.err)
	require.Empty(t, r.b, "no range")
	require.Nil(t, New().Notify(ev), "before the handshake")
}

func TestScenarioUnsupported(t *testing.T) {
	p := newPeer(t, "4.2.2", "v41")
	for c := range command(80) {
		if grammar[c] == nil {
			require.Equal(t, NotSupported, p.status(p.send(c, nil)), "command %d", c)
		}
	}
	s, _ := p.result(p.send(cmdJobControl, func(w *writer) {
		writeTop(w, List[Proc]{})
		writeTop(w, ListOf(Attr{Key: "pmix.jctrl.kill", Value: BoolValue(true)}))
	}))
	require.Equal(t, NotSupported, s)
	require.True(t, p.Open())
}

// TestScenarioUnreadable: a message that cannot be read hurts nothing but itself.
func TestScenarioUnreadable(t *testing.T) {
	for dialect := range dialects {
		p := newPeer(t, "4.2.2", dialect)
		for c, row := range grammar {
			steps := p.send(c, func(w *writer) { w.count(3); w.b = append(w.b, 0xff, 0xff) })
			switch {
			case row.bare || c == cmdFinalize: // no fields; these are of a newer version
				require.NoError(t, steps[0].Err, row.name)
				p = newPeer(t, "4.2.2", dialect)
			case row.quiet:
				require.Empty(t, steps)
			default:
				require.Equal(t, Unreadable, p.status(steps), row.name)
			}
		}
		require.Error(t, p.Feed(header(1, 0))[0].Err, "no command")
		require.Nil(t, p.Feed(header(1, 0)))
		p = newPeer(t, "4.2.2", dialect)
		require.Error(t, p.Feed(header(1, MaxMessage+1))[0].Err)
	}
}

func TestScenarioLeave(t *testing.T) {
	p := newPeer(t, "4.2.2", "v41")
	p.ask(cmdFence, procsOf(0))
	waits := p.tag
	steps := p.send(cmdAbort, func(w *writer) {
		w.count(1)
		w.status(7)
		w.count(1)
		w.text("why")
		writeTop(w, ListOf(Proc{"ns", 2}))
	})
	require.Equal(t, Done, p.status(steps[:1]))
	abort := steps[1].Request.(Abort)
	require.Equal(t, "why", abort.Text)
	require.EqualValues(t, 7, abort.Code)
	steps = p.send(cmdFinalize, nil)
	require.Equal(t, Done, p.status(steps[:1]))
	require.Equal(t, Finalize{}, steps[1].Request)
	require.True(t, p.Finalized())
	p.tag = waits
	require.Equal(t, Done, p.status(p.Answer(waits, Answer{})))
	require.Error(t, p.send(cmdFence, procsOf(0))[0].Err)
}

// TestScenarioRefusedJob: this reply has no status, so a refusal ends the connection.
func TestScenarioRefusedJob(t *testing.T) {
	p := newPeer(t, "4.2.2", "v41")
	require.Equal(t, GetJob{}, p.ask(cmdJob, nil))
	require.ErrorIs(t, p.Answer(p.tag, Answer{Status: NotFound})[0].Err, errRefused)
}

// TestScenarioDialects: a value committed in one encoding is read in the other.
func TestScenarioDialects(t *testing.T) {
	pairs := func(enc Encoding) Pairs {
		w := writer{enc: enc}
		for i, v := range everyValue() {
			w.pair(fmt.Sprint(i), v)
		}
		return Pairs{enc, w.b}
	}
	for _, enc := range []Encoding{Flex, Fixed} {
		p := newPeer(t, "4.2.2", map[Encoding]string{Flex: "v41", Fixed: "v3"}[enc])
		commit := p.ask(cmdCommit, func(w *writer) {
			for scope := range Scope(4) {
				w.count(1)
				w.octet(byte(scope))
				w.count(1)
				w.octet(bufferPlain)
				w.bytes(pairs(enc).Bytes)
			}
		}).(Commit)
		require.NoError(t, commit.Local.Check())
		twice := Pairs{enc, append(pairs(enc).Bytes, pairs(enc).Bytes...)}
		require.Equal(t, Commit{twice, twice}, commit, "a global value is in both")
		other, err := pairs(enc).Convert(1 - enc)
		require.NoError(t, err)
		require.Equal(t, pairs(1-enc), other)

		reader := newPeer(t, "4.2.2", map[Encoding]string{Fixed: "v41", Flex: "v3"}[enc])
		get := func() {
			reader.ask(cmdGet, func(w *writer) {
				w.count(1)
				w.text("ns")
				w.count(1)
				w.u32(1)
				none(w)
			})
		}
		get()
		s, r := reader.result(reader.Answer(reader.tag, Answer{Body: Values{Proc{"ns", 1}, pairs(enc)}}))
		require.Equal(t, Done, s)
		r.count(1)
		object := r.bytes()
		require.Empty(t, r.b)
		require.Equal(t, pairs(1-enc).Bytes, object[len(object)-len(pairs(1-enc).Bytes):])

		strange := Pairs{enc, []byte{2, 1, 0, 200}}
		require.Error(t, strange.Check())
		get()
		require.Equal(t, Unreadable, reader.status(reader.Answer(reader.tag,
			Answer{Body: Values{Proc{"ns", 1}, strange}})))
	}
}

// TestLimits: what a client may have of the engine's memory.
func TestLimits(t *testing.T) {
	p := newPeer(t, "4.2.2", "v41")
	control := func(key string, n int) []Step {
		return p.send(cmdJobControl, func(w *writer) {
			writeTop(w, List[Proc]{})
			path := Attr{Key: key, Value: TextValue(strings.Repeat(",a", n)[1:])}
			writeTop(w, ListOf(Attr{Key: keyCleanup, Value: TextValue("b")}, path))
		})
	}
	require.Len(t, control(keyCleanup, maxPaths-1)[0].Request.(Cleanup).Paths, maxPaths)
	require.Len(t, control(keyCleanupIgnore, maxPaths)[0].Request.(Cleanup).Ignored, maxPaths)
	for _, key := range []string{keyCleanup, keyCleanupIgnore} {
		s, _ := p.result(control(key, maxPaths+1))
		require.Equal(t, NotSupported, s)
	}
	lines := make([]Attr, maxTexts+1)
	for i := range lines {
		lines[i] = Attr{Key: keyLogStderr, Value: TextValue("a")}
	}
	log := p.ask(cmdLog, func(w *writer) {
		w.count(1)
		w.u64(0)
		writeTop(w, ListOf(lines...))
		none(w)
	}).(Log)
	require.Len(t, log.Stderr, maxTexts)

	for len(p.waiting) < maxWaiting {
		p.ask(cmdFence, procsOf(0))
	}
	require.Error(t, p.send(cmdFence, procsOf(0))[0].Err)

	p = newPeer(t, "4.2.2", "v41")
	long := func(w *writer) {
		procsOf(0)(w)
		w.b = append(w.b, make([]byte, maxHeld/2-100)...)
	}
	p.ask(cmdFence, long)
	p.status(p.Answer(p.tag, Answer{}))
	p.ask(cmdFence, long)
	p.ask(cmdFence, long)
	require.Error(t, p.send(cmdFence, long)[0].Err)

	p = newPeer(t, "4.2.2", "v41")
	require.Empty(t, p.Feed(append(header(1, MaxMessage), 2)))
	require.LessOrEqual(t, cap(p.body), 4<<10)
	for arrived := 1; arrived+1000 < MaxMessage; arrived += 1000 {
		if p.Feed(make([]byte, 1000)); cap(p.body) > max(2*(arrived+1000), 4<<10) {
			require.Fail(t, "too much memory", "%d bytes after %d", cap(p.body), arrived)
		}
	}
}
