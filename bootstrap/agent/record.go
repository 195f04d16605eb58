package agent

import (
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/flight"
	"ibrun/bootstrap/wire"
	"ibrun/internal/build"
	"ibrun/job"
)

// recording is what is kept of this agent's events. An agent learns with its job whether anybody
// wants it; until then it keeps the few that there are as they are, since to write them takes
// memory.
type recording struct {
	config core.Config
	before []step
	events *flight.Recorder // nil: it is not known yet
	host   string
	node   job.NodeIndex
}

// step is an event of the core with its effects.
type step struct {
	at      time.Duration
	event   core.Event
	effects []core.Effect
}

func newRecording(cfg core.Config) *recording { return &recording{config: cfg} }

func (r *recording) add(now time.Duration, ev core.Event, effects []core.Effect) {
	switch {
	case r == nil:
	case r.events == nil:
		r.before = append(r.before, step{now, ev, slices.Clone(effects)})
	default:
		r.events.Add(now, ev, effects)
	}
}

// keepRecord settles whether the recording goes on.
func (l *loop) keepRecord(wanted bool, host string, node job.NodeIndex) {
	r := l.record
	if !wanted {
		l.record = nil
		return
	}
	r.host, r.node, r.events = host, node, flight.New(r.config)
	for _, s := range r.before {
		r.events.Add(s.at, s.event, s.effects)
	}
	r.before = nil
}

// sendRecord sends what is kept to the root, ahead of Exit.
func (l *loop) sendRecord() {
	if l.record == nil || l.record.events == nil {
		return
	}
	for piece := range slices.Chunk(l.record.events.Bytes(l.record.host, l.record.node), wire.MaxRecord) {
		l.up.send(wire.Record{Node: l.record.node, Data: piece})
	}
}

// maxRecords bounds what the root keeps of all agents' recordings, in bytes.
const maxRecords = 64 << 20

// records are the recordings that have come to the root, by node.
type records struct {
	of   map[job.NodeIndex][]byte
	size int
}

func (r *records) add(m wire.Record) {
	if r.size += len(m.Data); r.size > maxRecords {
		delete(r.of, m.Node) // half of it is of no use
		return
	}
	if r.of == nil {
		r.of = map[job.NodeIndex][]byte{}
	}
	r.of[m.Node] = append(r.of[m.Node], m.Data...)
}

// file has all of them, the root's own first.
func (r *records) file(own *recording) []byte {
	all := append(flight.Header(build.ID()), own.events.Bytes(own.host, own.node)...)
	for _, node := range slices.Sorted(maps.Keys(r.of)) {
		all = append(all, r.of[node]...)
	}
	return all
}
