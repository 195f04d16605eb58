package pmi

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// policy defines which values each node receives when a fence completes (docs/dev/decisions/0008-lazy-values.md,
// docs/dev/decisions/0031-measured-choices.md).
type policy uint8

const (
	alone  policy = iota // no values, because the job has only one node
	eager                // all values
	lazy                 // only a list of keys; a value is requested when a rank gets it
	learns               // the values of ranks that put few bytes, and a list of all other keys
)

// What a parcel of a fence holds: its first byte.
const (
	holdsValues  = 1 // pairs
	holdsListing = 2
)

// manyAsked is how many values a node asks for before it fetches all, at least: to that, all nodes
// have to contribute.
const manyAsked = 8

// mostCarried is how many bytes of all ranks' values a fence carries in a job that chooses.
const mostCarried = 512 << 10

// kept is a value that this node has, and the fence of its put. The bytes are
// shared with frames and with the core, and never changed.
type kept struct {
	value []byte
	fence uint32
}

// written is a value that a rank of this node has put, by key.
type written struct {
	key   string
	fence uint32
}

// store is what a server knows of the key-value space.
type store struct {
	policy policy
	values map[string]kept
	dir    directory
	fence  uint32 // the newest that this node has passed

	asking    map[string][]*client // who waits for an answer, by key of the KVS
	asked     int                  // questions since the last bulk fetch
	answered  int                  // how many of them were
	bytes     int                  // in those answers
	listed    int                  // keys since then
	given     []written            // by this node's ranks, since then
	fetching  uint32               // fence of the bulk fetch that is under way; 0: none
	bulkFence uint32               // fence of the last that came
	parked    []*client            // whose gets wait for it
}

func newStore(j *job.Job) store {
	s := store{policy: lazy, values: map[string]kept{}, asking: map[string][]*client{}}
	switch {
	case j.Layout.Nodes() == 1:
		s.policy = alone
	case j.Transport.Learn:
		s.policy = learns
	case j.Transport.Eager:
		s.policy = eager
	}
	for _, p := range j.Preput { // every node has them from the start
		s.values[p.Key] = kept{value: []byte(p.Value)}
	}
	return s
}

// kvsKey is the key of the key-value store (KVS) under which a value can be asked for.
// A fence's values have keys of their own, so that no cache has an old one.
func kvsKey(fence uint32, key string) string {
	return strconv.FormatUint(uint64(fence), 10) + " " + key
}

// put keeps a value, for this node at once, for the others with the next fence.
func (h *Server) put(c *client, key, value string) {
	h.noteShared(value)
	h.values[key] = kept{[]byte(value), c.fences + 1}
	if h.policy != alone {
		c.fresh = append(c.fresh, key)
	}
	h.answer(c, Answer{})
}

// news is what a fence carries of what a rank has put since the last one.
func (h *Server) news(c *client) []byte {
	keys := c.fresh
	c.fresh = nil
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return nil
	}
	if h.policy == eager || h.policy == learns && h.few(keys) {
		parcel := frame.Encoder{holdsValues}
		for _, key := range keys {
			parcel.Text(key)
			parcel.Bytes(h.values[key].value)
		}
		return parcel
	}
	var l listing
	rank := h.job.Layout.Rank(c.slot)
	for _, key := range keys {
		l.add(c.slot, rank, key)
		h.do(ClientFrame{c.slot, rankwire.Put{Key: kvsKey(c.fences, key), Value: h.values[key].value}})
		if h.policy == learns {
			h.given = append(h.given, written{key, c.fences})
		}
	}
	return l.append([]byte{holdsListing})
}

// few reports whether a fence can carry the values of some keys, if all ranks have as many bytes.
func (h *Server) few(keys []string) bool {
	bytes := 0
	for _, key := range keys {
		bytes += len(key) + len(h.values[key].value)
	}
	return bytes*int(h.job.Size) <= h.Carries
}

// Join makes one parcel of those that hold values, and one of those that hold
// listings, without those that are none. What is neither goes on as it is.
func Join(parcels rankwire.Parcels) rankwire.Parcels {
	const rest, pairs, lists = 0, 1, 2
	parts := parcels.Split(3, func(p rankwire.Parcel) int {
		switch {
		case p.To != rankwire.Everyone || len(p.Value) == 0:
		case p.Value[0] == holdsValues:
			return pairs
		case p.Value[0] == holdsListing:
			return lists
		}
		return rest
	})
	if l := parts[pairs]; l.Len() > 1 {
		joined := append(make([]byte, 0, l.Size()), holdsValues)
		for p := range l.All() {
			joined = append(joined, p.Value[1:]...)
		}
		parts[pairs] = oneParcel(l, joined)
	}
	if l := parts[lists]; l.Len() > 1 {
		var all listing
		for p := range l.All() {
			if part, ok := parseListing(p.Value[1:]); ok {
				all.join(part)
			}
		}
		parts[lists] = oneParcel(l, all.append([]byte{holdsListing}))
	}
	return parts[rest].Join(parts[pairs]).Join(parts[lists])
}

// oneParcel returns one parcel for all ranks with the given value. Its sender is the lowest rank that sent one of the
// parcels.
func oneParcel(parcels rankwire.Parcels, value []byte) rankwire.Parcels {
	first := rankwire.Everyone
	for p := range parcels.All() {
		first = min(first, p.From)
	}
	return rankwire.NewParcels(rankwire.Parcel{From: first, To: rankwire.Everyone, Value: value})
}

// passed takes in what a fence brought.
func (h *Server) passed(fence uint32, parcels rankwire.Parcels) {
	h.fence = fence
	for p := range parcels.All() {
		if len(p.Value) == 0 {
			continue
		}
		switch p.Value[0] {
		case holdsValues:
			h.take(p.Value[1:], fence)
		case holdsListing:
			if l, ok := parseListing(p.Value[1:]); ok {
				h.dir.add(l, fence)
				h.listed += l.keys()
			}
		}
	}
}

// take keeps pairs, unless there is a newer value.
func (h *Server) take(pairs []byte, fence uint32) {
	for r := frame.NewDecoder(pairs, math.MaxInt); len(r.Rest()) > 0; {
		if key, value := r.Text(), r.Bytes(); r.Err() == nil {
			h.keep(key, kept{value, fence})
		}
	}
}

func (h *Server) keep(key string, v kept) {
	if old, ok := h.values[key]; !ok || old.fence <= v.fence {
		h.values[key] = v
	}
}

// get answers from what the node has if that is the newest, and asks otherwise.
func (h *Server) get(c *client, key string) {
	v, here := h.values[key]
	at, listed := h.dir.find(key, h.slotOf)
	switch {
	case here && (!listed || v.fence >= at.fence):
		h.answer(c, Answer{Found: true, Value: string(v.value)})
	case !listed:
		h.answer(c, Answer{})
	default:
		h.fetch(c, key, at)
	}
}

func (h *Server) slotOf(rank job.Rank) (slot job.Slot, ok bool) {
	if uint32(rank) >= h.job.Layout.Ranks() {
		return 0, false
	}
	return h.job.Layout.Slot(rank), true
}

// fetch asks the tree for a value, once for all clients that want it, or waits
// for the bulk fetch.
func (h *Server) fetch(c *client, key string, at place) {
	c.wants = key
	if h.policy == learns && h.fetching == 0 && h.enough() && h.bulkFence < h.fence {
		h.fetching = h.fence
		h.do(BulkFetch{h.fence})
	}
	if h.fetching > 0 {
		h.parked = append(h.parked, c)
		return
	}
	name := kvsKey(at.fence, key)
	h.asking[name] = append(h.asking[name], c)
	if len(h.asking[name]) == 1 {
		h.asked++
		h.do(ClientFrame{c.slot, rankwire.Ask{Rank: at.slot, Key: name}})
	}
}

// enough reports whether what this node has asked for has cost what all listed values would, if the
// others are as long as those that came.
func (h *Server) enough() bool {
	return h.asked >= manyAsked && h.answered > 0 && job.Enough(h.asked, h.bytes/h.answered*h.listed)
}

// fetched takes the answer. A rank that is gone took its values with it.
func (h *Server) fetched(m rankwire.Answer) {
	waiting := h.asking[m.Key]
	delete(h.asking, m.Key)
	if len(waiting) == 0 {
		return
	}
	found := m.What == rankwire.Found
	if found {
		digits, _, _ := strings.Cut(m.Key, " ")
		fence, _ := strconv.ParseUint(digits, 10, 32) // cannot fail: kvsKey formatted the number
		h.keep(waiting[0].wants, kept{m.Value, uint32(fence)})
		h.answered++
		h.bytes += len(m.Key) + len(m.Value)
	}
	for _, c := range waiting {
		h.answer(c, Answer{Found: found, Value: string(m.Value)})
	}
}

// Give returns what this node's ranks have put up to a fence, since the last
// time: for each value its fence and the pair.
func (h *Server) Give(fence uint32) []byte {
	var value frame.Encoder
	rest := h.given[:0]
	for _, w := range h.given {
		if w.fence > fence {
			rest = append(rest, w)
		} else if v := h.values[w.key]; v.fence == w.fence { // otherwise it was put again
			value.U32(w.fence)
			value.Text(w.key)
			value.Bytes(v.value)
		}
	}
	h.given = rest
	return value
}

// BulkFetched takes what all nodes gave, and answers the gets that wait for it.
func (h *Server) BulkFetched(fence uint32, values frame.Values) []Effect {
	for v := range values.All() {
		for r := frame.NewDecoder(v, math.MaxInt); len(r.Rest()) > 0; {
			of, pair := r.U32(), r.Rest()
			r.Bytes()
			r.Bytes()
			h.take(pair[:len(pair)-len(r.Rest())], of)
		}
	}
	h.bulkFence, h.fetching, h.asked, h.listed, h.answered, h.bytes = fence, 0, 0, 0, 0, 0
	parked := h.parked
	h.parked = nil
	for _, c := range parked {
		if c.over {
			continue // the core does not ask for the dead
		}
		h.get(c, c.wants) // what nobody gave is asked for
	}
	return h.done()
}
