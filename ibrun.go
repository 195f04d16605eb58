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
	layout  atomic.Pointer[job.Layout] // of the job now
	first   job.Slot                   // of this node
	locals  uint32                     // ranks of this node
	over    chan struct{}              // closed when the agent is lost or the world finalized
	reader  sync.WaitGroup

	mark string // before keys on the key-value store (KVS), which earlier programs of a rank have used, too

	mu        sync.Mutex
	op        uint32
	releases  map[uint32]chan rankwire.Release
	gets      map[getKey][]chan rankwire.Answer
	finalized bool
	kvs       map[string][]byte // of a job of one rank
	lost      error             // why the agent is lost
	failed    []int             // ranks, in the order in which the agent told
	restarted []RestartError    // the same of restarts
	floor     uint32            // collectives up to this number have failed with a restart
	resized   int               // changes of the job's size so far
	change    rankwire.Resize   // of the size, which waits or is agreed

	// putting is apart from mu: the table puts an address under its own locks, for which those who
	// hold mu may wait.
	putting sync.Mutex
	puts    []chan bool // in the order of the Puts
}

type getKey struct {
	slot job.Slot
	key  string
}

// initCalls counts the calls of Init, of which maxInitCalls may succeed: more than one only in the
// tests of this package, whose examples share a process.
var (
	initCalls    atomic.Int32
	maxInitCalls int32 = 1
)

// Init joins the job: it registers with this node's agent, opens the network and publishes the
// rank's address. It asks nothing about other ranks, and does not wait for them.
//
// Init may be called once per process: each later call returns ErrInitialized, also after Finalize
// and after an Init that failed. In a process that ibrun did not start, the job has one rank.
//
// A rank that is a script can run several programs that call Init, one after the other. The peers
// of each are the programs that the other ranks run in the same turn. Init fails if the program
// before it did not call Finalize.
//
// If ctx ends while Init waits for the agent, Init returns its error and the process is not part of
// the job. The opening of a network device, which with --eager is part of Init, is not interrupted.
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
	return join(control, welcome, time.Since(began), newConfig(options))
}

// join makes a world over an open control channel.
func join(control *rankwire.Channel, welcome rankwire.Welcome, answer time.Duration, c config) (*World, error) {
	w := &World{
		log: c.log, control: control, welcome: welcome, over: make(chan struct{}), op: welcome.Op,
		mark:     mark(welcome.Epoch),
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
	switch {
	case welcome.Layout.Nodes() > 1:
		w.ways(&cfg)
	case welcome.How.Fabric == "ib" && welcome.Rank == w.first:
		w.reportUnused()
	}
	if err := w.start(cfg); err != nil {
		return nil, err
	}
	w.log.Info("joined the job", "rank", w.Rank(), "size", w.Size(), "job", welcome.JobID)
	return w, nil
}

// start makes the table and listens to the agent, which an Abort waits for, before
// the way to other nodes is opened.
func (w *World) start(cfg lazy.Config) (err error) {
	late := cfg.OpenOnDemand
	cfg.OpenOnDemand = true
	if w.table, err = lazy.New(cfg); err != nil || w.control == nil {
		return err
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

// publish tells the agent where this rank is reached, or that it will when it is
// wanted.
func (w *World) publish(later bool) error {
	if later {
		return w.control.Send(rankwire.Later{})
	}
	return w.control.Send(rankwire.Publish{Tuple: w.table.Tuple()})
}

// resolver implements lazy.Resolver: it sends the questions of a table to the agent.
type resolver struct {
	control *rankwire.Channel
	mark    string // prefix of keys, World.mark
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

// answered passes an answer of the agent to the table, or to the call of Get that waits for it.
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

// mark goes before the keys of a rank's second program and of those after it, so
// that none finds what an earlier one has put: agents keep that.
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

// Eager reports whether the job's whole address table was sent to every node,
// rather than looked up when needed.
func (w *World) Eager() bool { return w.welcome.How.Eager }

// listen is the goroutine that takes what the agent says.
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
				_ = w.publish(false) // a peer asks whether this rank runs
			}
		}
	}
}

// lose ends what waits for the agent, and reports whether that comes unexpectedly.
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

// agentError is why the agent does not answer any more.
func (w *World) agentError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// abortText is the most of a text, in bytes, that goes with an Abort. The
// agent would not listen to more.
const abortText = 1000

// Abort ends the whole job: every rank, everywhere. It does not return.
//
// The exit code is the low byte of code, as with [os.Exit], and 1 if that byte is zero: an aborted
// job has failed. The text says why, and goes to the user of ibrun; it is cut after 1,000 bytes. In
// a job of one rank that ibrun did not start, nobody sees the text.
func (w *World) Abort(code int, text string) {
	exit := job.AbortCode(code)
	if w.control != nil {
		_ = w.control.Send(rankwire.Abort{Code: exit, Text: text[:min(len(text), abortText)]})
		<-w.over // the agent ends this process; the reader waits with us
	}
	os.Exit(int(exit))
}

// Finalize ends this rank's part in the job. It waits until what this rank sent has arrived, and
// until the other ranks have called Finalize, so that none of them waits for an acknowledgement
// from a rank that is gone. It does not wait for ranks that have ended without it. Messages that
// were not received are lost. The error names a rank that messages did not reach. A rank that a
// Resize has taken out of the job waits for nobody.
//
// If ctx ends first, Finalize returns its error and has ended this rank's part nevertheless: the
// other ranks do not wait for this one, and messages may not have arrived. After Finalize, all
// methods that need the job return ErrFinalized.
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
	case !w.left(): // else all has arrived, and nobody waits for this rank
		e = w.barrier(ctx)
	}
	for errors.Is(e, ErrRestarted) { // the restarted rank joins the next one
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

// Stats is what one rank has counted since Init. Fields are added in later versions, none is
// removed.
type Stats struct {
	Messages uint64 // sent, those to this rank itself included
	Bytes    uint64 // in those messages

	Peers      uint64 // ranks that this one has exchanged messages with
	LocalPeers uint64 // of those, ranks of the same node

	Lookups      uint64 // questions to the agent for the addresses of a node
	Checks       uint64 // questions whether a slow rank still has its address
	AddressBytes uint64 // spent on addresses and handshakes

	Connections    uint64 // opened over the network
	Reopened       uint64 // of those, opened again after they were closed because they were idle
	Streams        uint64 // ends of streams between this rank and others
	Moves          uint64 // times that this rank moved from datagrams to a stream
	StreamMessages uint64 // sent by a stream

	Datagrams   uint64 // sent
	Retransmits uint64 // datagram segments sent again
	Strangers   uint64 // datagrams received that are not this job's, and were dropped
	Rejects     uint64 // messages for an earlier program of a rank

	DatagramQueuePairs uint64        // InfiniBand: made for datagrams
	StreamQueuePairs   uint64        // InfiniBand: used by streams
	ColdQueuePairs     uint64        // of those, made only when a stream needed them
	SpareQueuePairs    uint64        // InfiniBand: made for streams and not used
	PinnedBytes        uint64        // InfiniBand: registered memory
	OpeningTime        time.Duration // InfiniBand: spent on opening the device

	// Time from the Send of the first message to a rank until that rank has acknowledged it: the
	// median and the longest of all ranks, up to 9 % too long. Zero if there was none.
	FirstMessageMedian, FirstMessageLongest time.Duration
}

// Stats returns what this rank has counted so far.
func (w *World) Stats() Stats {
	tally := w.table.Tally()
	return statsOf(&tally)
}

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
