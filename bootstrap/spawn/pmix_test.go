package spawn

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/internal/cpuset"
	"ibrun/internal/job"
	"ibrun/topo"
)

// servingPMIx returns a node with the ranks 4 and 5 and an open port for PMIx.
func servingPMIx(t *testing.T) (*Set, chan Event) {
	events := make(chan Event, 1000)
	return servingPMIxTo(t, func(ev Event) { events <- ev }), events
}

func servingPMIxTo(t *testing.T, events recorder) *Set {
	t.Setenv("TMPDIR", t.TempDir())
	s := New(Config{
		Job: &job.Job{
			Size: 6, Layout: job.NewLayout([]job.Share{{Nodes: 3, Ranks: 2}}),
			Programs: []job.Program{{Count: 6, Argv: []string{"a"}}},
		},
		Node: job.Node{Host: "n", First: 4, Ranks: 2}, Events: events,
	})
	s.machine = &topo.Machine{Allowed: cpuset.Of(0)}
	require.NoError(t, s.offerPMIx())
	require.NoError(t, s.offerPMIx(), "once is enough")
	t.Cleanup(s.PMIx.removeFolder)
	return s
}

// TestPMIxFiles requires that the files that a client has registered are removed when its connection ends, and all
// others with the job.
func TestPMIxFiles(t *testing.T) {
	s, events := servingPMIx(t)
	made, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, made, "nobody has called")
	c := s.PMIx.dial(t, "hello")
	node, ok := next(t, events).(pmixserver.Placement)
	require.True(t, ok)
	require.True(t, node.Oversubscribed)
	require.Contains(t, node.Topology(), `<object type="Machine" cpuset="0x1"`)
	require.DirExists(t, node.Ranks[1].Folder)
	require.Equal(t, node.Folder+"/5", node.Ranks[1].Folder)

	file := func(name string) string {
		path := filepath.Join(os.TempDir(), name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	one, two, three := file("one"), file("two"), file("three")
	said := next(t, events).(PMIxBytes)
	require.Equal(t, "hello", string(said.Bytes))
	s.PMIx.Bind(said.Call, 4)
	require.True(t, s.RemoveLater(said.Call, one, false))
	require.True(t, s.RemoveLater(said.Call+1, two, false), "of a connection that is gone")
	s.PMIx.Send(said.Call, []byte("word"))
	b := make([]byte, 4)
	_, err = c.Read(b)
	require.NoError(t, err)
	require.Equal(t, "word", string(b))
	require.FileExists(t, one)
	require.NoError(t, c.Close())
	require.Equal(t, PMIxClosed{said.Call}, next(t, events))
	require.NoFileExists(t, one)
	require.FileExists(t, two)
	s.tidy()
	require.NoFileExists(t, two)
	require.NoDirExists(t, node.Folder)
	require.FileExists(t, three)
	require.False(t, s.RemoveLater(said.Call, three, false), "too late")
}

func TestRemovable(t *testing.T) {
	s, _ := servingPMIx(t)
	for path, want := range map[string]bool{
		"/dev/shm/x": true, "/tmp/a/b": true, os.TempDir() + "/x": true, "/tmp/a/../b": true,
		"/dev/shm": false, "/tmp": false, "/dev/shm/../x": false, "/tmp/../etc/passwd": false, "/etc/passwd": false,
		"": false, "x": false, "/dev/shmx/y": false, "/home/u/x": false,
	} {
		_, ok := s.removable(path, true)
		require.Equal(t, want, ok, path)
	}
}

// Those who do not say who they are make room for others; a rank that has does not.
func TestPMIxCallersAreBounded(t *testing.T) {
	s, events := servingPMIx(t)
	rank := s.PMIx.dial(t, "rank")
	next(t, events)
	s.PMIx.Bind(next(t, events).(PMIxBytes).Call, 5)
	for range 3 * mostSilent {
		s.PMIx.dial(t, "")
	}
	closed := 0
	for closed < 2*mostSilent {
		if _, ok := next(t, events).(PMIxClosed); ok {
			closed++
		}
	}
	write(t, rank, "more")
	require.Equal(t, "more", string(next(t, events).(PMIxBytes).Bytes))
	s.PMIx.end(5)
	require.IsType(t, PMIxClosed{}, next(t, events))
}

// A client that asks and does not read is not read on: what waits for it is bounded. What it has
// asked is read when it has taken enough.
func TestPMIxAwaitsRoom(t *testing.T) {
	var caller atomic.Pointer[call]
	queued := func() int {
		c := caller.Load()
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.queued
	}
	events, atThird := make(chan Event, 1000), make(chan int, 1)
	s := servingPMIxTo(t, func(ev Event) {
		if said, ok := ev.(PMIxBytes); ok && string(said.Bytes) == "third" {
			atThird <- queued()
		}
		events <- ev
	})
	c := s.PMIx.dial(t, "first")
	next(t, events)
	number := next(t, events).(PMIxBytes).Call
	caller.Store(s.PMIx.call(number))
	const answers = 64 // MiB, of which sockets hold a few
	for range answers {
		s.PMIx.Send(number, make([]byte, mostQueued))
	}
	write(t, c, "second")
	require.Equal(t, "second", string(next(t, events).(PMIxBytes).Bytes))
	write(t, c, "third")
	_, err := io.CopyN(io.Discard, c, answers/2*mostQueued)
	require.NoError(t, err)
	require.Greater(t, queued(), mostQueued)
	require.Empty(t, atThird, "it was read on")
	_, err = io.CopyN(io.Discard, c, answers/2*mostQueued)
	require.NoError(t, err)
	require.LessOrEqual(t, <-atThird, mostQueued)
	require.Equal(t, "third", string(next(t, events).(PMIxBytes).Bytes))
}

func TestLocality(t *testing.T) {
	m := &topo.Machine{
		Cores:    []topo.Object{{CPUs: cpuset.Of(0, 4)}, {CPUs: cpuset.Of(1, 5)}, {CPUs: cpuset.Of(2, 6)}},
		Packages: []topo.Object{{CPUs: cpuset.Of(0, 1, 4, 5)}, {CPUs: cpuset.Of(2, 6)}},
		Memories: []topo.Memory{{Object: topo.Object{CPUs: cpuset.Of(0, 1, 2, 4, 5, 6)}}},
	}
	require.Equal(t, "NM0:SK0:CR0-1:HT0-1,3", locality(m, cpuset.Of(0, 4, 5)))
	require.Equal(t, "NM0:SK1:CR2:HT4-5", locality(m, cpuset.Of(2, 6)))
}

// Open MPI 4 learns the sizes and first ranks of several programs by variables, unless these are so
// long that no program could be started.
func TestPMIxTellsPrograms(t *testing.T) {
	told := func(programs ...job.Program) []string {
		var p pmixPort
		env := newEnvironment(100)
		p.environ(env, &rank{}, Config{Job: &job.Job{Programs: programs}})
		return slices.DeleteFunc(env.list, func(e string) bool { return !strings.HasPrefix(e, "OMPI_") })
	}
	require.Equal(t, []string{"OMPI_NUM_APP_CTX=2", "OMPI_APP_CTX_NUM_PROCS=3 1", "OMPI_FIRST_RANKS=0 3"},
		told(job.Program{Count: 3}, job.Program{First: 3, Count: 1, App: 1}))
	require.Empty(t, told(job.Program{Count: 4}))
	many := make([]job.Program, 20_000)
	for i := range many {
		many[i] = job.Program{First: job.Rank(i), Count: 1, App: uint32(i)}
	}
	require.Empty(t, told(many...))
}
