package ibrun_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy"
	"ibrun/test/waitfor"
)

// fakeAgent takes the place of this node's agent. It welcomes this process as rank 0 of a job of one node and lets the
// test read the messages of the rank.
type fakeAgent struct {
	t      *testing.T
	conn   net.Conn
	frames *frame.Reader
}

// withAgent calls Init in a job with the given number of ranks. It returns the World and the test agent to which the
// World is connected.
func withAgent(t *testing.T, ranks uint32, how job.Transport, options ...ibrun.Option) (*ibrun.World, *fakeAgent) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(ends[0])
	t.Setenv("IBRUN_FD", strconv.Itoa(ends[1]))
	welcomed := make(chan *fakeAgent, 1)
	go func() {
		welcome := rankwire.Welcome{JobID: "j", Epoch: 1, How: how}
		welcome.Layout = job.NewLayout([]job.Share{{Nodes: 1, Ranks: ranks}})
		welcomed <- answerHello(t, ends[0], welcome)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
	defer cancel()
	w, err := ibrun.Init(ctx, options...)
	require.NoError(t, err)
	a := <-welcomed
	t.Cleanup(func() { a.conn.Close() })
	return w, a
}

// answerHello receives a Hello and the socket that is passed with it, and sends the welcome on that socket.
func answerHello(t *testing.T, fd int, welcome rankwire.Welcome) *fakeAgent {
	hello, rights := make([]byte, 64), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(fd, hello, rights, 0)
	if err != nil || n == 0 {
		t.Errorf("no Hello: %v", err)
		return nil
	}
	list, err := unix.ParseSocketControlMessage(rights[:oobn])
	if err != nil || len(list) != 1 {
		t.Errorf("no socket with Hello: %v", err)
		return nil
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		t.Errorf("no socket with Hello: %v", err)
		return nil
	}
	f := os.NewFile(uintptr(fds[0]), "rank")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err == nil {
		_, err = conn.Write(frame.Append(nil, welcome))
	}
	if err != nil {
		t.Errorf("socket of the rank: %v", err)
		return nil
	}
	return &fakeAgent{t, conn, rankwire.Vocabulary.NewReader(conn, frame.Rank)}
}

// next returns the next message of the rank.
func (a *fakeAgent) next() frame.Message {
	m, err := a.frames.Next()
	require.NoError(a.t, err)
	return m
}

// send sends a message to the rank.
func (a *fakeAgent) send(m frame.Message) {
	_, err := a.conn.Write(frame.Append(nil, m))
	require.NoError(a.t, err)
}

// TestAgentIsLost closes the agent's socket during a Barrier. The Barrier and a later Put must return an AgentError.
func TestAgentIsLost(t *testing.T) {
	w, agent := withAgent(t, 2, job.Transport{})
	require.IsType(t, rankwire.Publish{}, agent.next())
	ended := make(chan error, 1)
	go func() { ended <- w.Barrier(t.Context()) }()
	require.IsType(t, rankwire.Collect{}, agent.next())
	agent.conn.Close()
	put := func() error { return w.Put(t.Context(), "k", nil) }
	for _, call := range []func() error{func() error { return <-ended }, put} {
		err := call()
		var lost *ibrun.AgentError
		require.ErrorAs(t, err, &lost)
		require.ErrorContains(t, err, "ibrun: the agent of this node is lost: ")
		require.ErrorIs(t, err, io.EOF)
	}
	require.Error(t, w.Finalize(t.Context()))
}

// TestResolver asks the agent each kind of question that a table has. The world is that of a rank's second program, so
// the key of a question must begin with a mark. Each negative answer must become the matching error of package lazy.
func TestResolver(t *testing.T) {
	w, agent := withAgent(t, 4, job.Transport{})
	require.IsType(t, rankwire.Publish{}, agent.next())
	r := w.Resolver(job.Epoch(0, 2))
	require.NoError(t, r.AskBlock(3, 5, true))
	require.Equal(t, rankwire.Ask{Rank: 3, Least: 5, Fresh: true}, agent.next())
	require.NoError(t, r.AskSecondary(3, 5))
	require.Equal(t, rankwire.Ask{Rank: 3, Key: "\x00e\x00\x02" + ibrun.SecondaryKey, Least: 5}, agent.next())
	for what, want := range map[rankwire.Answered]error{
		rankwire.Exited: lazy.ErrEnded, rankwire.Failed: lazy.ErrFailed, rankwire.NoRank: lazy.ErrRank,
	} {
		rank := job.Slot(what)
		require.NoError(t, r.AskPair(uint32(rank)))
		require.Equal(t, rankwire.Pair{Rank: rank}, agent.next())
		agent.send(rankwire.Pair{Rank: rank, What: what})
		_, err := w.RecvFrom(t.Context(), int(rank))
		require.Equal(t, &ibrun.PeerError{Rank: int(rank), Err: want}, err)
	}
}

// TestSecondAddressDuringARestart puts this rank's address on a second network while the lock of the World is held, as
// it is when a restart is handled. The put must not need that lock, or the program could deadlock.
func TestSecondAddressDuringARestart(t *testing.T) {
	w, agent := withAgent(t, 2, job.Transport{})
	require.IsType(t, rankwire.Publish{}, agent.next())
	go w.PutWhileLocked(fabric.Tuple{Kind: fabric.NONE})
	put := agent.next().(rankwire.Put)
	require.Equal(t, ibrun.SecondaryKey, put.Key)
}

// TestContextOfACollective calls a Barrier with a canceled context. The rank has joined it nevertheless, so the next
// collective must have the next number and must ignore the result of the Barrier.
func TestContextOfACollective(t *testing.T) {
	w, agent := withAgent(t, 2, job.Transport{})
	require.IsType(t, rankwire.Publish{}, agent.next())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.Barrier(ended), context.Canceled)
	first := agent.next().(rankwire.Collect)
	var value []byte
	done := make(chan error, 1)
	go func() {
		var err error
		value, err = w.Broadcast(t.Context(), 1, nil)
		done <- err
	}()
	second := agent.next().(rankwire.Collect)
	require.Equal(t, first.Op+1, second.Op)
	agent.send(rankwire.Release{Op: first.Op, What: first.What, Trouble: "of the first"})
	agent.send(rankwire.Release{Op: second.Op, What: second.What, Root: second.Root,
		Parcels: rankwire.NewParcels(rankwire.Parcel{From: 1, To: rankwire.Everyone, Value: []byte("value")})})
	require.NoError(t, <-done)
	require.Equal(t, "value", string(value))
}

// TestCollectiveError makes the agent report the failure of a Barrier. Barrier must return a CollectiveError that names
// the collective.
func TestCollectiveError(t *testing.T) {
	w, agent := withAgent(t, 2, job.Transport{})
	require.IsType(t, rankwire.Publish{}, agent.next())
	done := make(chan error, 1)
	go func() { done <- w.Barrier(t.Context()) }()
	m := agent.next().(rankwire.Collect)
	agent.send(rankwire.Release{Op: m.Op, What: m.What, Trouble: "rank 1 ended before it joined"})
	err := <-done
	var failed *ibrun.CollectiveError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "Barrier", failed.Op)
	require.Equal(t, failed.Err, errors.Unwrap(err))
	require.EqualError(t, err, "ibrun: Barrier failed: rank 1 ended before it joined")
}

// TestInitTwice calls Init three times. The second and third call must fail and leave the first World usable.
func TestInitTwice(t *testing.T) {
	defer ibrun.OnlyOnce()()
	w, err := ibrun.Init(t.Context())
	require.NoError(t, err)
	second, err := ibrun.Init(t.Context())
	require.ErrorIs(t, err, ibrun.ErrInitialized)
	require.Nil(t, second)
	require.NoError(t, w.Barrier(t.Context()), "the failed second Init must not affect the first World")
	require.NoError(t, w.Finalize(t.Context()))
	_, err = ibrun.Init(t.Context())
	require.ErrorIs(t, err, ibrun.ErrInitialized, "Init after Finalize must fail")
}

// silentAgent makes this process look like a rank whose agent never answers.
func silentAgent(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(ends[0]) }) // Init closes the other end
	t.Setenv("IBRUN_FD", strconv.Itoa(ends[1]))
}

// TestInitHonoursItsContext cancels the context of an Init that waits for its agent, and calls Init with a canceled
// context. The second call must not use up the connection to the agent.
func TestInitHonoursItsContext(t *testing.T) {
	silentAgent(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := ibrun.Init(ctx)
		ended <- err
	}()
	waitfor.Require(t, "Init removes IBRUN_FD from the environment", func() bool { return os.Getenv("IBRUN_FD") == "" })
	cancel()
	require.ErrorIs(t, waitfor.Receive(t, ended), context.Canceled)

	silentAgent(t)
	_, err := ibrun.Init(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotEmpty(t, os.Getenv("IBRUN_FD"), "a canceled Init must leave the agent's descriptor to a later call")
}

// records is an io.Writer for a logger. It sends each log record to the channel.
type records chan string

func (r records) Write(p []byte) (int, error) {
	r <- string(p)
	return len(p), nil
}

// TestLogger makes Init warn that InfiniBand would not work. The warning must reach both the agent, for the user of
// ibrun, and the program's logger. The logger must also record that the rank joined the job and that it lost the agent.
func TestLogger(t *testing.T) {
	t.Setenv("IBRUN_HCA", "")
	t.Setenv("IBRUN_LIBIBVERBS", "libibverbs-missing.so.1")
	log := make(records, 8)
	with := ibrun.WithLogger(slog.New(slog.NewTextHandler(log, nil)))
	_, agent := withAgent(t, 1, job.Transport{Fabric: "ib"}, with)
	notice, ok := agent.next().(rankwire.Notice)
	require.True(t, ok)
	require.Regexp(t, `^--fabric ib is not used by a job of one node, and would not work: .`, notice.Text)
	require.Contains(t, <-log, "level=WARN msg="+strconv.Quote(notice.Text))
	require.Contains(t, <-log, `level=INFO msg="joined the job" rank=0 size=1 job=j`)
	agent.conn.Close()
	require.Contains(t, <-log, `level=ERROR msg="the agent of this node is lost"`)
}
