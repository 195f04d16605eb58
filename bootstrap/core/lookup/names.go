package lookup

import (
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// NameDo is the action that a NameEffect asks for.
type NameDo uint8

const (
	AnswerName NameDo = iota // send Name, an answer, to the rank Name.Rank of Job
	AskName                  // send Name to the parent job, and pass the answer with the same ID to Answered
)

// NameEffect is an action that Names asks the core to perform.
type NameEffect struct {
	Do   NameDo
	Job  uint32 // number of a spawned job; 0: this job
	Name rankwire.Name
}

// Names is the name service at the root of one job.
type Names struct {
	spawned bool // by a rank of another job, whose root has the names
	ports   map[string]port
	bytes   int                       // total length of services and ports in ports
	waiting map[string][]nameQuestion // lookups of services that are not published yet, by service
	asked   map[uint32]origin         // questions sent to the parent job and not answered yet, by ID
	serial  uint32                    // ID of the last question sent to the parent job
	out     []NameEffect
}

// port is what a service is published with.
type port struct {
	text string
	once bool // the first lookup takes it away
}

// nameQuestion is a lookup that waits until its service is published.
type nameQuestion struct {
	job  uint32
	name rankwire.Name
}

// origin is whose question is with the parent.
type origin struct {
	job  uint32
	rank job.Slot
	id   uint32
}

// Bounds of the table.
const (
	maxBytes   = 64 << 20 // of services and ports
	maxLookups = 1 << 16  // that wait for one service
)

// NewNames returns the name service of a root. If spawned is true, it passes all questions to the parent job.
func NewNames(spawned bool) Names { return Names{spawned: spawned} }

func (s *Names) do(e NameEffect) { s.out = append(s.out, e) }

// done returns what was done since the last event.
func (s *Names) done() []NameEffect {
	out := s.out
	s.out = s.out[:0]
	return out
}

// Question takes what a job wants: a spawned one, or this one (0).
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

// Answered takes the parent's answer to one of the questions that it was asked.
func (s *Names) Answered(m rankwire.Name) []NameEffect {
	if of, known := s.asked[m.ID]; known {
		delete(s.asked, m.ID)
		m.Rank, m.ID = of.rank, of.id
		s.answer(of.job, m)
	}
	return s.done()
}

// JobEnded drops the lookups of a spawned job that wait.
func (s *Names) JobEnded(ended uint32) {
	for service, waiting := range s.waiting {
		left := slices.DeleteFunc(waiting, func(q nameQuestion) bool { return q.job == ended })
		if s.waiting[service] = left; len(left) == 0 {
			delete(s.waiting, service)
		}
	}
}

func (s *Names) answer(to uint32, m rankwire.Name) {
	s.do(NameEffect{Do: AnswerName, Job: to, Name: m})
}

// serve does what is wanted of the table, and answers all whom that concerns.
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

func (s *Names) publish(m rankwire.Name) {
	if s.ports == nil {
		s.ports = map[string]port{}
	}
	s.ports[m.Service] = port{m.Port, m.Once}
	s.bytes += len(m.Service) + len(m.Port)
}

func (s *Names) remove(service string) {
	if p, known := s.ports[service]; known {
		s.bytes -= len(service) + len(p.text)
		delete(s.ports, service)
	}
}

// serveWaiting answers lookups that have waited for a service, as long as it has a port.
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
