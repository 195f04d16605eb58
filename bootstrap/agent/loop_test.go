package agent

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/charm"
	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A full queue of events holds up who posts, reader of a link or starter of a
// session, until the loop takes one; the loop's end lets all of them go.
func TestPostWaitsForTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t.Context(), core.Config{})
		for range eventQueue {
			l.post(toCore{core.Tick{}})
		}
		posted := make(chan int, 3)
		for i := range 3 {
			go func() {
				l.post(toCore{core.Tick{}})
				posted <- i
			}()
		}
		synctest.Wait()
		require.Empty(t, posted)
		<-l.events
		synctest.Wait()
		require.Len(t, posted, 1)
		close(l.over)
		synctest.Wait()
		require.Len(t, posted, 3)
		require.Len(t, l.events, eventQueue)
	})
}

// parent is the other end of an agent's link, in memory.
type parent struct {
	t    *testing.T
	loop *loop
	in   *frame.Reader
	out  io.WriteCloser
}

// node starts an agent's loop and its link, and returns a launch for it. Its one
// rank is of a program that is not there, so that it starts no process.
func node(t *testing.T) (*parent, wire.Launch) {
	l := newLoop(t.Context(), core.Config{Here: -1})
	l.warn = func(text string) { l.hear(core.Notice{Text: text}) }
	l.up = newLink()
	up, toParent := io.Pipe()
	fromParent, down := io.Pipe()
	go l.up.write(toParent)
	go func() {
		err := read(fromParent, core.Up, false, l)
		l.LinkLost(core.LinkLost{Link: core.Up, Cause: err.Error()})
	}()
	go l.run()
	t.Cleanup(func() {
		down.Close()
		<-l.over
		l.up.drain(0)
		up.Close()
		<-l.up.written
	})
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Count: 1, Ranks: 1}})
	j := &job.Job{
		ID: "j", Size: 1, Nodes: 1, Layout: nodes.Layout(), Umask: 0o022,
		Launch: job.LaunchOptions{Launcher: "local",
			Tree: "flat"},
		Programs: []job.Program{{Count: 1, Argv: []string{"/no/such/program"}, Dir: "/"}},
	}
	return &parent{t, l, wire.Vocabulary.NewReader(up, frame.Child), down},
		wire.Launch{Job: j, Nodes: nodes, Level: 1, Credit: 100}
}

func (p *parent) say(m frame.Message) {
	_, err := p.out.Write(frame.Append(nil, m))
	require.NoError(p.t, err)
}

func (p *parent) hears(want frame.Message) {
	m, err := p.in.Next()
	require.NoError(p.t, err)
	require.Equal(p.t, want, m)
}

// An agent's whole life over its link.
func TestAgentOverItsLink(t *testing.T) {
	p, launch := node(t)
	p.loop.Warn("no huge pages")
	p.hears(rankwire.Notice{Text: "no huge pages"})
	p.say(launch)
	status := job.Status{Kind: job.NotRun, Code: 127}
	p.hears(wire.Fault{
		What: wire.FaultFork, Nodes: 1, Count: 1, Status: status, Host: "n", Parent: "n",
		Cause: "/no/such/program: no such file",
	})
	p.hears(wire.Ready{Up: 1})
	p.hears(wire.Exit{Runs: wire.NewEndings(job.StatusRun{Count: 1, Status: status})})
	<-p.loop.over
	p.loop.Interrupted(core.Interrupted{}) // must not block after the end of the loop
}

// TestUnknownLauncher requires that an agent ends if it does not know the launcher of the job.
func TestUnknownLauncher(t *testing.T) {
	p, launch := node(t)
	launch.Job.Launch.Launcher = "pigeon"
	p.say(launch)
	<-p.loop.over
}

// TestStreamEnds requires that the agent ends when the stream from its parent ends.
func TestStreamEnds(t *testing.T) {
	p, _ := node(t)
	require.NoError(t, p.out.Close())
	<-p.loop.over
}

// What one event brings is heard in its order, before the next event: the
// core must not learn of a rank's end before its last words.
func TestHeardInOrder(t *testing.T) {
	l := newLoop(t.Context(), core.Config{})
	l.warn = func(text string) { l.hear(core.Notice{Text: text}) }
	j := &job.Job{ID: "j", Size: 1, Nodes: 1, Layout: job.NewLayout([]job.Share{{Nodes: 1, Ranks: 1}})}
	l.server, l.pmix = pmi.NewServer(j, 0), pmixserver.New(j, job.Node{Ranks: 1}, 0)
	l.charm = charm.NewServer(j, job.Node{Ranks: 1}, 0)
	l.obeyPMI([]pmi.Effect{
		pmi.FirstClient{}, pmi.ClientFrame{Rank: 1, Msg: rankwire.Hello{}}, pmi.Warn{Text: "w"},
		pmi.BulkFetch{Fence: 2}, pmi.ClientFrame{Rank: 1, Msg: rankwire.Finalize{}},
	})
	rankExited{Rank: 0, Status: job.Status{Code: 3}}.handle(l)
	l.hear(nil)
	l.perform(core.ReadBulk{Fence: 7}) // is answered at once, and after what was there
	require.Equal(t, []core.Event{
		core.MPIFindings{MPIFindings: job.MPIFindings{SpokePMI: true}}, core.RankFrame{Rank: 1, Msg: rankwire.Hello{}},
		core.Notice{Text: "w"}, core.BulkRequested{Fence: 2},
		core.RankFrame{Rank: 1, Msg: rankwire.Finalize{}}, core.RankExited{Rank: 0, Status: job.Status{Code: 3}},
		core.BulkRead{Fence: 7},
	}, l.pending)
}

// A session that comes up after it was given up is killed and not heard of; one
// that never came up says where and why, with what to try.
func TestSessionsGivenUp(t *testing.T) {
	l := newLoop(t.Context(), core.Config{})
	cancelled := false
	l.sessions[0] = &session{cancel: func() { cancelled = true }}
	l.up = newLink()
	l.up.send(wire.Exit{})
	l.closeLink(core.Up)
	l.up.drain(time.Hour) // what nobody writes, nor takes, keeps nobody
	l.closeLink(5)
	l.closeLink(0)
	require.True(t, cancelled)
	require.Nil(t, l.sessions[0].cancel)
	l.closeLink(0)
	require.Empty(t, l.keep())
	require.Equal(t, core.ChildFailed{Child: 2, Phase: "start", Cause: "boom"}, failed(2, errors.New("boom")))
	require.Equal(t, core.ChildFailed{Child: 2, Phase: "login", Cause: "no; try this", Tail: "last"},
		failed(2, &remote.Error{Phase: "login", Cause: "no", Hint: "try this", Tail: "last"}))
}
