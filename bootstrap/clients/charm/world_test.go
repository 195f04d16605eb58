package charm

import (
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

var update = flag.Bool("update", false, "rewrite the traces")

// world is a job with its servers, and in place of the agents' cores what these do for any rank: it
// welcomes, and ends collectives. It writes down what happens.
type world struct {
	job     *job.Job
	servers []*Server
	joined  map[uint32][]rankwire.Parcel
	count   map[uint32]uint32
	what    map[uint32]rankwire.Collective
	ops     map[job.Slot]uint32
	trace   []string
	queue   []func()
	printed map[string]int // chunks by rank and stream that have not been resumed
	faults  []string       // what no server does
	muting  func(job.Slot) // called while a rank is muted, if there is one
}

// newWorld is a job of nodes with so many ranks each, all of Charm++ with PEs as their number says.
func newWorld(nodes, ranks uint32, change func(*job.Job)) *world {
	j := &job.Job{
		ID: "0123456789abcdef", Size: nodes * ranks, Nodes: nodes,
		Layout: job.NewLayout([]job.Share{{Nodes: nodes, Ranks: ranks}}),
		Stdin:  job.Stdin{Mode: job.StdinOne},
	}
	if change != nil {
		change(j)
	}
	w := &world{
		job: j, joined: map[uint32][]rankwire.Parcel{}, count: map[uint32]uint32{}, ops: map[job.Slot]uint32{},
		what: map[uint32]rankwire.Collective{}, printed: map[string]int{},
	}
	for i := range nodes {
		s := NewServer(j, job.Node{First: job.Slot(i * ranks), Ranks: ranks}, 0)
		s.Place([4]byte{10, 0, 0, byte(i + 1)})
		for k := range ranks {
			s.Expect(job.Slot(i*ranks+k), 1+k, true, false)
		}
		w.servers = append(w.servers, s)
	}
	return w
}

func (w *world) of(slot job.Slot) *Server {
	return w.servers[w.job.Layout.NodeOf(slot)]
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// call is the connection of a process: its number on its node is that of the rank.
func call(slot job.Slot) uint32 { return uint32(slot) + 1 }

// sends lets a process send a frame.
func (w *world) sends(slot job.Slot, kind string, data ...byte) {
	w.note("%d -> %s %s", slot, kind, hex.EncodeToString(data))
	w.obey(w.of(slot), w.of(slot).Receive(call(slot), Append(nil, kind, len(data), data...)))
	w.drain()
}

// drain lets happen what is due.
func (w *world) drain() {
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		next()
	}
}

func (w *world) obey(s *Server, effects []Effect) {
	for _, e := range effects {
		w.effect(s, e)
	}
}

func (w *world) effect(s *Server, e Effect) {
	later := func(do func() []Effect) { w.queue = append(w.queue, func() { w.obey(s, do()) }) }
	switch e := e.(type) {
	case Bytes:
		w.note("%d <- %s", e.Call-1, show(e.Bytes))
	case HangUp:
		w.note("%d hung up", e.Call-1)
		later(func() []Effect { return s.Closed(e.Call) })
	case PrintText:
		w.note("%d prints %d %q", e.Rank, e.Stream, e.Text)
		key := fmt.Sprint(e.Rank, e.Stream)
		if w.printed[key]++; w.printed[key] > 1 || len(e.Text) == 0 || len(e.Text) > maxChunk {
			w.faults = append(w.faults, "a chunk before its turn: "+key)
		}
		later(func() []Effect {
			w.printed[key]--
			return s.Resumed(e.Rank, e.Stream)
		})
	case Mute:
		w.note("%d is muted", e.Rank)
		if w.muting != nil {
			w.muting(e.Rank)
		}
		later(func() []Effect { return s.Muted(e.Rank) })
	case ClientFrame:
		w.core(s, e, later)
	default:
		w.note("%T %+v", e, e)
	}
}

// core does what an agent's core does.
func (w *world) core(s *Server, e ClientFrame, later func(func() []Effect)) {
	switch m := e.Msg.(type) {
	case rankwire.Hello:
		later(func() []Effect { return s.Deliver(e.Rank, rankwire.Welcome{Rank: e.Rank}) })
	case rankwire.Collect:
		w.note("%d joins %d %v parcels=%d", e.Rank, m.Op, m.What, m.Parcels.Len())
		if w.ops[e.Rank]++; w.ops[e.Rank] != m.Op {
			w.faults = append(w.faults, fmt.Sprintf("rank %d joins %d", e.Rank, m.Op))
		}
		trouble := ""
		if what, known := w.what[m.Op]; known && what != m.What {
			trouble = "they disagree"
		}
		w.what[m.Op] = m.What
		w.joined[m.Op] = slices.AppendSeq(w.joined[m.Op], m.Parcels.All())
		if w.count[m.Op]++; w.count[m.Op] == w.job.Size || trouble != "" {
			for slot := range job.Slot(w.job.Size) {
				out := rankwire.Release{Op: m.Op, What: m.What, Trouble: trouble}
				if trouble == "" {
					out.Parcels = rankwire.NewParcels(w.joined[m.Op]...)
				}
				to := w.of(slot)
				w.queue = append(w.queue, func() { w.obey(to, to.Deliver(slot, out)) })
			}
		}
	case rankwire.Abort:
		w.note("%d says %v: %s", e.Rank, m, m.Text)
	default:
		w.note("%d says %v", e.Rank, m)
	}
}

// show is bytes to a program: frames by their type, and what is the rest of a table.
func show(b []byte) string {
	if len(b) > 16 {
		if name, ok := typeOfFrame(b); ok {
			return name + " " + hex.EncodeToString(b[16:])
		}
	}
	return hex.EncodeToString(b)
}

func typeOfFrame(b []byte) (string, bool) {
	name := strings.TrimRight(string(b[4:16]), "\x00")
	return name, name != "" && name[0] >= 'a' && name[0] <= 'z'
}

// testInitNode returns the data of the initnode message of a process in generation g. Its data port is 4000 plus the
// number of the process, and its address is 192.0.2.1.
func testInitNode(g Generation, process uint32) []byte {
	words := map[Generation][]uint32{
		Gen65: {process, 0, 4000 + process, 0}, Gen67: {process, 0, 0, 4000 + process, 0},
		Gen69: {process, 8, 4, 2, 0, 0, 0, 4000 + process, 0},
	}[g]
	var b []byte
	for _, v := range words {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, 192, 0, 2, 1)
}

// start makes all processes send initnode in the form of protocol generation g, and returns w.
func (w *world) start(g Generation) *world {
	for slot := range job.Slot(w.job.Size) {
		w.sends(slot, InitNode, testInitNode(g, uint32(w.job.Layout.Rank(slot)))...)
	}
	return w
}

// TestTraces compares the trace of a job on two nodes, from initnode to the end, with a file for each generation.
func TestTraces(t *testing.T) {
	for _, g := range []Generation{Gen65, Gen67, Gen69} {
		w := newWorld(2, 2, nil).start(g)
		w.sends(1, Barrier)
		w.sends(0, Print, []byte("hello\n\x00")...)
		w.sends(2, PrintErrSyn, []byte("oh\n\x00")...)
		for _, slot := range []job.Slot{0, 2, 3} {
			w.sends(slot, Barrier)
		}
		for slot := range job.Slot(4) {
			w.sends(slot, Barrier0, byte('0'+slot), 0)
		}
		w.sends(0, Scanf, []byte("%d\x00")...)
		w.obey(w.servers[0], w.servers[0].Input(0, []byte("12\nrest\n"), false))
		w.obey(w.servers[1], w.servers[1].Request(7, 3, ccs.Request{Handler: "h", PE: 5, Data: []byte("ask")}))
		reply := Forward(ccs.Request{Handler: "h", Data: []byte("reply")}, 1)[16:]
		w.sends(3, ReplyFw, reply...)
		for slot := range job.Slot(4) {
			w.sends(slot, Ending, byte('0'+3*(slot%2)), 0)
		}
		w.drain()
		got := strings.Join(w.trace, "\n") + "\n"
		require.Empty(t, w.faults)
		name := filepath.Join("testdata", fmt.Sprintf("trace-%d.txt", g))
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
		}
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, string(want), got, name)
	}
}
