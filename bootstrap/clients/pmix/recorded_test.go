package pmix

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chunk is some bytes of a recorded conversation, of which all bytes are there: what a C program of
// ours and libpmix 4.2.2 said to a server made of this package. The program uses each command once
// at least, and every type of values that clients put.
type chunk struct {
	client bool
	bytes  []byte
}

func recording(t testing.TB, name string) (all []chunk) {
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		b, err := hex.DecodeString(strings.TrimSpace(line[2:]))
		require.NoError(t, err)
		all = append(all, chunk{line[0] == '>', b})
	}
	require.Greater(t, len(all), 40)
	return all
}

// answerOf reads a recorded reply as the answer that it was made from.
func answerOf(t *testing.T, q Request, b []byte, enc Encoding) (a Answer) {
	r := &reader{b: b, enc: enc}
	if _, bare := q.(GetJob); bare {
		require.Equal(t, "ibrun-lab", r.topText())
		j := smallJob("ibrun-lab", 1)
		j.Leader = 1
		for i := range j.Nodes {
			j.Nodes[i].Oversubscribed = true
		}
		return Answer{Body: j}
	}
	if a.Status = r.topStatus(); a.Status != Done {
		require.Empty(t, r.b)
		return a
	}
	switch q := q.(type) {
	case Get:
		r.count(1)
		object := reader{b: r.bytes(), enc: enc}
		object.count(1)
		require.Equal(t, q.Of, Proc{}.read(&object))
		a.Body = Values{q.Of, Pairs{enc, object.b}}
		require.NoError(t, Pairs{enc, object.b}.Check())
	case Lookup:
		a.Body = Results{slices.Collect(topList[Found](r).All())}
	case Query, Cleanup:
		a.Body = Attributes{topList[Attr](r)}
	case GroupConstruct:
		a.Body = Group{Context: r.topSize(), HasContext: true}
	case Spawn:
		parent := Proc{"ibrun-lab", 1}
		a.Body = &Job{Namespace: r.topText(), ID: "child", Size: 2, Universe: 2, Apps: 1, NodeCount: 1, Parent: &parent}
		r.b = nil
	}
	require.NoError(t, r.err)
	require.Empty(t, r.b)
	return a
}

// TestRecorded: all bytes of two recorded conversations, in both encodings. The replies come out
// again as they were recorded, and both clients ask for the same.
func TestRecorded(t *testing.T) {
	var asked [2]map[string]int
	for i, name := range []string{"client-v41.hex", "client-v21.hex"} {
		asked[i] = map[string]int{}
		e := New()
		all, replies := recording(t, name), map[uint32][]byte{} // by tag
		for _, c := range all {
			if !c.client && len(c.bytes) >= headerSize {
				replies[binary.BigEndian.Uint32(c.bytes[4:])] = c.bytes
			}
		}
		for _, c := range all {
			if !c.client {
				continue
			}
			steps := e.Feed(c.bytes)
			for len(steps) > 0 {
				s := steps[0]
				steps = steps[1:]
				require.NoError(t, s.Err)
				if s.Request == nil {
					if tag := binary.BigEndian.Uint32(s.Bytes[4:]); len(s.Bytes) > 8 {
						require.Equal(t, replies[tag], s.Bytes, "%s: tag %d", name, tag)
						delete(replies, tag)
					}
					continue
				}
				asked[i][fmt.Sprintf("%T", s.Request)]++
				check(t, s.Request)
				switch s.Request.(type) {
				case Join:
					steps = append(steps, e.Answer(s.Tag, Answer{})...)
				case Finalize:
				default:
					a := answerOf(t, s.Request, replies[s.Tag][headerSize:], e.enc)
					steps = append(steps, e.Answer(s.Tag, a)...)
				}
			}
		}
		require.Empty(t, replies, "replies that did not come")
		require.True(t, e.Finalized())
	}
	require.Equal(t, asked[0], asked[1])
	require.Subset(t, slices.Collect(maps.Keys(asked[0])), []string{
		"pmix.Join", "pmix.GetJob", "pmix.Commit", "pmix.Fence", "pmix.Get", "pmix.Publish", "pmix.Lookup",
		"pmix.Unpublish", "pmix.Notify", "pmix.Cleanup", "pmix.Query", "pmix.Log", "pmix.GroupConstruct",
		"pmix.GroupDestruct", "pmix.Connect", "pmix.Disconnect", "pmix.Spawn", "pmix.Finalize",
	})
}

// check compares requests with what the program asked for.
func check(t *testing.T, q Request) {
	switch q := q.(type) {
	case Join:
		require.Equal(t, Proc{"ibrun-lab", 1}, q.Proc)
		require.Equal(t, "4.2.2rc2", q.Version)
	case Commit:
		require.NoError(t, q.Local.Check())
		require.NoError(t, q.Remote.Check())
		want := map[string]int64{
			"t.i32": -6, "t.u64": -0x123456789abcdf0, "t.size": 1234567890123, "t.pid": 77, "t.int": -9, "t.uint": 9,
			"t.i16": -300, "t.u8": 200, "t.time": 1700000000, "t.status": -46,
		}
		found := map[string]Value{}
		for key, v := range q.Local.All() {
			found[key] = v
			n, _ := v.Number()
			require.Equal(t, want[key], n, key)
		}
		require.Len(t, found, len(want)+5)
		local, _ := found["t.local"].Text()
		require.Equal(t, "card", local)
		require.Equal(t, "2.500000", string(found["t.flt"].reader().text()))
		require.Equal(t, Proc{"ibrun-lab", 1}, Proc{}.read(found["t.proc"].reader()))
		array, _ := found["t.array"].Attrs()
		text, _ := find(array, "b")
		s, _ := text.Text()
		require.Equal(t, "text", s)
	case Lookup:
		require.True(t, q.Wait)
	case Cleanup:
		require.Equal(t, []Path{{Name: "/tmp/a-file"}, {Name: "/tmp/b-file"}}, q.Paths)
	case Log:
		require.Equal(t, []string{"a logged line\n"}, q.Stderr)
	case GroupConstruct:
		require.Equal(t, "grp", q.Name)
		require.True(t, q.Context)
		require.Equal(t, 2, q.Members.Len())
	case GroupDestruct:
		require.Equal(t, "grp", q.Name)
	case Spawn:
		for a := range q.Apps.All() {
			require.Equal(t, "/bin/true", a.Command)
			require.Equal(t, []Text{"true"}, items(a.Argv))
			require.Equal(t, []Text{"A=b"}, items(a.Env))
			require.Equal(t, "/tmp", a.Dir)
			require.EqualValues(t, 2, a.Ranks)
		}
		require.Equal(t, 1, q.Apps.Len())
	}
}
