// Package names is MPI's name service at the root of a job: the ports of services that ranks have
// published. Jobs that were spawned share the names of the oldest one, so the root of a spawned job
// asks its parent. How questions and answers travel is not decided here.
package names

import "ibrun/bootstrap/rankwire"

// Do is what an effect asks for.
type Do uint8

const (
	Answer Do = iota // answer a question of Job
	Ask              // ask the parent; Answered brings what it answers, in the order of questions
)

// Effect is something that the core must do.
type Effect struct {
	Do   Do
	Job  uint32 // a spawned job; 0: this one
	Name rankwire.Name
}

// Service is the name service of one root.
type Service struct {
	spawned bool // by a rank of another job, whose root has the names
	ports   map[string]string
	asked   []uint32 // jobs whose questions are with the parent, in order
	out     []Effect
}

// New makes the name service of a root; spawned: the job has a parent.
func New(spawned bool) Service { return Service{spawned: spawned} }

func (s *Service) do(e Effect) { s.out = append(s.out, e) }

// done returns what was done since the last event.
func (s *Service) done() []Effect {
	out := s.out
	s.out = s.out[:0]
	return out
}

// Question takes what a job wants: a spawned one, or this one (0).
func (s *Service) Question(job uint32, m rankwire.Name) []Effect {
	if s.spawned {
		s.asked = append(s.asked, job)
		s.do(Effect{Do: Ask, Name: m})
		return s.done()
	}
	s.serve(job, m)
	return s.done()
}

// Answered takes the parent's answer to the oldest question.
func (s *Service) Answered(m rankwire.Name) []Effect {
	if len(s.asked) == 0 {
		return nil
	}
	s.do(Effect{Do: Answer, Job: s.asked[0], Name: m})
	s.asked = s.asked[1:]
	return s.done()
}

// serve does what is wanted of the table, and answers.
func (s *Service) serve(job uint32, m rankwire.Name) {
	port, known := s.ports[m.Service]
	switch m.Do {
	case rankwire.NamePublish:
		if s.ports == nil {
			s.ports = map[string]string{}
		}
		if known = !known; known {
			s.ports[m.Service] = m.Port
		}
	case rankwire.NameUnpublish:
		delete(s.ports, m.Service)
	case rankwire.NameLookup:
		m.Port = port
	}
	m.Done = known
	s.do(Effect{Do: Answer, Job: job, Name: m})
}
