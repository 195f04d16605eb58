// Package flight is a flight recorder: it keeps what happened to an agent, as the events of its
// core, so that a run can be repeated from them. A core is a function of its events. The package
// is pure. docs/dev/decisions/0024-recorder-and-simulation.md says what is kept, and what is not.
//
// A record is the first events of an agent and, in a ring, its last ones:
//
//	file:   "ibrun flight 1\n", the build and "\n", then agents
//	agent:  size: a varint, behind which follow: the host's length and text, node, core.Config, entries
//	entry:  nanoseconds since the last one, kind, sum of the effects, length, body; all but the body varints
//
// Kind 0 is a gap: its body is the number of entries that were dropped there.
package flight

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// What a recorder keeps, in bytes.
const (
	KeepFirst = 256 << 10
	KeepLast  = 256 << 10
)

// Recorder keeps the events of one core. The zero value is not usable; see New.
type Recorder struct {
	head    []byte   // the configuration and the first entries
	tail    [][]byte // the last entries
	size    int      // bytes in tail
	dropped uint64
	skipped uint64 // nanoseconds that they took
	closed  bool   // head takes no more
	last    time.Duration
	first   int // bytes of entries that head may have
	most    int // bytes that tail may have
}

// New makes the recorder of a core that was made with a configuration.
func New(cfg core.Config) *Recorder {
	head := appendBytes(nil, encodeConfig(cfg))
	return &Recorder{head: head, first: len(head) + KeepFirst, most: KeepLast}
}

// Add takes an event, and the effects that it had. What it keeps shares no memory with them.
func (r *Recorder) Add(now time.Duration, ev core.Event, effects []core.Effect) {
	kind, body := encodeEvent(ev)
	entry := binary.AppendUvarint(nil, uint64(now-r.last))
	entry = binary.AppendUvarint(entry, uint64(kind))
	entry = binary.AppendUvarint(entry, sum(effects))
	entry = appendBytes(entry, body)
	r.last = now
	if !r.closed && len(r.head)+len(entry) <= r.first {
		r.head = append(r.head, entry...)
		return
	}
	r.closed = true
	r.tail, r.size = append(r.tail, entry), r.size+len(entry)
	for r.size > r.most {
		took, _ := binary.Uvarint(r.tail[0])
		r.size, r.skipped = r.size-len(r.tail[0]), r.skipped+took
		r.tail[0], r.tail = nil, r.tail[1:]
		r.dropped++
	}
}

// Bytes are the part of a file about the agent of a host and node.
func (r *Recorder) Bytes(host string, node job.NodeIndex) []byte {
	all := binary.AppendUvarint(appendBytes(nil, []byte(host)), uint64(node))
	all = append(all, r.head...)
	if r.dropped > 0 {
		all = append(binary.AppendUvarint(all, r.skipped), kindGap, 0)
		all = appendBytes(all, binary.AppendUvarint(nil, r.dropped))
	}
	for _, entry := range r.tail {
		all = append(all, entry...)
	}
	return appendBytes(nil, all)
}

// mark begins a file.
const mark = "ibrun flight 1\n"

// Header begins a file of records by one build.
func Header(build string) []byte { return []byte(mark + build + "\n") }

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// config is core.Config as it is written: without its function, and nodes as runs.
type config struct {
	core.Config
	Join   *int `json:",omitempty"` // hides the function
	Spares []job.Run
	Base   job.Slot
}

func encodeConfig(cfg core.Config) []byte {
	c := config{Config: cfg, Spares: cfg.Policy.Spares.Runs(), Base: cfg.Policy.Spares.Base()}
	c.Policy.Spares = job.Nodes{}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // only for types that JSON cannot have
	}
	return text
}

func decodeConfig(text []byte) (core.Config, error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return core.Config{}, err
	}
	if len(c.Spares) > 0 {
		c.Policy.Spares = job.NewNodes(c.Base, c.Spares)
	}
	return c.Config, nil
}

// launch is a Launch without what no decision depends on, and what is nobody else's business.
func launch(m wire.Launch) wire.Launch {
	j := *m.Job
	j.Secret = [32]byte{}
	j.Programs = append([]job.Program(nil), j.Programs...)
	for i := range j.Programs {
		j.Programs[i].Env = nil
	}
	m.Job = &j
	return m
}
