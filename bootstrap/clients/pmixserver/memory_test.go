package pmixserver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/wire/rankwire"
)

// flood sends messages of a rank that joined, and returns the bytes of memory that its node holds
// for them: the server's heap, and the values that it gave to the core. The rank ends its
// connection, but for the first one, after some messages, and makes another one.
func flood(t *testing.T, count, each int, message func(c *pmixtest.Client, i int) []byte) (held, received int) {
	w := newWorld(t, 1, 2)
	s, c := w.servers[0], pmixtest.New(Namespace(w.job), 0)
	s.Receive(1, c.Hello())
	s.Deliver(0, rankwire.Welcome{Epoch: 1})
	before := heap()
	call := uint32(1)
	for i := range count {
		if i%each == 0 {
			if call > 1 {
				s.Receive(call, c.Request(pmixtest.Finalize))
				s.Closed(call)
			}
			call++
			c = pmixtest.New(c.Namespace, 0)
			s.Receive(call, c.Hello())
		}
		b := message(c, i)
		received += len(b)
		for _, e := range s.Receive(call, b) {
			if f, ok := e.(ClientFrame); ok {
				if p, ok := f.Msg.(rankwire.Put); ok {
					held += len(p.Key) + len(p.Value)
				}
			}
		}
	}
	held += heap() - before
	runtime.KeepAlive(s)
	return held, received
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one only found
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A hostile client takes at most twice the memory of what it has sent, and a fixed number of bytes
// for requests that wait.
func TestMemoryIsBounded(t *testing.T) {
	const (
		count  = 6_000    // number of messages: more requests than maxWaiting
		fixed  = 1 << 20  // most bytes for all waiting requests together
		slack  = 64 << 10 // most bytes that the Go runtime allocates for itself
		length = 200
	)
	long := strings.Repeat("x", length)
	both := func(c *pmixtest.Client) []byte { return pmixtest.Procs(c.Namespace, 0, 1) }
	for name, c := range map[string]struct {
		waits   bool
		message func(c *pmixtest.Client, i int) []byte
	}{
		"commits of new keys": {false, func(c *pmixtest.Client, i int) []byte {
			return c.Request(pmixtest.Commit, pmixtest.Values(pmix.ScopeRemote, word(fmt.Sprint("key", i), long)))
		}},
		"commits of one key": {false, func(c *pmixtest.Client, i int) []byte {
			return c.Request(pmixtest.Commit, pmixtest.Values(pmix.ScopeRemote, word("key", fmt.Sprint(i, long))))
		}},
		"Gets": {true, func(c *pmixtest.Client, i int) []byte {
			return c.Request(pmixtest.Get, pmixtest.Text(c.Namespace), pmixtest.U32(1), pmixtest.Attrs(),
				pmixtest.Text(fmt.Sprint("key", i)))
		}},
		"groups that wait": {true, func(c *pmixtest.Client, i int) []byte {
			return c.Request(pmixtest.GroupConstruct, pmixtest.Text(fmt.Sprint("group", i)), both(c), pmixtest.Attrs())
		}},
		"groups of one": {false, func(c *pmixtest.Client, i int) []byte {
			info := pmix.Attr{Key: "pmix.grp.info", Value: pmix.AttrsValue(word("key", long))}
			return c.Request(pmixtest.GroupConstruct, pmixtest.Text(fmt.Sprint("group", i)),
				pmixtest.Procs(c.Namespace, 0), pmixtest.Attrs(info))
		}},
		"look-ups": {true, func(c *pmixtest.Client, i int) []byte {
			return c.Request(pmixtest.Lookup, pmixtest.U32(0), pmixtest.Keys(fmt.Sprint("key", i)),
				pmixtest.Attrs(pmixtest.Is("pmix.wait")))
		}},
		"look-ups of many": {true, func(c *pmixtest.Client, i int) []byte {
			var keys []string
			for k := range maxKeys / 8 {
				keys = append(keys, fmt.Sprint(k, " ", i))
			}
			return c.Request(pmixtest.Lookup, pmixtest.U32(0), pmixtest.Keys(keys...),
				pmixtest.Attrs(pmixtest.Is("pmix.wait")))
		}},
		"publications": {true, func(c *pmixtest.Client, i int) []byte {
			return c.Request(pmixtest.Publish, pmixtest.U32(0), pmixtest.Attrs(word(fmt.Sprint("key", i), long)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, each := range []int{count, 100} {
				held, received := flood(t, count, each, c.message)
				t.Logf("%d bytes for %d, %d besides twice that", held, received, held-2*received)
				most := 2*received + slack
				if c.waits {
					most += fixed
				}
				require.LessOrEqual(t, held, most, "%d messages of a connection", each)
			}
		})
	}
}

// Programs of a rank that come one after the other share the bound: the KVS keeps what all of them
// have put.
func TestBlobsOfManyPrograms(t *testing.T) {
	w := newWorld(t, 1, 2)
	long, received := word("long", strings.Repeat("x", maxBlob/2)), 0
	for range 10 {
		c := w.client(0)
		for _, a := range []pmix.Attr{long, word("a", "b"), word("a", "c"), word("a", "d"), word("a", "e")} {
			b := pmixtest.Values(pmix.ScopeRemote, a)
			received += len(b)
			c.ask(pmixtest.Commit, b)
		}
		c.ask(pmixtest.Finalize)
	}
	put := 0
	for _, f := range w.frames {
		if p, ok := f.Msg.(rankwire.Put); ok {
			put += len(p.Value)
		}
	}
	require.Greater(t, put, received)
	require.LessOrEqual(t, put, received+maxBlob)
}
