package lookup

import (
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// NameDo is the action that a NameEffect asks for.
type NameDo uint8

const (
	AnswerName NameDo = iota // send the answer Name to the rank Name.Rank of Job
	AskName                  // send Name to the parent job, and pass the answer with the same ID to Answered
)

// NameEffect is an action that Names asks the core to perform.
type NameEffect struct {
	Do   NameDo
	Job  uint32 // number of a spawned job; 0 means this job
	Name rankwire.Name
}

// Names is MPI's name service at the root of a job. Ranks publish the port of a service, and look it up by the name of
// the service. If the job was spawned by another one, Names passes all questions to the root of that parent job.
type Names struct {
	spawned bool                      // the job was spawned by a rank of another job
	ports   map[string]port           // published ports, by service
	bytes   int                       // total length of services and ports in ports
	waiting map[string][]nameQuestion // lookups of services that are not published yet, by service
	asked   map[uint32]origin         // questions sent to the parent job and not answered yet, by ID
	serial  uint32                    // ID of the last question sent to the parent job
	out     []NameEffect              // effects of the current event
}

// port is a published port of a service.
type port struct {
	text string
	once bool // the first lookup removes it
}

// nameQuestion is a lookup that waits until its service is published.
type nameQuestion struct {
	job  uint32 // number of the asking job, as in NameEffect
	name rankwire.Name
}

// origin identifies a question that was passed to the parent job: the job and rank that asked it, and its original ID.
type origin struct {
	job  uint32 // as in NameEffect
	rank job.Slot
	id   uint32
}

// Limits of the memory of Names.
const (
	maxBytes   = 64 << 20 // maximum total length of published services and ports, in bytes
	maxLookups = 1 << 16  // maximum number of lookups that wait for one service
)

// NewNames returns an empty name service. If spawned is true, it passes all questions to the parent job.
func NewNames(spawned bool) Names { return Names{spawned: spawned} }

func (s *Names) do(e NameEffect) { s.out = append(s.out, e) }

// done returns the effects of the current event.
func (s *Names) done() []NameEffect {
	out := s.out
	s.out = s.out[:0]
	return out
}

// Question handles the question m of a rank. from is the number of its job, which is a spawned job or 0 for this job.
func (s *Names) Question(from uint32, m rankwire.Name) []NameEffect {
	if s.spawned {
		if s.asked == nil {
			s.asked = map[uint32]origin{}
		}
		s.serial++
		s.asked[s.serial] = origin{from, m.Rank, m.ID}
		m.ID = s.serial
		s.do(NameEffect{Do: AskName, Name: m})
		return s.done()
	}
	s.serve(from, m)
	return s.done()
}

// Answered handles the answer m of the parent job, and sends it to the rank that has asked the question.
func (s *Names) Answered(m rankwire.Name) []NameEffect {
	if of, known := s.asked[m.ID]; known {
		delete(s.asked, m.ID)
		m.Rank, m.ID = of.rank, of.id
		s.answer(of.job, m)
	}
	return s.done()
}

// JobEnded drops the waiting lookups of a spawned job that has ended. Its published ports remain.
func (s *Names) JobEnded(ended uint32) {
	for service, waiting := range s.waiting {
		left := slices.DeleteFunc(waiting, func(q nameQuestion) bool { return q.job == ended })
		if s.waiting[service] = left; len(left) == 0 {
			delete(s.waiting, service)
		}
	}
}

// answer sends the answer m to the rank m.Rank of a job.
func (s *Names) answer(to uint32, m rankwire.Name) {
	s.do(NameEffect{Do: AnswerName, Job: to, Name: m})
}

// serve answers the question m of a job. If m publishes a service, serve also answers the lookups that wait for it. A
// lookup with Wait of a service that is not published is answered later, unless too many wait already.
func (s *Names) serve(from uint32, m rankwire.Name) {
	p, known := s.ports[m.Service]
	switch m.Do {
	case rankwire.NamePublish:
		m.Done = !known && s.bytes+len(m.Service)+len(m.Port) <= maxBytes
		s.answer(from, m)
		if m.Done {
			s.publish(m)
			s.serveWaiting(m.Service)
		}
		return
	case rankwire.NameUnpublish:
		s.remove(m.Service)
	case rankwire.NameLookup:
		if !known && m.Wait && len(s.waiting[m.Service]) < maxLookups {
			if s.waiting == nil {
				s.waiting = map[string][]nameQuestion{}
			}
			s.waiting[m.Service] = append(s.waiting[m.Service], nameQuestion{from, m})
			return
		}
		if m.Port = p.text; p.once {
			s.remove(m.Service)
		}
	}
	m.Done = known
	s.answer(from, m)
}

// publish adds a service that is not published yet.
func (s *Names) publish(m rankwire.Name) {
	if s.ports == nil {
		s.ports = map[string]port{}
	}
	s.ports[m.Service] = port{m.Port, m.Once}
	s.bytes += len(m.Service) + len(m.Port)
}

// remove unpublishes a service. If the service is not published, it does nothing.
func (s *Names) remove(service string) {
	if p, known := s.ports[service]; known {
		s.bytes -= len(service) + len(p.text)
		delete(s.ports, service)
	}
}

// serveWaiting answers the lookups that wait for a service, oldest first. It stops when a lookup has removed the port.
func (s *Names) serveWaiting(service string) {
	waiting := s.waiting[service]
	delete(s.waiting, service)
	for i, q := range waiting {
		if _, known := s.ports[service]; !known {
			s.waiting[service] = waiting[i:]
			return
		}
		s.serve(q.job, q.name)
	}
}
