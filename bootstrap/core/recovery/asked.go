package recovery

import (
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Asked are the questions of ranks to the root that change something there: of MPI's name service,
// and for further programs. They are asked and answered once, so both are kept: an agent that is
// asked again knows what became of the question.
type Asked struct {
	open     []asked
	answered []asked
}

// asked is a question, and then its answer.
type asked struct {
	key
	question, answer frame.Message
}

// key is the name of a question. A rank has one SpawnJob at a time.
type key struct {
	rank  job.Slot
	spawn bool
	id    uint32
}

// mostAnswered is how many answers are kept.
const mostAnswered = 1024

func keyOf(m frame.Message) key {
	switch m := m.(type) {
	case rankwire.Name:
		return key{rank: m.Rank, id: m.ID}
	case rankwire.SpawnJob:
		return key{rank: m.Rank, spawn: true}
	case rankwire.JobSpawned:
		return key{rank: m.Rank, spawn: true}
	}
	return key{}
}

func (a *Asked) find(list []asked, k key) int {
	return slices.IndexFunc(list, func(q asked) bool { return q.key == k })
}

// Ask takes a question. Known: it came again, and is on its way, or answer is its answer.
func (a *Asked) Ask(m frame.Message, again bool) (answer frame.Message, known bool) {
	k := keyOf(m)
	if again {
		if a.find(a.open, k) >= 0 {
			return nil, true
		}
		if i := a.find(a.answered, k); i >= 0 {
			return a.answered[i].answer, true
		}
	}
	a.open = append(a.open, asked{key: k, question: m})
	return nil, false
}

// Answer takes an answer. False: nobody waits for it any more.
func (a *Asked) Answer(m frame.Message) bool {
	k := keyOf(m)
	i := a.find(a.open, k)
	if i < 0 {
		return false
	}
	a.open = slices.Delete(a.open, i, i+1)
	a.answered = slices.DeleteFunc(a.answered, func(q asked) bool { return q.key == k })
	if len(a.answered) == mostAnswered {
		a.answered = slices.Delete(a.answered, 0, 1)
	}
	a.answered = append(a.answered, asked{key: k, answer: m})
	return true
}

// Open are the questions without an answer, in their order.
func (a *Asked) Open() (list []frame.Message) {
	for _, q := range a.open {
		list = append(list, q.question)
	}
	return list
}
