package pmix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallJob is a job of two ranks on nodes with so many ranks each.
func smallJob(namespace string, perNode int) *Job {
	j := &Job{Namespace: namespace, ID: namespace, Size: 2, Universe: 2, Apps: 1, NodeCount: uint32(2 / perNode)}
	for rank := range Rank(2) {
		node := int(rank) / perNode
		if len(j.Nodes) == node {
			j.Nodes = append(j.Nodes, Node{ID: uint32(node), Host: fmt.Sprintf("node%d", node)})
		}
		n := &j.Nodes[node]
		n.Ranks = append(n.Ranks, rank)
		j.Ranks = append(j.Ranks, RankPlace{
			Rank: rank, AppRank: rank, LocalRank: uint16(len(n.Ranks) - 1), NodeID: n.ID, Host: n.Host,
		})
	}
	return j
}

// TestJobReplay: recorded servers of this form said what a Job says, to the byte.
func TestJobReplay(t *testing.T) {
	compared := 0
	for _, tr := range traces(t) {
		if strings.HasPrefix(tr.name, "libpmix-") {
			continue // those have other keys, in another order
		}
		e := joinedAs(t, &tr)
		ask, reply := tr.messages[0], tr.messages[1]
		b := ask.request(t, e.enc)
		e.Feed(append(header(ask.tag, len(b)), b...))
		perNode := 2
		if strings.HasPrefix(tr.name, "proto") {
			perNode = 1
		}
		got := unframed(t, ask.tag, e.Answer(ask.tag, Answer{Body: smallJob(tr.client.Namespace, perNode)})[0].Bytes)
		requireMessage(t, reply, got)
		want, err := e.reply(grammar[cmdJob], ask.answer(t, e.enc, reply))
		require.NoError(t, err)
		require.Equal(t, want, got, tr.name)
		compared++
	}
	require.Equal(t, 9, compared)
}

// jobKeys lists the keys of a job's pairs.
func jobKeys(j *Job, enc Encoding) (keys []string) {
	w := writer{enc: enc}
	j.pairs(&w)
	for key := range (Pairs{enc, w.b}).All() {
		keys = append(keys, key)
	}
	return keys
}

func TestJobKeys(t *testing.T) {
	sizes := []string{
		"pmix.job.size", "pmix.univ.size", "pmix.max.size", "pmix.job.napps", "pmix.num.nodes", "pmix.jobid",
	}
	for _, enc := range []Encoding{Flex, Fixed} {
		require.Equal(t, sizes, jobKeys(&Job{}, enc))
		all := smallJob("a", 2)
		all.Parent, all.TmpDir, all.JobDir = &Proc{"b", 3}, "/tmp/a", "/tmp/a/b"
		all.Extra = []Attr{{Key: "OMPI_APP_SIZES", Value: TextValue("1 1")}}
		all.Nodes[0].Oversubscribed = true
		all.Ranks[1].Locality, all.Ranks[1].CPUs, all.Ranks[1].Folder = "NM0:CR1", "hwloc:1", "/tmp/a/b/1"
		require.Equal(t, slices.Concat(sizes, []string{"pmix.spawned", "pmix.parent", "pmix.tmpdir", "pmix.nsdir",
			"OMPI_APP_SIZES", "pmix.node.arr", "pmix.lldr", "pmix.pblob", "pmix.pblob"}), jobKeys(all, enc))

		w := writer{enc: enc}
		all.pairs(&w)
		found := map[string]Value{}
		for key, v := range (Pairs{enc, w.b}).All() {
			found[key] = v // the last one of a key
		}
		require.Equal(t, TypeProc, found["pmix.parent"].Type)
		require.Equal(t, Proc{"b", 3}, Proc{}.read(found["pmix.parent"].reader()))
		node, ok := found["pmix.node.arr"].Attrs()
		require.True(t, ok)
		busy, _ := find(node, "pmix.ndosub")
		require.True(t, busy.Bool())
		require.Equal(t, TypeBytes, found["pmix.pblob"].Type)
		r := reader{b: found["pmix.pblob"].reader().bytes(), enc: enc}
		r.count(1)
		require.EqualValues(t, 1, r.u32())
		var texts []string
		for _, v := range (Pairs{enc, r.b}).All() {
			if s, ok := v.Text(); ok {
				texts = append(texts, s)
			}
		}
		require.Equal(t, []string{"node0", "NM0:CR1", "hwloc:1", "/tmp/a/b/1"}, texts)
	}
}

// TestJobWrittenOnce: a job is put into bytes for the first client of each encoding, and costs no
// work for the others.
func TestJobWrittenOnce(t *testing.T) {
	j := smallJob("ns", 2)
	for rank := range Rank(1000) {
		j.Ranks = append(j.Ranks, RankPlace{Rank: rank})
	}
	told := func(enc Encoding) []byte {
		w := writer{enc: enc}
		require.NoError(t, j.write(&w, nil))
		return w.b
	}
	require.NotEqual(t, told(Flex), told(Fixed))
	require.Equal(t, told(Flex), told(Flex))
	require.Less(t, testing.AllocsPerRun(3, func() { told(Fixed) }), 20.0)
}
