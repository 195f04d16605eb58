package recovery

import (
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Asked retains the questions of ranks that change something at the root, and their answers. These are the questions to
// MPI's name service (rankwire.Name) and the orders to spawn programs (rankwire.SpawnJob). The root must handle each of
// them once. So if a child sends a question again after the repair of a link, its parent forwards it only if it does
// not know it. The zero value is empty.
type Asked struct {
	open     []asked // questions without an answer, oldest first
	answered []asked // answers, oldest first; at most mostAnswered
}

// asked is a question without an answer, or an answer without its question.
type asked struct {
	key
	question, answer frame.Message
}

// key identifies a question and its answer. A rank has at most one SpawnJob without an answer, so id is 0 for it.
type key struct {
	rank  job.Slot
	spawn bool
	id    uint32
}

// mostAnswered is the maximum number of answers that Asked retains.
const mostAnswered = 1024

// keyOf returns the key of a question or answer.
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

// Ask records the question m. The caller forwards m to the root if known is false. If again is true, a child may have
// sent m before. If Asked retains m or its answer, Ask then returns true, and the answer or nil.
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

// Answer records the answer m and removes its question. It returns false if there is no such question without an
// answer.
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

// Open returns the questions without an answer, oldest first.
func (a *Asked) Open() (list []frame.Message) {
	for _, q := range a.open {
		list = append(list, q.question)
	}
	return list
}
