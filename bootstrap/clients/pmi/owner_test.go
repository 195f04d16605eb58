package pmi

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// owner is a job in one process: it does what engines ask.
type owner struct {
	t       testing.TB
	engines []*Engine
	ids     map[*Engine]int
	out     [][]byte
	asked   [][]Request
	errs    []error

	kvs, names, attrs map[string]string
	staged            map[string]string
	fenced            []int
	rings             map[int]Ring
}

func newOwner(t testing.TB, ranks int, config func(rank int) Config) *owner {
	o := &owner{t: t, ids: map[*Engine]int{}, out: make([][]byte, ranks), asked: make([][]Request, ranks),
		errs: make([]error, ranks),
		kvs:  map[string]string{}, names: map[string]string{}, attrs: map[string]string{}, staged: map[string]string{},
		rings: map[int]Ring{}}
	for rank := range ranks {
		e := NewEngine(config(rank))
		o.engines = append(o.engines, e)
		o.ids[e] = rank
	}
	return o
}

// feed gives one client's bytes to its engine, in pieces of some size (0: all at once).
func (o *owner) feed(rank int, b string, piece int) {
	if piece == 0 {
		piece = max(len(b), 1)
	}
	for ; b != ""; b = b[min(piece, len(b)):] {
		o.steps(rank, o.engines[rank].Feed([]byte(b[:min(piece, len(b))])))
	}
}

func (o *owner) steps(rank int, steps []Step) {
	for _, s := range steps {
		set := 0
		if s.Bytes != nil {
			set++
			o.out[rank] = append(o.out[rank], s.Bytes...)
		}
		if s.Err != nil {
			set++
			require.NoError(o.t, o.errs[rank], "two errors")
			o.errs[rank] = s.Err
		}
		if s.Request != nil {
			set++
			o.asked[rank] = append(o.asked[rank], s.Request)
			o.serve(rank, s.Request)
		}
		require.Equal(o.t, 1, set, "%+v", s)
	}
}

func (o *owner) answer(rank int, a Answer) { o.steps(rank, o.engines[rank].Answer(a)) }

func (o *owner) serve(rank int, r Request) {
	found := func(m map[string]string, key string) Answer {
		v, ok := m[key]
		return Answer{Found: ok, Value: v}
	}
	switch r := r.(type) {
	case Identify:
		o.answer(rank, Answer{Rank: r.ID})
	case Put:
		o.staged[r.Key] = r.Value
		o.answer(rank, Answer{})
	case Get:
		o.answer(rank, found(o.kvs, r.Key))
	case Fence:
		if o.fenced = append(o.fenced, rank); len(o.fenced) < len(o.engines) {
			return
		}
		waiting := o.fenced
		o.fenced = nil
		maps.Copy(o.kvs, o.staged)
		for _, rank := range waiting {
			o.answer(rank, Answer{})
		}
	case Publish:
		o.names[r.Service] = r.Port
		o.answer(rank, Answer{})
	case Lookup:
		o.answer(rank, found(o.names, r.Service))
	case Unpublish:
		a := found(o.names, r.Service)
		delete(o.names, r.Service)
		o.answer(rank, a)
	case NodePut:
		o.attrs[r.Key] = r.Value
		o.answer(rank, Answer{})
	case NodeGet:
		o.answer(rank, found(o.attrs, r.Key))
	case Ring:
		if o.rings[rank] = r; len(o.rings) == len(o.engines) {
			o.turn()
		}
	case Spawn:
		o.answer(rank, Answer{Refused: "spawn is not supported"})
	case Finalize, Abort:
	default:
		o.t.Fatalf("request %T", r)
	}
}

func (o *owner) turn() {
	n, sum := len(o.engines), 0
	for rank := range n {
		o.answer(rank, Answer{Count: sum, Left: o.rings[(rank+n-1)%n].Right, Right: o.rings[(rank+1)%n].Left})
		sum += o.rings[rank].Count
	}
	o.rings = map[int]Ring{}
}

// frameOf returns a PMI-2 message: the length of text in six columns, then text.
func frameOf(text string) string { return fmt.Sprintf("%6d%s", len(text), text) }

// frames takes PMI-2 messages apart.
func frames(t testing.TB, b string) (all []string) {
	for b != "" {
		var n int
		_, err := fmt.Sscanf(b[:lengthSize], "%d", &n)
		require.NoError(t, err)
		all = append(all, b[lengthSize:lengthSize+n])
		b = b[lengthSize+n:]
	}
	return all
}

func usual(rank, size int) Config {
	return Config{Rank: rank, Size: size, KVS: "kvs_ibrun_0", JobID: "ibrun.0",
		Mapping: fmt.Sprintf("(vector,(0,1,%d))", size)}
}

// one is a client alone, after its init.
func one(t testing.TB, version int) *owner {
	o := newOwner(t, 1, func(rank int) Config { return usual(rank, 1) })
	if version == 2 {
		o.feed(0, "cmd=init pmi_version=2 pmi_subversion=0\n"+frameOf("cmd=fullinit;pmirank=0;threaded=FALSE;"), 0)
	} else {
		o.feed(0, "cmd=init pmi_version=1 pmi_subversion=1\n", 0)
	}
	require.NoError(t, o.errs[0])
	o.out[0] = nil
	return o
}

// say sends a command and returns the reply, without length or line end.
func (o *owner) say(text string) string {
	o.out[0] = nil
	if o.engines[0].Version() == 2 {
		o.feed(0, frameOf(text), 0)
		return strings.Join(frames(o.t, string(o.out[0])), "|")
	}
	o.feed(0, text+"\n", 0)
	return strings.TrimSuffix(string(o.out[0]), "\n")
}
