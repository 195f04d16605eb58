package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/fabric"
	"ibrun/job"
)

// Hello opens a rank's talk with its agent.
type Hello struct{}

// Welcome tells a rank who it is and whom it may reach.
type Welcome struct {
	JobID  string
	Rank   job.Slot
	Epoch  uint16 // which program of the rank this is (job.Epoch): no two have the same
	Op     uint32 // collectives that the programs before it have joined
	Layout job.Layout
	Key    fabric.Key
	How    job.Transport
	Path   string // address that this node is reached by, as far as its agent knows; or empty

	Restarts bool   // a rank that fails may start again
	Floor    uint16 // epoch from which on all ranks count: they were restarted together; 0: they were not
	Resizes  uint32 // changes of the job's size so far
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

func (Hello) Kind() frame.Kind    { return KindHello }
func (Welcome) Kind() frame.Kind  { return KindWelcome }
func (Refused) Kind() frame.Kind  { return KindRefused }
func (Publish) Kind() frame.Kind  { return KindPublish }
func (Put) Kind() frame.Kind      { return KindPut }
func (PutDone) Kind() frame.Kind  { return KindPutDone }
func (Pair) Kind() frame.Kind     { return KindPair }
func (Abort) Kind() frame.Kind    { return KindAbort }
func (Finalize) Kind() frame.Kind { return KindFinalize }
func (Later) Kind() frame.Kind    { return KindLater }
func (Wanted) Kind() frame.Kind   { return KindWanted }

func (Hello) Encode(*frame.Encoder)       {}
func (Finalize) Encode(*frame.Encoder)    {}
func (Later) Encode(*frame.Encoder)       {}
func (Wanted) Encode(*frame.Encoder)      {}
func (m Refused) Encode(w *frame.Encoder) { w.Text(m.Text) }
func (m Publish) Encode(w *frame.Encoder) { w.Bytes(m.Tuple.Append(nil)) }
func (m Put) Encode(w *frame.Encoder)     { w.Text(m.Key); w.Bytes(m.Value) }
func (m PutDone) Encode(w *frame.Encoder) { w.Bool(m.Again) }
func (m Pair) Encode(w *frame.Encoder)    { w.U32(uint32(m.Rank)); w.Byte(byte(m.What)) }
func (m Abort) Encode(w *frame.Encoder)   { w.Byte(m.Code); w.Text(m.Text) }

func (m Welcome) Encode(w *frame.Encoder) {
	w.Text(m.JobID)
	w.U32(uint32(m.Rank))
	w.U32(uint32(m.Epoch))
	w.U32(m.Op)
	EncodeLayout(w, m.Layout)
	w.Raw(m.Key[:])
	EncodeTransport(w, m.How)
	w.Text(m.Path)
	w.Bool(m.Restarts)
	w.U32(uint32(m.Floor))
	w.U32(m.Resizes)
}

func parseHello(*frame.Decoder) frame.Message     { return Hello{} }
func parseFinalize(*frame.Decoder) frame.Message  { return Finalize{} }
func parseLater(*frame.Decoder) frame.Message     { return Later{} }
func parseWanted(*frame.Decoder) frame.Message    { return Wanted{} }
func parseRefused(r *frame.Decoder) frame.Message { return Refused{r.TextUpTo(maxTrouble)} }
func parsePutDone(r *frame.Decoder) frame.Message {
	return PutDone{r.Bool()}
}
func parseAbort(r *frame.Decoder) frame.Message { return Abort{r.Byte(), r.TextUpTo(maxTrouble)} }

func parsePublish(r *frame.Decoder) frame.Message {
	raw := r.Bytes(fabric.MaxTuple)
	t, n, err := fabric.ParseTuple(raw)
	if err != nil || n != len(raw) {
		r.Fail(frame.ErrRange)
	}
	return Publish{t}
}

func parsePut(r *frame.Decoder) frame.Message {
	m := Put{Key: r.TextUpTo(MaxMark + MaxKey), Value: r.Bytes(MaxValue)}
	if m.Key == "" {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parsePair(r *frame.Decoder) frame.Message {
	m := Pair{Rank: job.Slot(r.U32()), What: Answered(r.Byte())}
	if m.What >= answerKinds {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseWelcome(r *frame.Decoder) frame.Message {
	m := Welcome{
		JobID: r.Text(), Rank: job.Slot(r.U32()), Epoch: uint16(r.Uint(1<<16 - 1)), Op: r.U32(),
		Layout: DecodeLayout(r),
	}
	r.Raw(m.Key[:])
	m.How, m.Path, m.Restarts = DecodeTransport(r), r.Text(), r.Bool()
	m.Floor, m.Resizes = uint16(r.Uint(1<<16-1)), r.U32()
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
