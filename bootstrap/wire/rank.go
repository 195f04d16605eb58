package wire

import (
	"fmt"

	"ibrun/fabric"
	"ibrun/job"
)

// Hello opens a rank's talk with its agent.
type Hello struct{}

// Welcome tells a rank who it is and whom it may reach.
type Welcome struct {
	JobID  string
	Rank   job.Slot
	Epoch  uint16 // which program of the rank this is, from 1: no two have the same
	Op     uint32 // collectives that the programs before it have joined
	Layout job.Layout
	Key    fabric.Key
	How    job.Transport
	Path   string // address that this node is reached by, as far as its agent knows; or empty
}

// Refused tells a program that it cannot join the job, and why, in place of
// Welcome.
type Refused struct{ Text string }

// Publish makes a rank's I-tuple known to those who ask.
type Publish struct{ Tuple fabric.Tuple }

// Put puts a value on the key-value store (KVS), under the rank's own name. A key is
// put once.
type Put struct {
	Key   string
	Value []byte
}

// PutDone answers Put; Again says that the key was put before, with another value.
type PutDone struct{ Again bool }

// Pair asks for a socket to a rank of the same node, and answers with one: the
// descriptor travels beside the answer if What is Found, to both ranks.
type Pair struct {
	Rank job.Slot
	What Answered
}

// Abort ends the whole job.
type Abort struct {
	Code uint8
	Text string
}

// Finalize says that the rank sends and takes no more messages.
type Finalize struct{}

// Later says, in place of a Publish, that the rank opens its way to other nodes
// when it is wanted; a Publish follows then.
type Later struct{}

// Wanted tells such a rank that another node asks for its address.
type Wanted struct{}

func (Hello) Kind() Kind    { return KindHello }
func (Welcome) Kind() Kind  { return KindWelcome }
func (Refused) Kind() Kind  { return KindRefused }
func (Publish) Kind() Kind  { return KindPublish }
func (Put) Kind() Kind      { return KindPut }
func (PutDone) Kind() Kind  { return KindPutDone }
func (Pair) Kind() Kind     { return KindPair }
func (Abort) Kind() Kind    { return KindAbort }
func (Finalize) Kind() Kind { return KindFinalize }
func (Later) Kind() Kind    { return KindLater }
func (Wanted) Kind() Kind   { return KindWanted }

func (Hello) append(*writer)       {}
func (Finalize) append(*writer)    {}
func (Later) append(*writer)       {}
func (Wanted) append(*writer)      {}
func (m Refused) append(w *writer) { w.string(m.Text) }
func (m Publish) append(w *writer) { w.bytes(m.Tuple.Append(nil)) }
func (m Put) append(w *writer)     { w.string(m.Key); w.bytes(m.Value) }
func (m PutDone) append(w *writer) { w.bool(m.Again) }
func (m Pair) append(w *writer)    { w.slot(m.Rank); w.byte(byte(m.What)) }
func (m Abort) append(w *writer)   { w.byte(m.Code); w.string(m.Text) }

func (m Welcome) append(w *writer) {
	w.string(m.JobID)
	w.slot(m.Rank)
	w.u32(uint32(m.Epoch))
	w.u32(m.Op)
	appendLayout(w, m.Layout)
	*w = append(*w, m.Key[:]...)
	appendTransport(w, m.How)
	w.string(m.Path)
}

func parseHello(*reader) Message     { return Hello{} }
func parseFinalize(*reader) Message  { return Finalize{} }
func parseLater(*reader) Message     { return Later{} }
func parseWanted(*reader) Message    { return Wanted{} }
func parseRefused(r *reader) Message { return Refused{r.text(maxTrouble)} }
func parsePutDone(r *reader) Message {
	return PutDone{r.bool()}
}
func parseAbort(r *reader) Message { return Abort{r.byte(), r.text(maxTrouble)} }

func parsePublish(r *reader) Message {
	raw := r.bytes(fabric.MaxTuple)
	t, n, err := fabric.ParseTuple(raw)
	if err != nil || n != len(raw) {
		r.fail(ErrRange)
	}
	return Publish{t}
}

func parsePut(r *reader) Message {
	m := Put{Key: r.text(MaxMark + MaxKey), Value: r.bytes(MaxValue)}
	if m.Key == "" {
		r.fail(ErrRange)
	}
	return m
}

func parsePair(r *reader) Message {
	m := Pair{Rank: r.slot(), What: Answered(r.byte())}
	if m.What >= answers {
		r.fail(ErrRange)
	}
	return m
}

func parseWelcome(r *reader) Message {
	m := Welcome{JobID: r.string(), Rank: r.slot(), Epoch: uint16(r.uint(1<<16 - 1)), Op: r.u32(), Layout: parseLayout(r)}
	for i := range m.Key {
		m.Key[i] = r.byte()
	}
	m.How, m.Path = parseTransport(r), r.string()
	return m
}

func (Hello) String() string { return "Hello" }
func (m Welcome) String() string {
	return fmt.Sprintf("Welcome job=%s rank=%d epoch=%d op=%d nodes=%d ranks=%d path=%s",
		m.JobID, m.Rank, m.Epoch, m.Op, m.Layout.Nodes(), m.Layout.Ranks(), m.Path)
}
func (m Refused) String() string { return fmt.Sprintf("Refused text=%q", m.Text) }
func (m Publish) String() string { return fmt.Sprintf("Publish %v", m.Tuple) }
func (m Put) String() string     { return fmt.Sprintf("Put key=%q bytes=%d", m.Key, len(m.Value)) }
func (m PutDone) String() string { return fmt.Sprintf("PutDone again=%t", m.Again) }
func (m Pair) String() string    { return fmt.Sprintf("Pair rank=%d %v", m.Rank, m.What) }
func (m Abort) String() string   { return fmt.Sprintf("Abort code=%d text=%q", m.Code, m.Text) }
func (Finalize) String() string  { return "Finalize" }
func (Later) String() string     { return "Later" }
func (Wanted) String() string    { return "Wanted" }
