package lazy

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/fabric/udp"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
	"ibrun/test/waitfor"
)

// world is a job whose tables all run in one process. Its agents answer questions from the shared state of the world.
type world struct {
	t      testing.TB
	layout job.Layout
	key    fabric.Key
	open   func(fabric.Sink) (fabric.Fabric, error)
	config func(*Config)

	mu          sync.Mutex
	tables      map[uint32]*Table
	ended       map[uint32]error
	asks        int
	secondaries map[uint32]fabric.Tuple // second addresses; as they were before any question
	later       map[uint32]bool         // ranks that open when they are wanted
	pairs       map[[2]uint32]bool
	parked      map[uint32][][2]uint32   // AskPair requests for a rank that will be restarted, by rank
	stopped     map[uint32]chan struct{} // ranks that do not answer their agent until it is closed
	wg          sync.WaitGroup
}

func newWorld(t testing.TB, nodes, perNode uint32, open func(fabric.Sink) (fabric.Fabric, error)) *world {
	w := &world{
		t: t, layout: job.NewLayout([]job.Share{{Nodes: nodes, Ranks: perNode}}), key: fabric.DeriveKey([32]byte{7}),
		open:   open,
		tables: map[uint32]*Table{}, ended: map[uint32]error{}, pairs: map[[2]uint32]bool{},
		parked: map[uint32][][2]uint32{},
	}
	t.Cleanup(func() {
		for _, table := range w.tables {
			table.Close()
		}
		w.wg.Wait()
	})
	return w
}

// overMem and overUDP are fabrics of different luck.
func overMem(n *mem.Network) func(fabric.Sink) (fabric.Fabric, error) {
	return func(s fabric.Sink) (fabric.Fabric, error) { return n.Open(s), nil }
}

func overUDP(s fabric.Sink) (fabric.Fabric, error) {
	return udp.Open(udp.Config{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 1500}, s)
}

// start makes every rank's table.
func (w *world) start() *world {
	for r := range w.layout.Ranks() {
		w.startRank(r, 1)
	}
	return w
}

func (w *world) startRank(rank uint32, epoch uint16) *Table {
	cfg := Config{
		Rank: rank, Epoch: epoch, Layout: w.layout, Resolver: &agent{w, rank},
		Seal: fabric.NewSeal(w.key, rank, epoch), Open: w.open,
		afterStep: func(p *peer.Peer) {
			if err := p.Check(); err != nil {
				w.t.Errorf("rank %d: %v", rank, err)
			}
		},
	}
	if w.config != nil {
		w.config(&cfg)
	}
	table := New(cfg)
	if cfg.Open != nil && !w.later[rank] {
		require.NoError(w.t, table.Reach())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tables[rank] = table
	return table
}

func (w *world) table(rank uint32) *Table {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables[rank]
}

// end closes the table of a rank. From then on the agent answers questions about the rank with the error as.
func (w *world) end(rank uint32, as error) {
	w.mu.Lock()
	w.ended[rank] = as
	w.mu.Unlock()
	w.table(rank).Close()
}

// receives checks the next message that a rank receives.
func (w *world) receives(ctx context.Context, rank uint32, body []byte) {
	w.t.Helper()
	m, err := w.table(rank).Recv(ctx)
	require.NoError(w.t, err)
	require.Equal(w.t, body, m.Body)
}

// receivesFrom checks the next message that a rank receives from another one.
func (w *world) receivesFrom(ctx context.Context, rank, from uint32, body []byte) {
	w.t.Helper()
	m, err := w.table(rank).RecvFrom(ctx, from)
	require.NoError(w.t, err)
	require.Equal(w.t, body, m.Body)
}

// agent is the Resolver of one rank. It answers each question from another goroutine, as a real agent does.
type agent struct {
	w    *world
	rank uint32
}

func (a *agent) AskBlock(rank uint32, _ uint16, fresh bool) error {
	a.w.wg.Go(func() { a.w.answer(a.rank, rank, fresh) })
	return nil
}

func (a *agent) AskSecondary(rank uint32, _ uint16) error {
	a.w.wg.Go(func() {
		a.w.mu.Lock()
		a.w.asks++
		table, tuple, failure := a.w.tables[a.rank], a.w.secondaries[rank], a.w.ended[rank]
		a.w.mu.Unlock()
		table.AnsweredSecondary(rank, tuple.Append(nil), failure)
	})
	return nil
}

func (w *world) answer(to, rank uint32, fresh bool) {
	w.mu.Lock()
	w.asks++
	if runs := w.stopped[rank]; runs != nil && fresh {
		w.mu.Unlock()
		<-runs
		w.mu.Lock()
	}
	if w.later[rank] {
		delete(w.later, rank)
		table := w.tables[rank]
		w.mu.Unlock()
		table.Wanted(func(err error) { require.NoError(w.t, err) })
		waitfor.Require(w.t, "a table is open", func() bool { return table.Tuple().Kind != fabric.NONE })
		w.mu.Lock()
	}
	node := w.layout.NodeOf(job.Slot(rank))
	slot, count := w.layout.SlotsOn(node)
	first := uint32(slot)
	b := fabric.Block{Node: uint32(node), First: first}
	for r := first; r < first+count; r++ {
		e := fabric.Entry{}
		if t := w.tables[r]; t != nil && w.ended[r] == nil {
			b.Base = t.Tuple()
			e = fabric.Entry{Epoch: t.cfg.Epoch, Num: b.Base.Num}
			// Ranks of one node share its address; in one process each has a port or, in mem, an
			// address of its own.
		}
		b.Ranks = append(b.Ranks, e)
	}
	b.Base.Num = 0
	table, failure := w.tables[to], w.ended[rank]
	w.mu.Unlock()
	if failure != nil {
		table.Answered(rank, fresh, nil, failure)
		return
	}
	table.Answered(rank, fresh, b.Append(nil), nil)
}

func (a *agent) AskPair(rank uint32) error {
	a.w.wg.Go(func() { a.w.pair(a.rank, rank) })
	return nil
}

func (w *world) pair(a, b uint32) {
	key := [2]uint32{min(a, b), max(a, b)}
	w.mu.Lock()
	for _, r := range key {
		if waiting, ok := w.parked[r]; ok {
			w.parked[r] = append(waiting, [2]uint32{a, b})
			w.mu.Unlock()
			return
		}
	}
	again := w.pairs[key]
	w.pairs[key] = true
	failure := w.ended[b]
	ta, tb := w.tables[a], w.tables[b]
	w.mu.Unlock()
	if failure != nil {
		ta.Paired(b, nil, failure)
		return
	}
	if again {
		return
	}
	ca, cb := socketPair(w.t)
	ta.Paired(b, ca, nil)
	tb.Paired(a, cb, nil)
}

func socketPair(t testing.TB) (net.Conn, net.Conn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(f)
		require.NoError(t, err)
		f.Close()
	}
	return ends[0], ends[1]
}

// patience bounds everything here, also where others take nearly all of the CPUs.
const patience = 6 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// worth returns a Worth with the given limit. Each message adds 1 to the count, and 1 more for every 4 KiB. The count
// never decreases.
func worth(limit int) Worth { return Worth{Limit: limit, Packet: 4 << 10, Each: 1} }
