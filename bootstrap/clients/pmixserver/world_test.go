package pmixserver

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// world is a job with its servers and clients, and in place of the agents' cores what these do for
// any rank: it keeps values and names, and ends collectives.
type world struct {
	t       testing.TB
	job     *job.Job
	servers []*Server
	clients map[string]*client // by node and call
	calls   []uint32           // of each node

	epochs map[job.Slot]uint16
	ops    map[job.Slot]uint32
	values map[string][]byte // by slot and key
	parked []question
	joined map[uint32][]rankwire.Parcel
	names  *table

	frames  []ClientFrame // all that ranks have said
	effects []Effect      // all others than Bytes and ClientFrame
	queue   []func()
}

// table is the oldest root's, which related jobs share.
type table struct {
	ports   map[string]rankwire.Name
	waiting []func() bool
}

type question struct {
	from job.Slot
	ask  rankwire.Ask
}

// client is a connection.
type client struct {
	*pmixtest.Client
	w       *world
	node    int
	call    uint32
	replies map[uint32]pmixtest.Reply
	events  []pmixtest.Reply
	over    bool // the server has hung up
}

// newWorld is a job of nodes with so many ranks each.
func newWorld(t testing.TB, nodes, ranks uint32) *world {
	j := &job.Job{
		ID: "0123456789abcdef", Size: nodes * ranks, Nodes: nodes,
		Layout:   job.NewLayout([]job.Share{{Nodes: nodes, Ranks: ranks}}),
		Programs: []job.Program{{Count: nodes * ranks, Argv: []string{"a"}}},
	}
	j.Secret[0] = 7
	return worldOf(t, j, &table{ports: map[string]rankwire.Name{}})
}

func worldOf(t testing.TB, j *job.Job, names *table) *world {
	w := &world{
		t: t, job: j, clients: map[string]*client{}, calls: make([]uint32, j.Nodes), epochs: map[job.Slot]uint16{},
		ops: map[job.Slot]uint32{}, values: map[string][]byte{}, joined: map[uint32][]rankwire.Parcel{}, names: names,
	}
	for i := range job.NodeIndex(j.Nodes) {
		first, count := j.Layout.SlotsOn(i)
		n := job.Node{Host: fmt.Sprintf("node%d", i), First: first, Ranks: count}
		w.servers = append(w.servers, New(j, n, i))
	}
	return w
}

// connect makes a connection, and says nothing.
func (w *world) connect(node int, namespace string, rank uint32) *client {
	w.calls[node]++
	c := &client{
		Client: pmixtest.New(namespace, rank), w: w, node: node, call: w.calls[node],
		replies: map[uint32]pmixtest.Reply{},
	}
	w.clients[fmt.Sprint(node, " ", c.call)] = c
	return c
}

// client is a rank's, which has joined.
func (w *world) client(rank uint32) *client {
	c := w.connect(w.nodeOf(rank), Namespace(w.job), rank)
	require.Equal(w.t, pmix.Done, c.hello().Status)
	return c
}

func (w *world) all() (all []*client) {
	for rank := range w.job.Size {
		all = append(all, w.client(rank))
	}
	return all
}

func (w *world) nodeOf(rank uint32) int { return int(w.job.Layout.NodeOf(job.Slot(rank))) }

func (c *client) hello() pmixtest.Reply {
	c.send(c.Hello())
	return c.replies[1]
}

func (c *client) send(b []byte) {
	c.w.obey(c.node, c.w.servers[c.node].Receive(c.call, b))
	c.w.drain()
}

// start sends a request and returns a function that returns its reply.
func (c *client) start(command byte, fields ...[]byte) replyFunc {
	b := c.Request(command, fields...)
	tag := uint32(b[4])<<24 | uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7])
	c.send(b)
	return func() (pmixtest.Reply, bool) {
		r, ok := c.replies[tag]
		return r, ok
	}
}

// ask sends a request that is answered at once.
func (c *client) ask(command byte, fields ...[]byte) pmixtest.Reply {
	c.w.t.Helper()
	r, ok := c.start(command, fields...)()
	require.True(c.w.t, ok, "command %d waits", command)
	return r
}

// close ends the connection from the client's side.
func (c *client) close() {
	c.w.obey(c.node, c.w.servers[c.node].Closed(c.call))
	c.w.drain()
}

// exit ends a rank.
func (w *world) exit(rank uint32) {
	w.obey(w.nodeOf(rank), w.servers[w.nodeOf(rank)].Exited(job.Slot(rank)))
	w.drain()
}

func (w *world) drain() {
	for len(w.queue) > 0 {
		f := w.queue[0]
		w.queue = w.queue[1:]
		f()
	}
}

func (w *world) deliver(slot job.Slot, m frame.Message) {
	w.queue = append(w.queue, func() {
		w.obey(w.nodeOf(uint32(slot)), w.servers[w.nodeOf(uint32(slot))].Deliver(slot, m))
	})
}

func (w *world) obey(node int, effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Bytes:
			c := w.clients[fmt.Sprint(node, " ", e.Call)]
			for _, r := range c.Receive(e.Bytes) {
				if r.Tag == 0 {
					c.events = append(c.events, r)
				} else {
					c.replies[r.Tag] = r
				}
			}
		case ClientFrame:
			w.frames = append(w.frames, e)
			w.frame(e.Rank, e.Msg)
		case HangUp:
			c := w.clients[fmt.Sprint(node, " ", e.Call)]
			c.over = true
			w.queue = append(w.queue, func() { w.obey(node, w.servers[node].Closed(e.Call)) })
		default:
			w.effects = append(w.effects, e)
		}
	}
}

// frame does what a core does.
func (w *world) frame(slot job.Slot, m frame.Message) {
	switch m := m.(type) {
	case rankwire.Hello:
		w.epochs[slot]++
		w.deliver(slot, rankwire.Welcome{Epoch: w.epochs[slot], Op: w.ops[slot]})
	case rankwire.Put:
		w.values[fmt.Sprint(slot, " ", m.Key)] = m.Value
		w.unpark(nil)
	case rankwire.Ask:
		require.NotEqual(w.t, w.nodeOf(uint32(slot)), w.nodeOf(uint32(m.Rank)), "of the own node")
		w.parked = append(w.parked, question{slot, m})
		w.unpark(nil)
	case rankwire.Collect:
		w.ops[slot]++
		require.Equal(w.t, w.ops[slot], m.Op)
		w.collect(m)
	case rankwire.Name:
		w.name(slot, m)
	}
}

// unpark answers what can be answered; gone is what is said of ranks that have left.
func (w *world) unpark(gone map[job.Slot]rankwire.Answered) {
	var left []question
	for _, q := range w.parked {
		v, ok := w.values[fmt.Sprint(q.ask.Rank, " ", q.ask.Key)]
		what, away := gone[q.ask.Rank]
		switch {
		case ok:
			w.deliver(q.from, rankwire.Answer{Rank: q.ask.Rank, Key: q.ask.Key, Value: v})
		case away:
			w.deliver(q.from, rankwire.Answer{Rank: q.ask.Rank, Key: q.ask.Key, What: what})
		default:
			left = append(left, q)
		}
	}
	w.parked = left
}

func (w *world) collect(m rankwire.Collect) {
	w.joined[m.Op] = slices.AppendSeq(w.joined[m.Op], m.Parcels.All())
	for slot := range job.Slot(w.job.Size) {
		if w.ops[slot] < m.Op {
			return
		}
	}
	all := Join(rankwire.NewParcels(w.joined[m.Op]...))
	for slot := range job.Slot(w.job.Size) {
		w.deliver(slot, rankwire.Release{Op: m.Op, Parcels: all})
	}
}

// name does what the oldest root does.
func (w *world) name(slot job.Slot, m rankwire.Name) {
	require.NoError(w.t, rankwire.Vocabulary.Check(m, 0))
	try := func() bool {
		port, known := w.names.ports[m.Service]
		switch m.Do {
		case rankwire.NamePublish:
			if m.Done = !known; m.Done {
				w.names.ports[m.Service] = m
			}
		case rankwire.NameUnpublish:
			m.Done = known
			delete(w.names.ports, m.Service)
		case rankwire.NameLookup:
			if m.Wait && !known {
				return false
			}
			if m.Done, m.Port = known, port.Port; port.Once {
				delete(w.names.ports, m.Service)
			}
		}
		w.deliver(slot, m)
		return true
	}
	if !try() {
		w.names.waiting = append(w.names.waiting, func() bool { defer w.drain(); return try() })
		return
	}
	waiting := w.names.waiting
	w.names.waiting = nil
	for _, again := range waiting {
		if !again() {
			w.names.waiting = append(w.names.waiting, again)
		}
	}
}

// count counts the frames of a kind.
func (w *world) count(k frame.Kind) (n int) {
	for _, f := range w.frames {
		if f.Msg.Kind() == k {
			n++
		}
	}
	return n
}

// of returns the effects of a type.
func of[T Effect](w *world) (all []T) {
	for _, e := range w.effects {
		if e, ok := e.(T); ok {
			all = append(all, e)
		}
	}
	return all
}
