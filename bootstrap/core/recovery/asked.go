package recovery

import (
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Asked retains the requests of ranks that the root must handle only once, and the root's answers. These are the
// requests to MPI's name service (rankwire.Name) and the orders to spawn programs (rankwire.SpawnJob). Both are called
// questions here. A child may send a question again after its link was replaced. The agent then looks for it in its
// Asked, and does not forward it a second time. The zero value is empty.
type Asked struct {
	open     []asked // unanswered questions, oldest first
	answered []asked // answers, oldest first; at most mostAnswered
}

// asked is an entry of Asked: either a question that was not answered yet, or an answer. The other field is nil.
type asked struct {
	key
	question, answer frame.Message
}

// key identifies a question and its answer.
type key struct {
	rank  job.Slot // rank that asks
	spawn bool     // the question is a SpawnJob; a rank has at most one without an answer
	id    uint32   // ID of a Name, chosen by the rank; 0 for a SpawnJob
}

// mostAnswered is the maximum number of answers that Asked retains.
const mostAnswered = 1024

// keyOf returns the key of the question or answer m.
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

// find returns the index of the entry of list with the key k, or -1.
func (a *Asked) find(list []asked, k key) int {
	return slices.IndexFunc(list, func(q asked) bool { return q.key == k })
}

// Ask records the question m and returns false, so that the caller forwards m to the root. again says that m may be a
// repetition. If again is set and m was recorded before, Ask returns true, and the answer to m or nil if it has not
// arrived yet.
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

// Answer records the answer m and removes its question. It returns false if no unanswered question has the key of m.
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

// Open returns the unanswered questions, oldest first.
func (a *Asked) Open() (list []frame.Message) {
	for _, q := range a.open {
		list = append(list, q.question)
	}
	return list
}
