package pmix

import (
	"fmt"
	"slices"
)

// Answer is the owner's word on a Request. Only an answer that is Done has a Body; each Request
// says which.
type Answer struct {
	Status Status
	Body   Body
}

// Body is what an answer holds: *Job, Values, Results, Jobs, Attributes or Group.
type Body interface {
	// write appends the reply behind its status.
	write(w *writer, e *Engine) error
}

// Values is the answer to a Get. Pairs contains keys and values of the process Of.
type Values struct {
	Of    Proc
	Pairs Pairs
}

// Results are published values that were found.
type Results struct{ Found []Found }

// Jobs are those of other namespaces.
type Jobs struct{ Jobs []*Job }

// Attributes answer a Query, a key of each question in the client's order, or a Cleanup.
type Attributes struct{ Attrs List[Attr] }

// Group is a group of processes that is there. Context is a number that no other group has; it is
// sent if HasContext.
type Group struct {
	Members    List[Proc]
	Context    uint64
	HasContext bool
	Attrs      List[Attr] // of the members: what each had for the others
}

func (j *Job) write(w *writer, _ *Engine) error {
	w.count(1)
	w.text(j.Namespace)
	w.b = append(w.b, j.packed(w.enc)...)
	return nil
}

func (v Values) write(w *writer, _ *Engine) error {
	p, err := v.Pairs.Convert(w.enc)
	if err != nil {
		return fmt.Errorf("values of rank %d in another encoding: %w", v.Of.Rank, err)
	}
	object := writer{enc: w.enc}
	object.count(1)
	v.Of.write(&object)
	w.count(1)
	w.bytes(append(object.b, p.Bytes...))
	return nil
}

func (f Results) write(w *writer, _ *Engine) error {
	writeTop(w, ListOf(f.Found...))
	return nil
}

func (j Jobs) write(w *writer, e *Engine) error {
	for _, job := range j.Jobs {
		object := writer{enc: w.enc}
		if err := job.write(&object, e); err != nil {
			return err
		}
		w.count(1)
		w.bytes(object.b)
	}
	return nil
}

func (a Attributes) write(w *writer, _ *Engine) error {
	writeTop(w, a.Attrs)
	return nil
}

// write has three forms: clients before 5, before 6, and later ones expect different fields.
func (g Group) write(w *writer, e *Engine) error {
	major := e.major()
	if major >= 5 {
		writeTop(w, g.Members)
	}
	if major >= 6 {
		w.count(1)
		w.bool(g.HasContext)
	}
	if g.HasContext || major < 5 {
		w.count(1)
		w.size(g.Context)
	}
	if major >= 6 {
		writeTop(w, g.Attrs)
	}
	return nil
}

// writeTop writes the number of items, and if it is not 0 a count and the items.
func writeTop[T item[T]](w *writer, l List[T]) {
	w.count(1)
	w.size(uint64(l.n))
	if l.n > 0 {
		w.count(l.n)
		writeItems(w, l)
	}
}

// reply makes the reply to a command, or returns why the body cannot be sent.
func (e *Engine) reply(c *row, a Answer) ([]byte, error) {
	w := writer{enc: e.enc}
	if !c.bare {
		w.count(1)
		w.status(a.Status)
	}
	if a.Body == nil {
		a.Body = c.empty
	}
	if a.Status == Done && a.Body != nil {
		if err := a.Body.write(&w, e); err != nil {
			return nil, err
		}
	}
	return w.b, nil
}

// wants reports whether the client has registered the code of an event.
func (e *Engine) wants(code Status) bool { return e.allCodes || slices.Contains(e.codes, code) }

// Event is something that happened to a process, or what a process has said by Notify.
type Event struct {
	Code   Status
	Source Proc
	Range  Range
	Attrs  List[Attr]
}

// Registered reports whether the client has named a code among those that it handles.
func (e *Engine) Registered(code Status) bool { return slices.Contains(e.codes, code) }

// Notify returns the message by which the client learns of an event; nil if it has not registered
// the code.
func (e *Engine) Notify(ev Event) []byte {
	if e.state != open || !e.wants(ev.Code) {
		return nil
	}
	w := writer{enc: e.enc}
	w.count(1)
	w.octet(byte(cmdNotify))
	w.count(1)
	w.status(ev.Code)
	w.count(1)
	ev.Source.write(&w)
	writeTop(&w, ev.Attrs)
	if e.major() >= 4 {
		w.count(1)
		w.octet(byte(ev.Range))
	}
	return e.framed(tagEvent, w.b)
}
