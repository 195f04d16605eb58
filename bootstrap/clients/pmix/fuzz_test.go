package pmix

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// conversation is all that the client of a trace says.
func (tr *trace) conversation(t testing.TB) []byte {
	b := tr.hello()
	for _, s := range tr.messages {
		if s.client {
			said := s.request(t, dialects[tr.client.Dialect])
			b = append(append(b, header(s.tag, len(said))...), said...)
		}
	}
	return b
}

// FuzzFeed gives an engine any bytes, with an owner that answers, refuses and lets wait by turns,
// and with one that lets everything wait. It must not panic, what it sends must be messages, it
// must keep little, and as long as nothing is answered the pieces must not matter.
func FuzzFeed(f *testing.F) {
	all := traces(f)
	for _, tr := range all {
		f.Add(tr.conversation(f), uint8(5))
	}
	for _, name := range []string{"client-v41.hex", "client-v21.hex"} {
		var b []byte
		for _, c := range recording(f, name) {
			if c.client {
				b = append(b, c.bytes...)
			}
		}
		f.Add(b, uint8(20))
	}
	for _, dialect := range []string{"v41", "v3"} {
		b := usual("6.1.0", dialect).hello()
		for c, fill := range sayings {
			w := writer{enc: dialects[dialect]}
			w.count(1)
			w.octet(byte(c))
			fill(top{&w})
			if c != cmdFinalize {
				b = append(append(b, header(uint32(c)+101, len(w.b))...), w.b...)
			}
		}
		f.Add(b, uint8(1))
	}
	require.NotEmpty(f, all)
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		if len(b) > 1<<14 {
			return
		}
		drive(t, b, int(piece)+1, true)
		require.Equal(t, drive(t, b, len(b)+1, false), drive(t, b, int(piece)+1, false))
	})
}

// drive feeds bytes to a new engine in pieces, and returns what it sent and asked, and its error. A
// client waits for the reply to its handshake.
func drive(t *testing.T, b []byte, piece int, answers bool) (out []string) {
	e, turn, arrived := New(), 0, 0
	take := func(steps []Step) {
		for len(steps) > 0 {
			s := steps[0]
			steps = steps[1:]
			switch {
			case s.Err != nil:
				out = append(out, s.Err.Error())
				return // the owner has ended the connection
			case s.Request == nil:
				if len(out) > 1 && len(s.Bytes) != 8 {
					unframed(t, binary.BigEndian.Uint32(s.Bytes[4:]), s.Bytes)
				}
				out = append(out, string(s.Bytes))
			default:
				out = append(out, fmt.Sprintf("%T", s.Request))
				require.True(t, cmp.Equal(s.Request, s.Request, contents)) // The comparison decodes all fields.
				_, waits := e.waiting[s.Tag]
				if turn++; answers && waits && turn%4 != 0 || e.state == joining {
					steps = append(lastFails(t, e.Answer(s.Tag, word(s.Request, turn))), steps...)
				}
			}
		}
		// Beside what waits in it, a message has room for as much again, or a first piece.
		if cap(e.body) > max(2*arrived, 4<<10) || len(e.codes) > maxCodes {
			t.Fatalf("%d bytes of memory after %d, %d codes", cap(e.body), arrived, len(e.codes))
		}
	}
	for len(b) > 0 {
		n := min(piece, len(b))
		if e.state == fresh && len(e.head) < headerSize {
			n = min(n, headerSize-len(e.head))
		} else if e.state == fresh {
			n = min(n, e.want-len(e.body))
		}
		arrived += n
		take(lastFails(t, e.Feed(b[:n])))
		b = b[n:]
	}
	return out
}

// lastFails asserts that nothing follows the step that ends a connection.
func lastFails(t *testing.T, steps []Step) []Step {
	at := slices.IndexFunc(steps, func(s Step) bool { return s.Err != nil })
	require.Contains(t, []int{-1, len(steps) - 1}, at)
	return steps
}

// word is an answer to a request: in one of three turns a refusal.
func word(q Request, turn int) Answer {
	if _, joins := q.(Join); turn%3 == 0 && !joins {
		return Answer{Status: NotFound}
	}
	switch q := q.(type) {
	case GetJob:
		return Answer{Body: smallJob("ns", 1)}
	case Get:
		return Answer{Body: Values{q.Of, PairsOf(Attr{"a", 0, BoolValue(true)})}}
	case Lookup:
		return Answer{Body: Results{[]Found{{Proc{"ns", 1}, "a", TextValue("b")}}}}
	case Spawn:
		return Answer{Body: smallJob("new", 1)}
	}
	return Answer{}
}

// FuzzPairs: pairs that can be read convert to the other encoding, and from there back and forth
// without a change.
func FuzzPairs(f *testing.F) {
	for _, tr := range traces(f) {
		for _, s := range tr.messages {
			if s.what == "commit" && s.client {
				enc := dialects[tr.client.Dialect]
				r := reader{b: s.request(f, enc), enc: enc}
				r.topOctet()
				commit := parseCommit(&r).(Commit)
				require.NoError(f, commit.Local.Check())
				f.Add(commit.Local.Bytes, enc == Fixed)
				f.Add(commit.Remote.Bytes, enc == Fixed)
			}
		}
	}
	for i, v := range everyValue() {
		p := PairsOf(Attr{Key: fmt.Sprint(i), Value: v})
		f.Add(p.Bytes, false)
		p, err := p.Convert(Fixed)
		require.NoError(f, err)
		f.Add(p.Bytes, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, fixed bool) {
		p := Pairs{Encoding: Flex, Bytes: b}
		if fixed {
			p.Encoding = Fixed
		}
		there, err := p.Convert(1 - p.Encoding)
		require.Equal(t, p.Check() == nil, err == nil)
		if err != nil {
			return
		}
		back, err := there.Convert(p.Encoding)
		require.NoError(t, err)
		again, err := back.Convert(there.Encoding)
		require.NoError(t, err)
		require.Equal(t, there, again)
		var keys, other []string
		for key, v := range p.All() {
			v.Number()
			v.Text()
			keys = append(keys, key)
		}
		for key := range there.All() {
			other = append(other, key)
		}
		require.Equal(t, keys, other)
	})
}
