package pmi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// policies are those of a job of several nodes.
var policies = map[string]job.Transport{"eager": {Eager: true}, "lazy": {}, "learning": {Learn: true}}

func (c *cluster) put(rank uint32, key, value string) {
	c.t.Helper()
	require.Contains(c.t, c.speak(rank, "cmd=put kvsname=kvs_j key=%s value=%s\n", key, value), "rc=0")
}

// putAll makes each rank put a key that contains the rank's number, and completes a fence of all ranks.
func (c *cluster) putAll(keyFormat, value string) {
	c.t.Helper()
	for rank := range c.job.Size {
		c.put(rank, fmt.Sprintf(keyFormat, rank), value)
	}
	c.fence()
}

func (c *cluster) get(rank uint32, key string) (value string, found bool) {
	c.t.Helper()
	text := c.speak(rank, "cmd=get kvsname=kvs_j key=%s\n", key)
	_, value, _ = strings.Cut(strings.TrimSuffix(text, "\n"), "value=")
	return value, strings.Contains(text, "rc=0")
}

// wants sees that every rank gets a value.
func (c *cluster) wants(key, value string) {
	c.t.Helper()
	for rank := range c.job.Size {
		got, found := c.get(rank, key)
		require.True(c.t, found, "rank %d, %s", rank, key)
		require.Equal(c.t, value, got, "rank %d, %s", rank, key)
	}
}

// A key that is put again has its new value after the next fence, whoever puts
// it, and its old one until then, but on the node of who put it.
func TestPutAgain(t *testing.T) {
	for name, how := range policies {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"plain", "bc-0", "bc-3"} {
				c := newClusterOf(t, how, 0, job.Share{Nodes: 3, Ranks: 2}).start()
				c.put(0, key, "first")
				c.put(0, key, "second")
				c.fence()
				c.wants(key, "second")
				c.put(0, key, "third")
				for rank := uint32(2); rank < 6; rank++ {
					got, _ := c.get(rank, key)
					require.Equal(t, "second", got)
				}
				c.fence()
				c.wants(key, "third")
				c.put(3, key, "fourth")
				c.fence()
				c.wants(key, "fourth")
				c.fence()
				c.wants(key, "fourth")
				c.put(0, key, "fifth")
				c.fence()
				c.wants(key, "fifth")
			}
		})
	}
}

// A ring between fences does not confuse who has what.
func TestValuesAcrossRings(t *testing.T) {
	for name, how := range policies {
		c := newClusterOf(t, how, 0, job.Share{Nodes: 2, Ranks: 1})
		all := func(format string, args ...any) {
			for rank := range c.job.Size {
				c.speak(rank, "%s", frameOf(fmt.Sprintf(format, args...)))
			}
			c.hear(0)
		}
		for rank := range c.job.Size {
			c.speak(rank, "cmd=init pmi_version=2 pmi_subversion=0\n")
			c.speak(rank, "%s", frameOf(fmt.Sprintf("cmd=fullinit;pmijobid=j;pmirank=%d;threaded=FALSE;", rank)))
		}
		for round := range 3 {
			c.speak(0, "%s", frameOf(fmt.Sprintf("cmd=kvs-put;key=k;value=v%d;", round)))
			all("cmd=ring;ring-count=1;ring-left=a;ring-right=b;")
			all("cmd=kvs-fence;")
			got := c.speak(1, "%s", frameOf("cmd=kvs-get;jobid=j;srcid=-1;key=k;"))
			require.Contains(t, got, fmt.Sprintf("value=v%d;", round), name)
		}
	}
}

// What nobody has put is answered at once: nothing leaves the node. What a node
// has got it does not ask for again, and ranks that want the same at the same
// time ask once.
func TestQuestionsThatAreNotAsked(t *testing.T) {
	c := newClusterOf(t, policies["lazy"], 0, job.Share{Nodes: 3, Ranks: 2}).start()
	c.putAll("bc-%d", "v")
	for _, key := range []string{"none", "bc-6", "bc-", "bc-00", "bc-1-", "bc-99999999999999999999", "bc--1", "1", "bc-16777217"} {
		_, found := c.get(0, key)
		require.False(t, found, key)
	}
	c.get(0, "bc-1")
	require.Zero(t, c.asked)
	c.get(0, "bc-5")
	c.get(0, "bc-5")
	c.get(1, "bc-5")
	require.Equal(t, 1, c.asked)
	c.holding = true
	require.Empty(t, c.speak(0, "cmd=get kvsname=kvs_j key=bc-4\n"))
	require.Empty(t, c.speak(1, "cmd=get kvsname=kvs_j key=bc-4\n"))
	require.Equal(t, 2, c.asked)
	for _, answer := range c.answers {
		answer()
	}
	require.Contains(t, c.hear(0), "value=v\n")
	require.Contains(t, c.hear(1), "value=v\n")
}

// Whatever keys look like, in blocks and dealt, each get finds its value.
func TestShapesOfKeys(t *testing.T) {
	shapes := []string{"bc-%d", "%d", "UCX-%d-0", "-allgather-shm-1-%d", "%d-%[1]d", "a%04d", "x%02dy%[1]d", "hex%x", "ä%d", "zer"}
	for _, plane := range []uint32{0, 1, 2} {
		c := newClusterOf(t, policies["lazy"], plane, job.Share{Nodes: 3, Ranks: 4}, job.Share{Nodes: 2, Ranks: 1}).start()
		key := func(shape string, rank uint32) string {
			if !strings.Contains(shape, "%") {
				return shape + strings.Repeat("o", int(rank))
			}
			return fmt.Sprintf(shape, rank)
		}
		for rank := range c.job.Size {
			for i, shape := range shapes {
				c.put(rank, key(shape, rank), fmt.Sprintf("%d of %d", i, rank))
			}
		}
		c.fence()
		for rank := range c.job.Size {
			for i, shape := range shapes {
				c.wants(key(shape, rank), fmt.Sprintf("%d of %d", i, rank))
			}
		}
	}
}

// A node that has to ask for much of what is listed fetches all of it. Gets
// wait for the values, and what is not in it is asked for; a node that is gone took
// its values with it.
func TestLearning(t *testing.T) {
	c := newClusterOf(t, policies["learning"], 0, job.Share{Nodes: 40, Ranks: 2}).lists().start()
	for rank := range c.job.Size {
		c.put(rank, fmt.Sprintf("bc-%d", rank), fmt.Sprint(rank))
	}
	c.fence()
	for i := range uint32(8) {
		got, _ := c.get(0, fmt.Sprintf("bc-%d", 10+i))
		require.Equal(t, fmt.Sprint(10+i), got)
	}
	require.Equal(t, 8, c.asked)
	require.Empty(t, c.fetching)
	require.Empty(t, c.speak(0, "cmd=get kvsname=kvs_j key=bc-20\n"))
	require.Empty(t, c.speak(1, "cmd=get kvsname=kvs_j key=bc-79\n"))
	require.Equal(t, map[int]uint32{0: 1}, c.fetching)
	c.lost[39] = true
	c.grant()
	require.Contains(t, c.hear(0), "value=20\n")
	require.Contains(t, c.hear(1), "rc=-1")
	require.Equal(t, 9, c.asked, "bc-79 alone")
	for from := range uint32(78) {
		got, _ := c.get(1, fmt.Sprintf("bc-%d", from))
		require.Equal(t, fmt.Sprint(from), got)
	}
	require.Equal(t, 9, c.asked)
	require.Empty(t, c.fetching)

	// Long values of a later fence are many bytes, so that more questions are fewer than all.
	for rank := range c.job.Size {
		c.put(rank, fmt.Sprintf("again-%d", rank), strings.Repeat("v", 900))
	}
	c.put(20, "bc-20", "new")
	c.fence()
	for i := range uint32(8) {
		c.get(0, fmt.Sprintf("again-%d", 10+i))
	}
	require.Equal(t, 17, c.asked, "with bc-79 they cost 72 KiB, which all 81 values do, as far as is known")
	require.Empty(t, c.speak(0, "cmd=get kvsname=kvs_j key=bc-20\n"))
	require.Equal(t, map[int]uint32{0: 2}, c.fetching)
	c.grant()
	require.Contains(t, c.hear(0), "value=new\n")
	require.Equal(t, 17, c.asked)
}

// Few ranks that need few values never fetch in bulk: seven questions are nothing.
func TestFewQuestionsFetchNoBulk(t *testing.T) {
	c := newClusterOf(t, policies["learning"], 0, job.Share{Nodes: 9, Ranks: 1}).lists().start()
	c.putAll("k%d", "v")
	for rank := range c.job.Size {
		c.wants(fmt.Sprintf("k%d", rank), "v")
	}
	require.Equal(t, 9*8, c.asked)
	require.Empty(t, c.fetching)
}

// A client that dies while it waits for a bulk fetch does not keep others waiting.
func TestDeadClientWaitsForNothing(t *testing.T) {
	c := newClusterOf(t, policies["learning"], 0, job.Share{Nodes: 10, Ranks: 2}).lists().start()
	c.putAll("k%d", "v")
	for i := range uint32(8) {
		c.get(0, fmt.Sprintf("k%d", 2+i))
	}
	for rank := range uint32(2) {
		require.Empty(t, c.speak(rank, "cmd=get kvsname=kvs_j key=k15\n"))
	}
	c.servers[0].Exited(0)
	c.lost[7] = true
	c.grant()
	require.Empty(t, c.hear(0))
	require.Contains(t, c.hear(1), "rc=-1", "its node is gone")
}

// A fence that lists what a thousand ranks have put is a few dozen bytes, and
// carries no value; eagerly it is one parcel.
func TestWhatAFenceCarries(t *testing.T) {
	for name, how := range policies {
		c := newClusterOf(t, how, 0, job.Share{Nodes: 64, Ranks: 16}).start()
		for rank := range c.job.Size {
			for _, shape := range []string{"bc-%d", "UCX-%d-0", "UCX-%d-1"} {
				c.put(rank, fmt.Sprintf(shape, rank), strings.Repeat("v", 400))
			}
		}
		c.fence()
		joined := Join(rankwire.NewParcels(c.joined[1]...))
		require.Equal(t, 1, joined.Len(), name)
		require.Equal(t, joined, Join(joined), "as at each level")
		parcels := slices.Collect(joined.All())
		if name != "eager" { // 1.2 MiB are not few
			require.Less(t, len(parcels[0].Value), 64)
		} else {
			require.Greater(t, len(parcels[0].Value), 3*400*1024)
		}
	}
	// What is nobody's form stays what it is.
	odd := []rankwire.Parcel{{From: 2, To: 3, Value: []byte{holdsValues}}, {From: 4, To: rankwire.Everyone}}
	require.Equal(t, odd, slices.Collect(Join(rankwire.NewParcels(odd...)).All()))
}

// In a job that chooses, ranks with few bytes have them carried, beside others whose values are looked
// up.
func TestFewBytesAreCarried(t *testing.T) {
	c := newClusterOf(t, policies["learning"], 0, job.Share{Nodes: 4, Ranks: 256}).start()
	for rank := range c.job.Size {
		c.put(rank, fmt.Sprintf("bc-%d", rank), strings.Repeat("v", 80))
	}
	c.put(700, "long", strings.Repeat("l", 600))
	c.fence()
	for _, rank := range []uint32{0, 300} {
		for from := range c.job.Size {
			if from != 700 {
				_, found := c.get(rank, fmt.Sprintf("bc-%d", from))
				require.True(t, found)
			}
		}
	}
	require.Zero(t, c.asked)
	got, _ := c.get(0, "long")
	require.Len(t, got, 600)
	require.Equal(t, 1, c.asked)
	require.Empty(t, c.fetching)
}

// One node alone sends no values anywhere.
func TestOneNodeSendsNothing(t *testing.T) {
	c := newClusterOf(t, policies["eager"], 0, job.Share{Nodes: 1, Ranks: 2}).start()
	c.put(0, "k", "v")
	c.fence()
	c.wants("k", "v")
	require.Empty(t, c.joined[1])
	require.Empty(t, c.stores)
}
