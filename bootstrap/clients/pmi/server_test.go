package pmi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// cluster is the servers of a job's nodes, with a core that releases a collective
// when all ranks have joined it, and a root that has the names.
type cluster struct {
	t        *testing.T
	job      *job.Job
	servers  []*Server
	received map[uint32]string // words that came to a rank and were not looked at yet
	joined   map[uint32][]rankwire.Parcel
	count    map[uint32]uint32
	names    map[string]string
	sent     map[uint32][]frame.Message // other frames
	warned   []string

	stores   map[uint32]map[string][]byte // what ranks have put for those who ask
	asked    int                          // questions about it
	speaking int                          // node of the rank that speaks
	holding  bool                         // answers wait in answers
	answers  []func()
	fetching map[int]uint32 // bulk fetches that are not granted yet, by node
	lost     map[int]bool   // nodes that are gone
}

func newCluster(t *testing.T, plane uint32, shares ...job.Share) *cluster {
	return newClusterOf(t, job.Transport{Eager: true}, plane, shares...)
}

func newClusterOf(t *testing.T, how job.Transport, plane uint32, shares ...job.Share) *cluster {
	j := &job.Job{ID: "j", Layout: job.NewLayout(shares).Dealt(plane)}
	j.Transport = how
	j.Size, j.Programs = j.Layout.Ranks(), []job.Program{{Count: j.Layout.Ranks()}}
	c := &cluster{
		t: t, job: j, received: map[uint32]string{}, joined: map[uint32][]rankwire.Parcel{}, count: map[uint32]uint32{},
		names: map[string]string{}, sent: map[uint32][]frame.Message{},
		stores: map[uint32]map[string][]byte{}, fetching: map[int]uint32{}, lost: map[int]bool{},
	}
	for range j.Layout.Nodes() {
		c.servers = append(c.servers, NewServer(j, 0))
	}
	return c
}

// lists lets no fence carry values.
func (c *cluster) lists() *cluster {
	for _, h := range c.servers {
		h.Carries = 0
	}
	return c
}

func (c *cluster) server(slot uint32) *Server { return c.servers[c.job.Layout.NodeOf(job.Slot(slot))] }

func (c *cluster) obey(effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Words:
			c.received[uint32(e.Rank)] += string(e.Bytes)
		case Warn:
			c.warned = append(c.warned, e.Text)
		case BulkFetch:
			c.fetching[c.speaking] = e.Fence
		case ClientFrame:
			c.record(uint32(e.Rank), e.Msg)
		}
	}
}

// grant gives the nodes that ask for a bulk fetch what all nodes have.
func (c *cluster) grant() {
	var values [][]byte
	for node, h := range c.servers {
		if !c.lost[node] {
			values = append(values, h.Give(slices.Max(slices.Collect(maps.Values(c.fetching)))))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(c.fetching)) {
		c.obey(c.servers[node].BulkFetched(c.fetching[node], frame.NewValues(values...)))
	}
	clear(c.fetching)
}

func (c *cluster) record(slot uint32, m frame.Message) {
	switch m := m.(type) {
	case rankwire.Collect:
		c.joined[m.Op] = slices.AppendSeq(c.joined[m.Op], m.Parcels.All())
		if c.count[m.Op]++; c.count[m.Op] < c.job.Size {
			return
		}
		parcels := rankwire.NewParcels(c.joined[m.Op]...)
		if m.What == rankwire.Barrier {
			parcels = Join(parcels)
		}
		for slot := range c.job.Size {
			c.obey(c.server(slot).Deliver(job.Slot(slot), rankwire.Release{Op: m.Op, What: m.What, Parcels: parcels}))
		}
	case rankwire.Put:
		if c.stores[slot] == nil {
			c.stores[slot] = map[string][]byte{}
		}
		require.NotContains(c.t, c.stores[slot], m.Key, "a key of the KVS is put once")
		c.stores[slot][m.Key] = m.Value
		c.obey(c.server(slot).Deliver(job.Slot(slot), rankwire.PutDone{}))
	case rankwire.Ask:
		c.asked++
		require.NotEqual(c.t, c.job.Layout.NodeOf(job.Slot(slot)), c.job.Layout.NodeOf(m.Rank), "a question that need not leave its node")
		a := rankwire.Answer{Rank: m.Rank, Key: m.Key, Value: c.stores[uint32(m.Rank)][m.Key]}
		require.NotEmpty(c.t, a.Value, "rank %d was asked for %q", m.Rank, m.Key)
		if c.lost[int(c.job.Layout.NodeOf(m.Rank))] {
			a.What, a.Value = rankwire.Failed, nil
		}
		if c.holding {
			c.answers = append(c.answers, func() { c.obey(c.server(slot).Deliver(job.Slot(slot), a)) })
			return
		}
		c.obey(c.server(slot).Deliver(job.Slot(slot), a))
	case rankwire.Name:
		port, known := c.names[m.Service]
		switch m.Do {
		case rankwire.NamePublish:
			if known = !known; known {
				c.names[m.Service] = m.Port
			}
		case rankwire.NameUnpublish:
			delete(c.names, m.Service)
		case rankwire.NameLookup:
			m.Port = port
		}
		m.Done = known
		c.obey(c.server(slot).Deliver(job.Slot(slot), m))
	default:
		c.sent[slot] = append(c.sent[slot], m)
	}
}

// speak lets a rank, as the user counts, say a line, and returns what it hears.
func (c *cluster) speak(rank uint32, format string, args ...any) string {
	slot := c.job.Layout.Slot(job.Rank(rank))
	c.speaking = int(c.job.Layout.NodeOf(slot))
	c.obey(c.server(uint32(slot)).Receive(slot, fmt.Appendf(nil, format, args...)))
	return c.hear(rank)
}

func (c *cluster) hear(rank uint32) string {
	slot := c.job.Layout.Slot(job.Rank(rank))
	text := c.received[uint32(slot)]
	delete(c.received, uint32(slot))
	return text
}

func (c *cluster) start() *cluster {
	for rank := range c.job.Size {
		require.Contains(c.t, c.speak(rank, "cmd=init pmi_version=1 pmi_subversion=1\n"), "rc=0")
	}
	return c
}

// fence lets all ranks come to a barrier, and sees that nobody leaves it early.
func (c *cluster) fence() {
	for rank := range c.job.Size {
		require.Equal(c.t, rank+1 == c.job.Size, c.speak(rank, "cmd=barrier_in\n") != "")
	}
	for rank := range c.job.Size - 1 {
		require.Equal(c.t, "cmd=barrier_out rc=0\n", c.hear(rank))
	}
}

// What a rank puts is everywhere after the fence, in blocks and dealt, several
// times over.
func TestFence(t *testing.T) {
	for i := range 6 {
		c := newClusterOf(t, job.Transport{Eager: i%2 == 0}, uint32(i/2), job.Share{Nodes: 2, Ranks: 3}, job.Share{Nodes: 1, Ranks: 1}).start()
		for round := range 3 {
			for rank := range c.job.Size {
				require.Contains(t, c.speak(rank, "cmd=put kvsname=kvs_j key=k%d-%d value=of %d\n", round, rank, rank), "rc=0")
			}
			c.fence()
			for rank := range c.job.Size {
				for from := range c.job.Size {
					require.Contains(t, c.speak(rank, "cmd=get kvsname=kvs_j key=k%d-%d\n", round, from), fmt.Sprintf("value=of %d\n", from))
				}
			}
			require.Contains(t, c.speak(0, "cmd=get kvsname=kvs_j key=none\n"), "rc=-1")
		}
		require.Contains(t, c.speak(1, "cmd=get kvsname=kvs_j key=PMI_process_mapping\n"), "value=(vector,")
	}
}

func TestNames(t *testing.T) {
	c := newCluster(t, 0, job.Share{Nodes: 2, Ranks: 1}).start()
	require.Contains(t, c.speak(0, "cmd=lookup_name service=s\n"), "rc=1")
	require.Contains(t, c.speak(0, "cmd=publish_name service=s port=p#1\n"), "rc=0")
	require.Contains(t, c.speak(1, "cmd=lookup_name service=s\n"), "port=p#1")
	require.NotContains(t, c.speak(1, "cmd=publish_name service=s port=q\n"), "rc=0", "it has a port")
	require.Contains(t, c.speak(1, "cmd=unpublish_name service=s\n"), "rc=0")
	require.Contains(t, c.speak(0, "cmd=lookup_name service=s\n"), "rc=1")
}

// PMI-2: the ring's neighbours and sums, and attributes of the node, which may
// be waited for.
func TestServerPMI2(t *testing.T) {
	c := newCluster(t, 0, job.Share{Nodes: 2, Ranks: 2})
	for rank := range c.job.Size {
		c.speak(rank, "cmd=init pmi_version=2 pmi_subversion=0\n")
		init := fmt.Sprintf("cmd=fullinit;pmijobid=j;pmirank=%d;threaded=FALSE;", rank)
		require.Contains(t, c.speak(rank, "%s", frameOf(init)), "rc=0")
	}
	for rank := range c.job.Size {
		ring := fmt.Sprintf("cmd=ring;ring-count=%d;ring-left=L%d;ring-right=R%d;", rank+1, rank, rank)
		c.speak(rank, "%s", frameOf(ring))
		if rank+1 < c.job.Size {
			require.Empty(t, c.received)
		}
	}
	for rank, want := range []string{"ring-count=0;ring-left=R3;ring-right=L1;", "ring-count=1;ring-left=R0;ring-right=L2;", "ring-count=3;ring-left=R1;ring-right=L3;"} {
		require.Contains(t, c.hear(uint32(rank)), want)
	}
	c.hear(3)
	require.Empty(t, c.speak(0, "%s", frameOf("cmd=info-getnodeattr;key=a;wait=TRUE;")))
	require.Contains(t, c.speak(1, "%s", frameOf("cmd=info-putnodeattr;key=a;value=v;")), "rc=0")
	require.Contains(t, c.hear(0), "value=v;")
	require.Contains(t, c.speak(2, "%s", frameOf("cmd=info-getnodeattr;key=a;wait=FALSE;")), "found=FALSE")
}

// Others wait for who has not finalized, also if it has aborted; who says nonsense is named and not
// heard any more; who finalizes is done.
func TestLeaving(t *testing.T) {
	c := newCluster(t, 0, job.Share{Nodes: 1, Ranks: 4}).start()
	h := c.servers[0]
	require.Contains(t, c.speak(0, "cmd=finalize\n"), "finalize_ack rc=0")
	require.Equal(t, []frame.Message{rankwire.Finalize{}}, c.sent[0])
	require.False(t, h.Awaits(0))
	require.True(t, h.Awaits(1))
	require.Empty(t, c.speak(3, "cmd=nonsense\n"))
	require.Len(t, c.warned, 1)
	require.True(t, strings.HasPrefix(c.warned[0], "rank 3: pmi-1: "), c.warned[0])
	require.Empty(t, c.speak(3, "cmd=get_maxes\n"))
	c.speak(2, "cmd=abort exitcode=7\n")
	require.Equal(t, []frame.Message{rankwire.Abort{Code: 7}}, c.sent[2])
	require.True(t, h.Awaits(2))
	require.False(t, newCluster(t, 0, job.Share{Nodes: 1, Ranks: 1}).servers[0].IsClient(0))
}

// A code that is not 0 does not become 0 in the byte that is left of it.
func TestAbortCodes(t *testing.T) {
	for code, want := range map[int]uint8{0: 0, 1: 1, 255: 255, 256: 1, 258: 2, -1: 255} {
		c := newCluster(t, 0, job.Share{Nodes: 1, Ranks: 1}).start()
		c.speak(0, "cmd=abort exitcode=%d\n", code)
		require.Equal(t, []frame.Message{rankwire.Abort{Code: want}}, c.sent[0], "%d", code)
	}
}

// Names of shared memory are noted, and nothing else that looks like one.
func TestShared(t *testing.T) {
	c := newCluster(t, 0, job.Share{Nodes: 1, Ranks: 1}).start()
	for i, path := range []string{"/dev/shm/mpich_shar_tmpRKtUkT", "/dev/shm/", "/dev/shm/..", "/dev/shm/../x", "/dev/shm/a/b", "/tmp/x", "/dev/shm/with\x00zero"} {
		c.speak(0, "cmd=put kvsname=kvs_j key=k%d value=%X\n", i, path)
	}
	c.speak(0, "cmd=put kvsname=kvs_j key=x value=nothex\n")
	require.Equal(t, []string{"/dev/shm/mpich_shar_tmpRKtUkT"}, c.servers[0].Shared())
}

// A fence that cannot end ends the job.
func TestFenceInVain(t *testing.T) {
	c := newCluster(t, 0, job.Share{Nodes: 1, Ranks: 2}).start()
	c.speak(0, "cmd=barrier_in\n")
	c.obey(c.servers[0].Deliver(0, rankwire.Release{Op: 1, Trouble: "rank 1 ended before it joined"}))
	require.Equal(t, []frame.Message{rankwire.Abort{Code: 1, Text: "it waits in a PMI barrier in vain: rank 1 ended before it joined"}}, c.sent[0])
}
