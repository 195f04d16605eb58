package ibrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy"
)

// World is this rank's view of its job. Its methods may be called from any goroutine, but every
// rank must call collectives in the same order.
type World struct {
	table   *lazy.Table
	log     *slog.Logger
	control *rankwire.Channel // channel to the agent; nil if ibrun did not start this process
	welcome rankwire.Welcome
	layout  atomic.Pointer[job.Layout] // current layout of the job
	first   job.Slot                   // first slot of this node
	locals  uint32                     // number of ranks on this node
	over    chan struct{}              // closed when the agent is lost or the world finalized
	reader  sync.WaitGroup             // goroutine of listen

	mark string // prefix of this program's keys in the key-value store; see the function mark

	mu        sync.Mutex
	op        uint32                            // number of the last collective
	releases  map[uint32]chan rankwire.Release  // waiting collectives, by number
	gets      map[getKey][]chan rankwire.Answer // waiting calls of Get
	finalized bool                              // Finalize was called
	kvs       map[string][]byte                 // key-value store of a job that ibrun did not start
	lost      error                             // reason that the agent is lost, ErrFinalized after Finalize, or nil
	failed    []int                             // failed ranks, in the order of the agent's reports
	restarted []RestartError                    // restarts, in the order of the agent's reports
	floor     uint32                            // collectives up to this number have failed because of a restart
	resized   int                               // number of changes of the job's size so far
	change    rankwire.Resize                   // change of the size that is announced or agreed and not complete

	// putting protects puts. It is separate from mu because the table puts an address under its own locks, for which a
	// goroutine that holds mu may wait.
	putting sync.Mutex
	puts    []chan bool // waiting calls of Put, in the order of the messages to the agent
}

// getKey identifies a value in the key-value store: the rank that puts it, by slot, and its key.
type getKey struct {
	slot job.Slot
	key  string
}

// initCalls counts the calls of Init. Calls after the first maxInitCalls fail. Only the tests of this package raise the
// maximum, because their examples share a process.
var (
	initCalls    atomic.Int32
	maxInitCalls int32 = 1
)

// Init joins the job: it registers with this node's agent, opens the network and publishes the
// rank's address. It makes no requests about other ranks and does not wait for them.
//
// Init may be called once per process. Each later call returns ErrInitialized, even after Finalize or after an Init
// that failed. In a process that ibrun did not start, the job has one rank.
//
// A rank that is a script can run several programs that call Init, one after the other. The peers of its second program
// are the second programs of the other ranks, and so on. Init fails if the previous program of the rank did not call
// Finalize.
//
// If ctx is done while Init waits for the agent, Init returns its error and the process does not join the job. With
// --eager, Init also opens the network device, which ctx does not interrupt.
func Init(ctx context.Context, options ...Option) (*World, error) {
	if initCalls.Add(1) > maxInitCalls {
		return nil, ErrInitialized
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := time.Now()
	control, welcome, err := rankwire.OpenChannel(ctx)
	if errors.Is(err, rankwire.ErrNoAgent) {
		control, welcome = nil, rankwire.Welcome{Layout: job.NewLayout([]job.Share{{Nodes: 1, Ranks: 1}}), Epoch: 1}
	} else if err != nil {
		return nil, &AgentError{err}
	}
	answer := time.Since(began)
	c := config{log: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&c)
	}
	return join(control, welcome, answer, c)
}

// join returns the World of a rank. Control is the channel to the agent, or nil if ibrun did not start the process.
// Welcome describes the job and this rank. Answer is the time that the agent took to reply, and c holds the options of
// Init.
func join(control *rankwire.Channel, welcome rankwire.Welcome, answer time.Duration, c config) (*World, error) {
	w := &World{
		log: c.log, control: control, welcome: welcome, over: make(chan struct{}), op: welcome.Op,
		mark: mark(welcome.Epoch), kvs: map[string][]byte{},
		releases: map[uint32]chan rankwire.Release{}, gets: map[getKey][]chan rankwire.Answer{},
	}
	w.layout.Store(&welcome.Layout)
	w.resized = int(welcome.Resizes)
	w.first, w.locals = welcome.Layout.SlotsOn(welcome.Layout.NodeOf(welcome.Rank))
	cfg := lazy.Config{
		Rank: uint32(welcome.Rank), Epoch: welcome.Epoch, Floor: welcome.Floor,
		Least: job.ProgramOf(welcome.Epoch), Layout: welcome.Layout,
		Resolver: resolver{control, w.mark}, Answer: answer,
		Seal: fabric.NewSeal(welcome.Key, uint32(welcome.Rank), welcome.Epoch), Streams: welcome.How.Fabric == "tcp",
		Restarts: welcome.Restarts, Bundle: c.bundle, Spin: spinner(welcome.How.Poll),
	}
	late := false
	switch {
	case welcome.Layout.Nodes() > 1:
		late = w.ways(&cfg)
	case welcome.How.Fabric == "ib" && welcome.Rank == w.first:
		w.reportUnused()
	}
	if err := w.start(cfg, late); err != nil {
		return nil, err
	}
	w.log.Info("joined the job", "rank", w.Rank(), "size", w.Size(), "job", welcome.JobID)
	return w, nil
}

// start makes the table, starts listen, and then opens the network and publishes the address, unless late is set or
// all ranks run on one node. Listen runs first, because Abort waits for it if the network cannot be opened.
func (w *World) start(cfg lazy.Config, late bool) (err error) {
	if w.table = lazy.New(cfg); w.control == nil {
		return nil
	}
	w.reader.Go(w.listen)
	if cfg.Open != nil && !late {
		err = w.table.Reach()
	}
	if err == nil {
		err = w.publish(late)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("ibrun: rank %d: %w", w.Rank(), err)
	w.control.Close()
	w.reader.Wait()
	return errors.Join(err, w.table.Close())
}

// publish sends the address of this rank to the agent. If later is set, it announces instead that the address will be
// published when a peer needs it.
func (w *World) publish(later bool) error {
	if later {
		return w.control.Send(rankwire.Later{})
	}
	return w.control.Send(rankwire.Publish{Tuple: w.table.Tuple()})
}

// resolver implements lazy.Resolver. It sends the queries of a table to the agent.
type resolver struct {
	control *rankwire.Channel
	mark    string // prefix of keys; see World.mark
}

func (r resolver) AskBlock(rank uint32, least uint16, fresh bool) error {
	return r.control.Send(rankwire.Ask{Rank: job.Slot(rank), Least: least, Fresh: fresh})
}

func (r resolver) AskSecondary(rank uint32, least uint16) error {
	return r.control.Send(rankwire.Ask{Rank: job.Slot(rank), Key: r.mark + secondaryKey, Least: least})
}

func (r resolver) AskPair(rank uint32) error {
	return r.control.Send(rankwire.Pair{Rank: job.Slot(rank)})
}

// answered passes a reply of the agent to the table, or to the call of Get that waits for it.
func (w *World) answered(m rankwire.Answer) {
	m.Key = strings.TrimPrefix(m.Key, w.mark)
	switch m.Key {
	case "":
		w.table.Answered(uint32(m.Rank), m.Fresh, m.Value, errorOf(m.What))
	case secondaryKey:
		w.table.AnsweredSecondary(uint32(m.Rank), m.Value, errorOf(m.What))
	default:
		w.got(m)
	}
}

// errorOf returns the error of package lazy that corresponds to what, or nil for Found.
func errorOf(what rankwire.Answered) error {
	switch what {
	case rankwire.Found:
		return nil
	case rankwire.Exited:
		return lazy.ErrEnded
	case rankwire.NoRank:
		return lazy.ErrRank
	}
	return lazy.ErrFailed
}

// mark returns the prefix of a program's keys in the key-value store: "" for the first program of a rank, and a
// different one for each later program. Without it, a program would find the values of earlier programs, which agents
// keep.
func mark(epoch uint16) string {
	program := job.ProgramOf(epoch)
	if program <= 1 {
		return ""
	}
	return string([]byte{0, 'e', byte(program >> 8), byte(program)})
}

// Rank returns this rank's number, from 0 to Size()-1.
func (w *World) Rank() int { return w.rank(w.welcome.Rank) }

// Size returns the number of ranks in the job.
func (w *World) Size() int { return int(w.layout.Load().Ranks()) }

// LocalRank returns this rank's number among those of its node, from 0 to LocalSize()-1.
func (w *World) LocalRank() int { return int(w.welcome.Rank - w.first) }

// LocalSize returns the number of ranks on this node.
func (w *World) LocalSize() int { return int(w.locals) }

// NodeOf returns the number of the node that a rank runs on, from 0. Ranks of the same node have
// the same number.
func (w *World) NodeOf(rank int) (int, error) {
	slot, err := w.slot("NodeOf", rank)
	if err != nil {
		return 0, err
	}
	return int(w.layout.Load().NodeOf(slot)), nil
}

// Eager reports whether the addresses of all ranks were sent to every node at the start (--eager), rather than looked
// up when needed.
func (w *World) Eager() bool { return w.welcome.How.Eager }

// listen handles the messages of the agent until the channel is closed. It runs in a goroutine of its own.
func (w *World) listen() {
	for {
		m, conn, err := w.control.Next()
		if err != nil {
			if w.lose(err) {
				w.log.Error("the agent of this node is lost", "error", err)
			}
			return
		}
		switch m := m.(type) {
		case rankwire.Answer:
			w.answered(m)
		case rankwire.Pair:
			w.table.Paired(uint32(m.Rank), conn, errorOf(m.What))
		case rankwire.Release:
			w.released(m)
		case rankwire.PutDone:
			w.putDone(m)
		case rankwire.Failures:
			w.failures(m)
		case rankwire.Restarted:
			w.restarts(m)
		case rankwire.Resize:
			w.resizes(m)
		case rankwire.Wanted:
			if !w.table.Wanted(func(err error) { w.Abort(1, err.Error()) }) {
				_ = w.publish(false) // the address is published; the agent checks that this rank still runs
			}
		}
	}
}

// lose records that the agent is lost and ends all waits for it. It reports false if
// the loss was recorded before, or if this rank has closed the channel in Finalize.
func (w *World) lose(err error) (unexpected bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		return false
	}
	w.lost = &AgentError{fmt.Errorf("the agent of this node is lost: %w", err)}
	if w.finalized && errors.Is(err, net.ErrClosed) {
		w.lost = ErrFinalized
	}
	close(w.over)
	return w.lost != ErrFinalized
}

func (w *World) isFinalized() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.finalized
}

// agentError returns the reason that the agent is lost, or nil.
func (w *World) agentError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// abortText is the maximum length of the text of an Abort or Rollback in bytes. The agent rejects longer texts.
const abortText = 1000

// Abort ends the job: all ranks on all nodes. It does not return.
//
// The exit code of the job is the low byte of code, as with [os.Exit]. If that byte is zero, the exit code is 1,
// because an aborted job has failed. The text gives the reason, of which ibrun shows the first 1,000 bytes to its
// user. If ibrun did not start this process, the text is discarded.
func (w *World) Abort(code int, text string) {
	exit := job.AbortCode(code)
	if w.control != nil {
		_ = w.control.Send(rankwire.Abort{Code: exit, Text: text[:min(len(text), abortText)]})
		<-w.over // the agent ends this process; listen closes over if the agent is lost
	}
	os.Exit(int(exit))
}

// Finalize ends this rank's part in the job. It waits until the messages that this rank sent have arrived, and until
// the other ranks have called Finalize, so that none of them waits for an acknowledgement from a rank that has ended.
// It does not wait for ranks that have ended without Finalize. Messages that have arrived and were not received are
// lost. If messages did not reach a rank, the error names it. A rank that a Resize has removed from the job does not
// wait.
//
// If ctx is done first, Finalize returns its error and still ends this rank's part: the other ranks do not wait for
// this rank, and its messages may not have arrived. After Finalize, all methods that need the job return
// ErrFinalized.
func (w *World) Finalize(ctx context.Context) error {
	w.mu.Lock()
	if w.finalized {
		w.mu.Unlock()
		return ErrFinalized
	}
	w.finalized = true
	w.mu.Unlock()
	var trouble *CollectiveError
	var err, e error
	if !w.left() {
		err = w.table.Flush(ctx)
	}
	switch {
	case w.control == nil:
		return errors.Join(err, w.table.Close())
	case !w.left(): // a rank that a Resize has removed skips the barrier
		e = w.barrier(ctx)
	}
	for errors.Is(e, ErrRestarted) { // the restarted rank joins the next barrier
		e = w.barrier(ctx)
	}
	if !errors.As(e, &trouble) {
		err = errors.Join(err, e)
	}
	if w.welcome.How.Stats {
		tally := w.table.Tally()
		_ = w.control.Send(rankwire.Tally{Of: &tally})
	}
	_ = w.control.Send(rankwire.Finalize{})
	err = errors.Join(err, w.table.Close())
	w.control.Close()
	w.reader.Wait()
	return err
}

// Stats holds the counters of one rank since Init. Later versions may add fields and do not remove any.
type Stats struct {
	Messages uint64 // messages sent, including those to this rank itself
	Bytes    uint64 // size of those messages

	Peers      uint64 // ranks that this one has exchanged messages with
	LocalPeers uint64 // part of Peers that is on the same node

	Lookups      uint64 // queries to the agent for the addresses of a node
	Checks       uint64 // queries to the agent whether a slow rank still has its address
	AddressBytes uint64 // bytes transferred for addresses and handshakes

	Connections    uint64 // connections opened over the network
	Reopened       uint64 // part of Connections that was opened again after an idle connection was closed
	Streams        uint64 // ends of streams at this rank
	Moves          uint64 // number of times that this rank switched from datagrams to a stream
	StreamMessages uint64 // messages sent by a stream

	Datagrams   uint64 // datagrams sent
	Retransmits uint64 // datagram segments sent again
	Strangers   uint64 // datagrams received from other jobs or programs, and dropped
	Rejects     uint64 // messages received for an earlier program or process of a rank, and rejected

	DatagramQueuePairs uint64        // InfiniBand: queue pairs for datagrams
	StreamQueuePairs   uint64        // InfiniBand: queue pairs used by streams
	ColdQueuePairs     uint64        // part of StreamQueuePairs that was made only when a stream needed it
	SpareQueuePairs    uint64        // InfiniBand: queue pairs made for streams and not used
	PinnedBytes        uint64        // InfiniBand: memory registered with the device
	OpeningTime        time.Duration // InfiniBand: time to open the device

	// Time from the Send of the first message to a rank until that rank has acknowledged it: the median and the maximum
	// over all ranks, up to 9 % too long. Both are zero if no message was acknowledged.
	FirstMessageMedian, FirstMessageLongest time.Duration
}

// Stats returns what this rank has counted so far.
func (w *World) Stats() Stats {
	tally := w.table.Tally()
	return statsOf(&tally)
}

// statsOf converts the counts of package job to Stats.
func statsOf(t *job.Tally) Stats {
	n := &t.Sum
	return Stats{
		Messages: n[job.CountMessages], Bytes: n[job.CountBytes],
		Peers: n[job.CountPeers], LocalPeers: n[job.CountLocal],
		Lookups: n[job.CountLookups], Checks: n[job.CountChecks], AddressBytes: n[job.CountAddressBytes],
		Connections: n[job.CountConnections], Reopened: n[job.CountReopened], Streams: n[job.CountStreams],
		Moves: n[job.CountMoves], StreamMessages: n[job.CountStreamed],
		Datagrams: n[job.CountDatagrams], Retransmits: n[job.CountRetransmits],
		Strangers: n[job.CountStrangers], Rejects: n[job.CountRejects],
		DatagramQueuePairs: n[job.CountDatagramPairs], StreamQueuePairs: n[job.CountStreamPairs],
		ColdQueuePairs: n[job.CountCold], SpareQueuePairs: n[job.CountSparePairs],
		PinnedBytes:        n[job.CountPinned],
		OpeningTime:        time.Duration(n[job.CountOpening]) * time.Microsecond,
		FirstMessageMedian: t.Latency.Quantile(0.5), FirstMessageLongest: t.Latency.Quantile(1),
	}
}
