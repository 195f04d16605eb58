package pmixserver

import (
	"bytes"
	"strconv"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// describeSelf is this job as learn takes it.
func (s *Server) describeSelf() []byte {
	var w frame.Encoder
	w.Text(s.job.ID)
	rankwire.EncodeLayout(&w, &s.job.Layout)
	w.Uint(uint64(len(s.job.Programs)))
	for i := range s.job.Programs {
		p := &s.job.Programs[i]
		for _, n := range []uint32{uint32(p.First), p.Count, p.App, p.Offset} {
			w.U32(n)
		}
	}
	return w
}

// learn takes another job's description; false: it cannot be read.
func (s *Server) learn(namespace, text string) bool {
	r := frame.NewDecoder([]byte(text), rankwire.MaxPort)
	j := &job.Job{ID: r.Text()}
	rankwire.DecodeLayout(r, &j.Layout)
	for range r.Count() {
		j.Programs = append(j.Programs, job.Program{
			First: job.Rank(r.U32()), Count: r.U32(), App: r.U32(), Offset: r.U32(),
		})
	}
	if r.Err() != nil || j.Layout.Ranks() == 0 {
		return false
	}
	j.Size, j.Nodes = j.Layout.Ranks(), j.Layout.Nodes()
	s.related[namespace] = j
	return true
}

// describeRelated returns the description of the related job o, which has the given namespace, for clients.
func describeRelated(namespace string, o *job.Job) *pmix.Job {
	j := &pmix.Job{
		Namespace: namespace, ID: o.ID, Size: o.Size, Universe: o.Size, Apps: apps(o), NodeCount: o.Nodes,
	}
	if o.Size <= maxFull {
		for slot := range job.Slot(o.Size) {
			j.Ranks = append(j.Ranks, placeOf(o, slot))
		}
	}
	return j
}

// exported names what a rank has committed for related jobs.
func exported(namespace string, n pmix.Rank) string {
	return "v " + namespace + " " + strconv.FormatUint(uint64(n), 10)
}

// export publishes what a rank has committed, for ranks of related jobs.
func (s *Server) export(r *rank) {
	newest := blob{r.slot, r.epoch, r.last}
	if r.exported == newest {
		return
	}
	service := exported(s.namespace, pmix.Rank(r.number))
	if r.exported.number > 0 {
		s.consult(r, rankwire.Name{Do: rankwire.NameUnpublish, Service: service}, func(rankwire.Name) {})
	}
	r.exported = newest
	publish := rankwire.Name{Do: rankwire.NamePublish, Service: service, Port: string(r.blob())}
	s.consult(r, publish, func(m rankwire.Name) {
		if !m.Done {
			s.warn("rank %d: ranks of other jobs do not find it by PMIx: what it has committed is too long", r.number)
		}
	})
}

// getRelated answers a Get of a rank of a related job.
func (s *Server) getRelated(w waiter, q pmix.Get, o *job.Job) {
	if uint32(q.Of.Rank) >= o.Size {
		s.status(w, pmix.NotFound)
		return
	}
	if attrs, ok := placeAttrs(placeOf(o, o.Layout.Slot(job.Rank(q.Of.Rank))), q.Key); ok {
		s.give(w, q.Of, pmix.PairsOf(attrs...))
		return
	}
	service := exported(q.Of.Namespace, q.Of.Rank)
	then := func(m rankwire.Name) {
		p, ok := parseBlob([]byte(m.Port))
		if !m.Done || !ok || !has(p, q.Key) {
			s.status(w, pmix.NotFound)
			return
		}
		s.give(w, q.Of, p)
	}
	if q.Immediate {
		s.consult(w.rank, rankwire.Name{Do: rankwire.NameLookup, Service: service}, then)
	} else {
		s.await(w, service, then)
	}
	s.expire(w, q.Timeout)
}

// blob is what a rank has committed for others, as it is put and published.
func (r *rank) blob() []byte { return append([]byte{byte(r.remote.Encoding)}, r.remote.Bytes...) }

func parseBlob(b []byte) (p pmix.Pairs, ok bool) {
	if len(b) == 0 || b[0] > byte(pmix.Fixed) {
		return p, false
	}
	return pmix.Pairs{Encoding: pmix.Encoding(b[0]), Bytes: bytes.Clone(b[1:])}, true
}
