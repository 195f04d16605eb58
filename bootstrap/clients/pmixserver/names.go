package pmixserver

import (
	"encoding/binary"
	"slices"
	"strings"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// names are questions to the table of names, which all related jobs share: its oldest root's.
type names struct {
	serial  uint32 // of the last question
	open    map[uint32]openQuestion
	awaited map[awaited][]asking // look-ups that wait
}

// openQuestion is one that the table has been asked.
type openQuestion struct {
	by   *rank
	then func(rankwire.Name)
}

// awaited is a service that a rank of this node waits for. Its look-ups wait for one question:
// those whose time is up leave none behind each.
type awaited struct {
	slot    job.Slot
	service string
}

// maxKeys is how many keys one request may publish or look up.
const maxKeys = 256

// consult asks the table as a rank.
func (s *Server) consult(r *rank, m rankwire.Name, then func(rankwire.Name)) {
	if rankwire.Vocabulary.Check(m, 0) != nil || r.over {
		then(rankwire.Name{})
		return
	}
	s.serial++
	m.ID = s.serial
	s.names.open[m.ID] = openQuestion{r, then}
	r.waiting++
	s.send(r, m)
}

// await looks up a service that may come later. The first that still waits gets it, and the others
// ask again: it may have been there once only.
func (s *Server) await(w waiter, service string, then func(rankwire.Name)) {
	of := awaited{w.rank.slot, service}
	waiting, asked := s.awaited[of]
	s.awaited[of] = append(waiting, asking{waiter: w, by: w.rank, name: then})
	w.rank.waiting++
	if asked {
		return
	}
	s.consult(w.rank, rankwire.Name{Do: rankwire.NameLookup, Service: service, Wait: true}, func(m rankwire.Name) {
		waiting := s.awaited[of]
		delete(s.awaited, of)
		given := false
		for _, a := range waiting {
			a.by.waiting--
			switch {
			case !a.waits():
			case given:
				s.await(a.waiter, service, a.name)
			default:
				given = true
				a.name(m)
			}
		}
	})
}

// named takes an answer.
func (s *Server) named(m rankwire.Name) {
	if q, ok := s.names.open[m.ID]; ok {
		delete(s.names.open, m.ID)
		q.by.waiting--
		q.then(m)
	}
}

// service is the name of a key in the table: PMI's names are others. What is for this job only has
// its namespace.
func (s *Server) service(key string, r pmix.Range) string {
	if r == pmix.RangeLocal || r == pmix.RangeNamespace || r == pmix.RangeProcLocal {
		return "x " + s.namespace + " " + key
	}
	return "x  " + key
}

// publish puts values into the table.
func (s *Server) publish(w waiter, q pmix.Publish) {
	var all []rankwire.Name
	for a := range q.Published() {
		m := rankwire.Name{
			Do: rankwire.NamePublish, Service: s.service(a.Key, q.Range), Port: s.port(w.rank, a.Value),
			Once: q.Persistence == pmix.PersistFirstRead,
		}
		if rankwire.Vocabulary.Check(m, 0) != nil || len(all) == maxKeys {
			s.status(w, pmix.OutOfResource)
			return
		}
		all = append(all, m)
	}
	s.change(w, all, pmix.Exists, func(service string) { w.rank.published = append(w.rank.published, service) })
}

// unpublish takes back what a rank has published, or all of it.
func (s *Server) unpublish(w waiter, q pmix.Unpublish) {
	var all []rankwire.Name
	for key := range q.Keys.All() {
		all = append(all, rankwire.Name{Do: rankwire.NameUnpublish, Service: s.service(string(key), q.Range)})
	}
	missing := pmix.NotFound
	if q.Keys.Len() == 0 {
		missing = pmix.Done // what was to be read once may be gone
		for _, service := range w.rank.published {
			all = append(all, rankwire.Name{Do: rankwire.NameUnpublish, Service: service})
		}
	}
	if len(all) > maxKeys {
		s.status(w, pmix.OutOfResource)
		return
	}
	s.change(w, all, missing, func(service string) {
		w.rank.published = slices.DeleteFunc(w.rank.published, func(other string) bool { return other == service })
	})
}

// change asks for changes of the table, and answers when all are made. fails is the answer if one
// was not.
func (s *Server) change(w waiter, all []rankwire.Name, fails pmix.Status, done func(service string)) {
	left, result := len(all), pmix.Done
	if left == 0 {
		s.status(w, result)
		return
	}
	for _, m := range all {
		s.consult(w.rank, m, func(m rankwire.Name) {
			if m.Done {
				done(m.Service)
			} else {
				result = fails
			}
			if left--; left == 0 {
				s.status(w, result)
			}
		})
	}
}

// lookUp finds published values.
func (s *Server) lookUp(w waiter, q pmix.Lookup) {
	keys := slices.Collect(q.Keys.All())
	if len(keys) == 0 || len(keys) > maxKeys {
		s.status(w, pmix.BadParameter)
		return
	}
	found := make([]pmix.Found, len(keys))
	left := len(keys)
	for i, key := range keys {
		m := rankwire.Name{Do: rankwire.NameLookup, Service: s.service(string(key), q.Range), Wait: q.Wait}
		if rankwire.Vocabulary.Check(m, 0) != nil {
			s.status(w, pmix.BadParameter)
			return
		}
		then := func(m rankwire.Name) {
			if m.Done {
				found[i], _ = parsePort(m.Port)
				found[i].Key = string(key)
			}
			if left--; left == 0 {
				s.lookedUp(w, found)
			}
		}
		if q.Wait {
			s.await(w, m.Service, then)
		} else {
			s.consult(w.rank, m, then)
		}
	}
	s.expire(w, q.Timeout)
}

func (s *Server) lookedUp(w waiter, found []pmix.Found) {
	found = slices.DeleteFunc(found, func(f pmix.Found) bool { return f.Of.Namespace == "" })
	if len(found) == 0 {
		s.status(w, pmix.NotFound)
		return
	}
	s.answer(w, pmix.Answer{Body: pmix.Results{Found: found}})
}

// port is a value in the table: the publisher's namespace and a NUL byte, its rank, the value.
func (s *Server) port(r *rank, v pmix.Value) string {
	b := append([]byte(s.namespace), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(r.number))
	return string(v.Append(b))
}

// parsePort reads what port writes; ok is false if somebody else has written it.
func parsePort(port string) (f pmix.Found, ok bool) {
	namespace, rest, ok := strings.Cut(port, "\x00")
	if !ok || len(rest) < 4 {
		return f, false
	}
	v, err := pmix.ParseValue([]byte(rest[4:]))
	if err != nil {
		return f, false
	}
	rank := pmix.Rank(binary.BigEndian.Uint32([]byte(rest)))
	return pmix.Found{Of: pmix.Proc{Namespace: namespace, Rank: rank}, Value: v}, true
}
