package pmixserver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/wire/rankwire"
)

func (c *client) await(keys ...string) replyFunc {
	timeout := pmix.Attr{Key: "pmix.timeout", Value: pmix.IntValue(1)}
	return c.start(pmixtest.Lookup, pmixtest.U32(0), pmixtest.Keys(keys...),
		pmixtest.Attrs(pmixtest.Is("pmix.wait"), timeout))
}

// due says that the time of all requests is up.
func (w *world) due() {
	for _, t := range of[Timer](w) {
		w.obey(0, w.servers[0].Due(t.Call, t.Tag))
	}
	w.effects = nil
}

// A rank has a limited number of requests that wait, over all of its connections. Other ranks and
// requests that need not wait are served.
func TestWaitingIsLimited(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b, other := w.client(0), w.client(0), w.client(1)
	for i := range maxWaiting / 2 {
		waits(t, a.get(1, fmt.Sprint("key", i), pmix.Attr{Key: "pmix.timeout", Value: pmix.IntValue(1)}))
	}
	keys := make([]string, maxWaiting/8)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	waits(t, b.await(keys...)) // two questions of each: the table's, and who waits for it
	waits(t, b.await(keys...)) // these share the table's
	waits(t, other.await("key"))
	for range maxWaiting / 8 {
		waits(t, b.get(1, "another"))
	}
	gives(t, pmix.OutOfResource, a.get(1, "key"))
	gives(t, pmix.OutOfResource, b.await("key"))
	gives(t, pmix.OutOfResource, b.fence(w.wildcard()))
	waits(t, other.get(0, "key"))
	a.commit(pmix.ScopeGlobal, word("j", "1"))
	gives(t, pmix.Done, other.get(0, "j"))

	w.due()
	waits(t, a.get(1, "key"))
	waits(t, a.fence(w.wildcard()))
	w.exit(1)
	require.Equal(t, maxWaiting/8+1, w.servers[0].local(0).waiting, "the table may answer; and the fence")
}

// A rank that looks up a name again and again until it is there asks the table once, and finds it.
func TestAwaitedAgain(t *testing.T) {
	w := newWorld(t, 1, 2)
	all := w.all()
	for range 3 * maxWaiting {
		last := all[0].await("name")
		w.due()
		gives(t, pmix.TimedOut, last)
	}
	require.Equal(t, 1, w.count(rankwire.KindName))
	first, second, others := all[0].await("name"), all[0].await("name"), all[1].await("name")
	once := pmix.Attr{Key: "pmix.persist", Value: pmix.Uint32Value(uint32(pmix.PersistFirstRead))}
	for i := range 3 {
		value := word("name", fmt.Sprint(i))
		gives(t, pmix.Done, all[1].start(pmixtest.Publish, pmixtest.U32(0), pmixtest.Attrs(value, once)))
		found := 0
		for _, f := range []replyFunc{first, second, others} {
			if _, ok := f(); ok {
				found++
			}
		}
		require.Equal(t, i+1, found, "each value is read once")
	}
	for _, f := range []replyFunc{first, second, others} {
		gives(t, pmix.Done, f)
	}
	require.Zero(t, w.servers[0].local(0).waiting)
	require.Zero(t, w.servers[0].local(1).waiting)
}

// A rank has a limited number of connections at a time.
func TestConnectionsAreLimited(t *testing.T) {
	w := newWorld(t, 1, 2)
	var all []*client
	for range maxConns {
		all = append(all, w.client(0))
	}
	require.Equal(t, pmix.OutOfResource, w.connect(0, Namespace(w.job), 0).hello().Status)
	w.client(1)
	all[0].ask(pmixtest.Finalize)
	all[0].close()
	w.client(0)
	require.Equal(t, pmix.OutOfResource, w.connect(0, Namespace(w.job), 0).hello().Status)
}
