package pmi

import (
	"fmt"
	"math"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// config is a client's of whom it is not known yet which rank it is.
func (h *Server) config() Config {
	if h.mapping == "" {
		h.mapping = Mapping(h.job.Layout)
	}
	return Config{
		Rank: -1, Size: int(h.job.Size), Universe: int(h.job.Size),
		KVS: "kvs_" + h.job.ID, JobID: h.job.ID, Spawner: h.job.Spawner, Mapping: h.mapping,
	}
}

// app is the number of the application that a rank runs.
func (h *Server) app(slot job.Slot) (app int) {
	n := h.job.Layout.Rank(slot)
	for i := range h.job.Programs {
		if p := &h.job.Programs[i]; p.Has(n) {
			app = int(p.App)
		}
	}
	return app
}

// step obeys one step of a client's engine.
func (h *Server) step(c *client, s Step) {
	switch {
	case !c.known:
		h.introduce(c, s)
	case s.Err != nil:
		c.over = true
		h.do(Warn{fmt.Sprintf("rank %d: %v; it is not listened to any more", h.job.Layout.Rank(c.slot), s.Err)})
	case s.Request == nil:
		h.do(Words{c.slot, c.call, s.Bytes})
	default:
		h.ask(c, s.Request)
	}
}

func (h *Server) answer(c *client, a Answer) { h.obey(c, c.engine.Answer(a)) }

func (h *Server) obey(c *client, steps []Step) {
	for _, s := range steps {
		h.step(c, s)
	}
}

func (h *Server) count(c *client, n job.Count) { c.counts.Sum[n]++ }

// ask does what a client wants.
func (h *Server) ask(c *client, r Request) {
	switch r := r.(type) {
	case Put:
		h.count(c, job.CountPuts)
		h.put(c, r.Key, r.Value)
	case Get:
		h.count(c, job.CountGets)
		h.get(c, r.Key)
	case Fence:
		h.count(c, job.CountFences)
		c.fences++
		h.join(c, rankwire.Barrier, h.news(c))
	case Ring:
		c.ring = &r
		var w frame.Encoder
		w.Text(r.Left)
		w.Text(r.Right)
		w.Uint(uint64(max(0, r.Count)))
		h.join(c, rankwire.AllGather, w)
	case Publish:
		h.do(ClientFrame{c.slot, rankwire.Name{Do: rankwire.NamePublish, Service: r.Service, Port: r.Port}})
	case Lookup:
		h.do(ClientFrame{c.slot, rankwire.Name{Do: rankwire.NameLookup, Service: r.Service}})
	case Unpublish:
		h.do(ClientFrame{c.slot, rankwire.Name{Do: rankwire.NameUnpublish, Service: r.Service}})
	case Spawn:
		h.spawn(c, r)
	case NodePut:
		h.attrs[r.Key] = r.Value
		h.answer(c, Answer{})
		h.serve(r.Key)
	case NodeGet:
		v, ok := h.attrs[r.Key]
		if !ok && r.Wait {
			h.waiting = append(h.waiting, waiter{c, r.Key})
			return
		}
		h.answer(c, Answer{Found: ok, Value: v})
	case Abort:
		code := uint8(0) // MPI programs may end a job by MPI_Abort that has not failed
		if r.Code != 0 {
			code = job.AbortCode(r.Code)
		}
		h.do(ClientFrame{c.slot, rankwire.Abort{Code: code, Text: r.Text}})
	case Finalize:
		if h.job.Transport.Stats {
			c.counts.Sum[job.CountRanks] = 1
			c.counts.Sum[job.CountGets] += uint64(c.engine.Mapped())
			h.do(ClientFrame{c.slot, rankwire.Tally{Of: &c.counts}})
		}
		h.do(ClientFrame{c.slot, rankwire.Finalize{}})
	default:
		h.answer(c, Answer{Refused: "not supported"})
	}
}

// spawn asks for further programs. Of the hints only the working directory is
// known.
func (h *Server) spawn(c *client, r Spawn) {
	var commands []rankwire.Command
	for _, from := range r.Commands {
		to := rankwire.Command{Argv: rankwire.NewStrings(from.Argv...), Ranks: uint32(min(from.Ranks, job.MaxRanks))}
		for _, hint := range from.Hints {
			if hint.Key == "wdir" || hint.Key == "wd" {
				to.Dir = hint.Value
			}
		}
		commands = append(commands, to)
	}
	var preput []job.KeyValue
	for _, p := range r.Preput {
		preput = append(preput, job.KeyValue(p))
	}
	h.do(ClientFrame{c.slot, rankwire.SpawnJob{Commands: rankwire.NewCommands(commands...), Preput: rankwire.NewPairs(preput...)}})
}

// join takes part in a collective, with a value for everyone.
func (h *Server) join(c *client, what rankwire.Collective, value []byte) {
	c.op++
	m := rankwire.Collect{Op: c.op, What: what}
	if len(value) > 0 {
		m.Parcels = rankwire.NewParcels(rankwire.Parcel{From: c.slot, To: rankwire.Everyone, Value: value})
	}
	h.do(ClientFrame{c.slot, m})
}

// serve answers those who wait for an attribute of the node.
func (h *Server) serve(key string) {
	rest := h.waiting[:0]
	for _, w := range h.waiting {
		if w.key == key {
			h.answer(w.client, Answer{Found: true, Value: h.attrs[key]})
		} else {
			rest = append(rest, w)
		}
	}
	h.waiting = rest
}

// Deliver takes what the core tells a rank: the end of a fence or a ring, word of a
// service, or a value.
func (h *Server) Deliver(slot job.Slot, m frame.Message) []Effect {
	c := h.clients[slot]
	if a, ok := m.(rankwire.Answer); ok {
		h.fetched(a) // others may wait for it too
		return h.done()
	}
	if c.over {
		return nil
	}
	switch m := m.(type) {
	case rankwire.Release:
		h.released(c, m)
	case rankwire.Name:
		h.named(c, m)
	case rankwire.JobSpawned:
		if m.Refused != "" { // the protocol has no room for all of it
			h.do(Warn{fmt.Sprintf("rank %d: nothing was spawned: %s", h.job.Layout.Rank(slot), m.Refused)})
		}
		h.answer(c, Answer{Value: m.JobID, Refused: m.Refused})
	}
	return h.done()
}

func (h *Server) released(c *client, r rankwire.Release) {
	if r.Trouble != "" {
		c.over = true
		h.do(ClientFrame{c.slot, rankwire.Abort{Code: 1, Text: "it waits in a PMI barrier in vain: " + r.Trouble}})
		return
	}
	if c.ring != nil {
		h.ringed(c, r.Parcels)
		return
	}
	if r.Op > h.lastRelease { // the first of this node's ranks to be told
		h.lastRelease = r.Op
		h.passed(c.fences, r.Parcels)
	}
	h.answer(c, Answer{})
}

// ringed gives a client its neighbours' words.
func (h *Server) ringed(c *client, parcels rankwire.Parcels) {
	l := h.job.Layout
	me, size := l.Rank(c.slot), job.Rank(l.Ranks())
	var a Answer
	for p := range parcels.All() {
		in := frame.NewDecoder(p.Value, math.MaxInt)
		left, right, count := in.Text(), in.Text(), in.Uint(1<<31)
		from := l.Rank(p.From)
		if from < me {
			a.Count += int(count)
		}
		if from == (me+size-1)%size {
			a.Left = right
		}
		if from == (me+1)%size {
			a.Right = left
		}
	}
	c.ring = nil
	h.answer(c, a)
}

// named takes the root's word about a service.
func (h *Server) named(c *client, m rankwire.Name) {
	a := Answer{Found: m.Done, Value: m.Port}
	if m.Do == rankwire.NamePublish && !m.Done {
		a.Refused = "service is published already"
	}
	h.answer(c, a)
}

// Awaits reports whether others may wait for a rank: it has joined them and not taken its leave.
func (h *Server) Awaits(slot job.Slot) bool {
	c := h.clients[slot]
	return c != nil && c.engine.Version() != 0 && !c.engine.Finalized() && h.job.Size > 1
}

// Exited takes the end of a rank's process.
func (h *Server) Exited(slot job.Slot) {
	if c := h.clients[slot]; c != nil {
		delete(h.calls, c.call)
		c.over = true
	}
}
