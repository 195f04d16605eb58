package pmix

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers of the commands by their names in traces.
var numbers = map[string]command{
	"req": cmdJob, "regevents": cmdRegisterEvents, "jobcontrol": cmdJobControl, "commit": cmdCommit, "fence": cmdFence,
	"get": cmdGet, "publish": cmdPublish, "lookup": cmdLookup, "unpublish": cmdUnpublish, "connect": cmdConnect,
	"log": cmdLog, "abort": cmdAbort, "deregevents": cmdDeregisterEvents, "finalize": cmdFinalize,
}

// request writes a client's message from what the trace says of it.
func (s traced) request(t testing.TB, enc Encoding) []byte {
	w := writer{enc: enc}
	w.count(1)
	w.octet(byte(numbers[s.what]))
	top := func(write func()) { w.count(1); write() }
	attrs, procs := ListOf(s.attrs(t)...), ListOf(s.procs(t)...)
	switch s.what {
	case "regevents":
		var codes []Status
		for _, text := range s.after("codes") {
			for _, code := range strings.Split(strings.Trim(text, "[]"), ", ") {
				n, err := strconv.Atoi(code)
				require.NoError(t, err)
				codes = append(codes, Status(n))
			}
		}
		writeTop(&w, ListOf(codes...))
		writeTop(&w, attrs)
	case "jobcontrol", "fence", "connect":
		writeTop(&w, procs)
		writeTop(&w, attrs)
	case "commit":
		for rest := s.lines; len(rest) > 0; {
			var scope, kind, n int
			_, err := fmt.Sscanf(rest[0], "scope %d, a buffer of type %d, %d bytes", &scope, &kind, &n)
			require.NoError(t, err)
			pairs := writer{enc: enc}
			rest = pairsFrom(t, &pairs, rest[1:])
			require.Len(t, pairs.b, n)
			top(func() { w.octet(byte(scope)) })
			top(func() { w.octet(byte(kind)); w.bytes(pairs.b) })
		}
	case "get":
		of := procFrom(t, s.lines[0])
		top(func() { w.text(of.Namespace) })
		top(func() { w.u32(uint32(of.Rank)) })
		writeTop(&w, attrs)
		top(func() { w.text(s.after("key")[0]) })
	case "publish", "lookup", "unpublish":
		top(func() { w.u32(0) })
		if keys := s.after("key"); s.what != "publish" {
			top(func() { w.size(uint64(len(keys))) })
			for _, key := range keys {
				top(func() { w.text(key) })
			}
		}
		writeTop(&w, attrs)
	case "log":
		top(func() { w.u64(0) })
		writeTop(&w, ListOf(s.attrs(t)[:1]...))
		writeTop(&w, ListOf(s.attrs(t)[1:]...))
	case "abort":
		top(func() { w.status(7) })
		top(func() { w.i32(0) }) // a null string
		writeTop(&w, procs)
	case "deregevents":
		w.b = s.prefix // all of it
	}
	return w.b
}

// traced is the body of a reply as the trace has it.
type recorded func(w *writer)

func (r recorded) write(w *writer, _ *Engine) error { r(w); return nil }

// answer is what the owner says so that the reply is the one of the trace.
func (s traced) answer(t testing.TB, enc Encoding, reply traced) Answer {
	if s.what == "req" {
		return Answer{Body: recorded(func(w *writer) {
			w.count(1)
			w.text(strings.TrimPrefix(reply.lines[0], "namespace "))
			require.Empty(t, pairsFrom(t, w, reply.lines[1:]))
		})}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(reply.lines[0], "status "))
	require.NoError(t, err)
	a := Answer{Status: Status(n)}
	switch {
	case s.what == "get" && n == 0:
		_, of, _ := strings.Cut(reply.lines[1], ": of ")
		pairs := writer{enc: enc}
		require.Empty(t, pairsFrom(t, &pairs, reply.lines[2:]))
		a.Body = Values{procFrom(t, of), Pairs{enc, pairs.b}}
	case s.what == "lookup":
		var found []Found
		for _, line := range reply.lines[1:] {
			m := textFound.FindStringSubmatch(line)
			require.NotNil(t, m, line)
			found = append(found, Found{procFrom(t, m[1]+" "+m[2]), m[3], valueFrom(t, m[4], strings.Trim(m[5], "'"))})
		}
		a.Body = Results{found}
	}
	return a
}

// requireMessage compares bytes with those of a trace: the length, and all that the trace has of
// them.
func requireMessage(t testing.TB, s traced, b []byte) {
	seen := slices.Clone(b[:min(len(b), len(s.prefix))])
	for i := range seen {
		if seen[i] == unknown {
			seen[i] = s.prefix[i]
		}
	}
	require.Equal(t, s.prefix, seen, "%s %d", s.what, s.tag)
	require.Len(t, b, s.size, "%s %d", s.what, s.tag)
}

// header is of a client's message.
func header(tag uint32, size int) (b []byte) {
	for _, n := range []uint32{7, tag, uint32(size), 0} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// unframed checks the header of a reply and returns its body.
func unframed(t testing.TB, tag uint32, b []byte) []byte {
	require.GreaterOrEqual(t, len(b), headerSize)
	require.Equal(t, tag, binary.BigEndian.Uint32(b[4:]))
	require.EqualValues(t, len(b)-headerSize, binary.BigEndian.Uint32(b[8:]))
	require.Zero(t, binary.BigEndian.Uint32(b[12:]))
	return b[headerSize:]
}

// joinedAs is an engine that has taken in a client.
func joinedAs(t testing.TB, tr *trace) *Engine {
	e := New()
	steps := e.Feed(tr.hello())
	require.Equal(t, []Step{{Request: tr.client}}, steps)
	require.False(t, e.Open())
	steps = e.Answer(steps[0].Tag, Answer{})
	require.Equal(t, []Step{{Bytes: handshakeReply(Done, uint32(tr.client.Rank))}}, steps)
	require.True(t, e.Open())
	return e
}

// TestReplay gives each recorded conversation to an engine. Messages of the client are built from
// what the trace says of them and must be the recorded bytes. The engine's replies must be the
// recorded bytes again. TestRequests checks what the engine reads in requests.
func TestReplay(t *testing.T) {
	seen := map[string]int{}
	for _, tr := range traces(t) {
		t.Run(tr.name, func(t *testing.T) {
			e := joinedAs(t, &tr)
			for i, s := range tr.messages {
				if !s.client {
					continue
				}
				b := s.request(t, e.enc)
				requireMessage(t, s, b)
				steps := e.Feed(append(header(s.tag, len(b)), b...))
				if s.what == "deregevents" {
					require.Empty(t, steps)
					continue
				}
				reply := tr.messages[i+1:][slices.IndexFunc(tr.messages[i+1:], func(r traced) bool {
					return !r.client && r.tag == s.tag
				})]
				var out []byte
				for len(steps) > 0 {
					step := steps[0]
					steps = steps[1:]
					require.NoError(t, step.Err)
					if step.Request == nil {
						require.Nil(t, out)
						out = unframed(t, s.tag, step.Bytes)
						continue
					}
					require.Equal(t, s.tag, step.Tag)
					if _, waits := e.waiting[s.tag]; waits {
						steps = append(steps, e.Answer(s.tag, s.answer(t, e.enc, reply))...)
					}
				}
				requireMessage(t, reply, out)
				seen[s.what]++
			}
			require.Empty(t, e.waiting)
			require.Equal(t, tr.name != "ompi507-abort.1", e.Finalized())
		})
	}
	for name := range numbers {
		require.True(t, seen[name] > 0 || name == "deregevents", name)
	}
}
