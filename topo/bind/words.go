package bind

import (
	"errors"
	"fmt"
	"slices"

	"ibrun/internal/cpuset"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// errFull says that there are more ranks than room for them, of which nobody
// demanded a size.
var errFull = errors.New("more ranks than room")

// wide reports whether an object is one that ranks may share without harm.
func wide(o job.Object) bool { return o >= job.L3 }

// bind gives each rank its CPUs. It returns errFull if there is no room, and
// another error for a demand that cannot be met.
func (t *tree) bind(want job.Binding, ranks, omp int) ([]cpuset.Set, error) {
	for _, o := range []job.Object{want.Map, want.Rank, want.Bind} {
		if o == job.L3 && !t.caches {
			return nil, errors.New("l3cache: this node has no cache that several cores share: write numa or package")
		}
	}
	if want.Map <= job.Unbound {
		want.PerObj = 0 // so many per node is the root's business
	}
	b := binder{tree: t, Binding: want, ranks: ranks, size: int(want.PE), preferred: omp}
	if b.PE == 0 && omp > 1 && !b.sharing() {
		// What the threads hope for is tried as if it were demanded.
		hope := b
		hope.size, hope.Overload = omp, false
		if sets, err := hope.bind(); err == nil {
			return sets, nil
		}
	}
	return b.bind()
}

// binder is one request to one tree.
type binder struct {
	*tree
	job.Binding
	ranks     int
	size      int // pieces per rank; 0: nobody said
	preferred int // cores per rank that are hoped for where shares are made
}

// sharing reports whether ranks get shares, rather than so many pieces each.
// They do in the whole node if nobody said where to map, and in each object if
// nobody said how wide to bind.
func (b *binder) sharing() bool {
	return b.size == 0 && (b.Map <= job.Unbound || b.Bind == job.NotGiven && (wide(b.Map) || b.PerObj > 0))
}

// bind deals the ranks to objects, finds pieces for them in each, and makes
// CPUs of those.
func (b *binder) bind() ([]cpuset.Set, error) {
	kind := b.Map
	if b.PerObj == 0 && !wide(kind) {
		kind = job.NotGiven // consecutive on the node
	}
	objects := b.objectsOf(kind)
	room := make([]int, len(objects))
	for i, o := range objects {
		room[i] = len(o) / max(b.size, 1)
	}
	turns, err := b.deal(room)
	if err != nil {
		return nil, err
	}
	found := make([][][]piece, len(objects))
	for i, n := range tally(turns, len(objects)) {
		switch n = min(n, room[i]); {
		case n == 0:
		case b.sharing():
			found[i] = shares(objects[i], n, b.preferred)
		default:
			found[i] = runs(objects[i], n, max(b.size, 1))
		}
	}
	sets := make([]cpuset.Set, b.ranks)
	next := make([]int, len(objects))
	for rank, o := range turns {
		sets[rank] = b.widen(found[o][next[o]%len(found[o])])
		next[o]++
	}
	return sets, nil
}

// objectsOf are the pieces of each object that ranks are dealt to.
func (b *binder) objectsOf(kind job.Object) [][]piece {
	objects := b.within(kind)
	if kind == job.HWThread {
		return objects
	}
	for i, o := range objects {
		switch {
		case b.sharing():
			// More ranks than cores share CPUs, unless they are to have cores.
			if b.Bind != job.Core && (b.ranks > len(b.cores) || int(b.PerObj) > len(o)) {
				objects[i] = threads(o)
			}
		case b.Map == job.HWThread, b.Bind == job.HWThread && b.size > 0:
			objects[i] = threads(o)
		case b.Bind == job.HWThread:
			// One CPU of each core, then a second one of each.
			objects[i] = threads(o)
			slices.SortStableFunc(objects[i], func(x, y piece) int { return x.thread - y.thread })
		}
	}
	return objects
}

// deal says to which object each rank goes.
func (b *binder) deal(room []int) (turns []int, err error) {
	// Ranks that are bound to something wide may share it as long as there is
	// a CPU for each.
	again := b.Overload && !b.plain() || b.size == 0 && wide(b.Bind) && b.ranks <= b.cpus
	if b.PerObj > 0 {
		return b.dealEach(room, again)
	}
	total := 0
	for _, n := range room {
		total += n
	}
	if total == 0 || b.ranks > total && !again {
		return nil, b.full(total)
	}
	used, free := make([]int, len(room)), total
	for o := 0; len(turns) < b.ranks; {
		if free == 0 {
			clear(used)
			free, o = total, 0
		}
		if used[o] < room[o] {
			turns = append(turns, o)
			used[o]++
			free--
			if b.Fill {
				continue
			}
		}
		o = (o + 1) % len(room)
	}
	return turns, nil
}

// dealEach is deal for so many ranks on each object.
func (b *binder) dealEach(room []int, again bool) (turns []int, err error) {
	each := int(b.PerObj)
	if need := (b.ranks + each - 1) / each; need > len(room) {
		return nil,
			fmt.Errorf("%s with %d on each %s need %d of them; this node allows %d: write ppr:%d:%s or more, or "+
				"start fewer ranks here with -ppn",
				plain.Plural(b.ranks, "rank"), each, b.Map, need, len(room), (b.ranks+len(room)-1)/len(room), b.Map)
	}
	for rank := range b.ranks {
		turns = append(turns, rank/each)
	}
	for i, n := range tally(turns, len(room)) {
		if n > room[i] && (!again || room[i] == 0) {
			return nil, b.full(0)
		}
	}
	return turns, nil
}

// plain reports whether the user said nothing of how ranks are placed.
func (b *binder) plain() bool { return b.Map <= job.Unbound && b.Bind == job.NotGiven && b.PE == 0 }

// tally counts the ranks of each object.
func tally(turns []int, objects int) []int {
	n := make([]int, objects)
	for _, o := range turns {
		n[o]++
	}
	return n
}

// full is what to say of too little room: an error if a size was demanded. The
// objects have room for fits ranks together.
func (b *binder) full(fits int) error {
	if b.PE == 0 {
		return errFull
	}
	noun, have := "core", len(b.cores)
	if b.Map == job.HWThread || b.Bind == job.HWThread {
		noun, have = "CPU", b.cpus
	}
	each, need := int(b.PE), b.ranks*int(b.PE)
	who := plain.Plural(b.ranks, "rank") + " with " + plain.Plural(each, noun) + " each"
	verb := "need"
	if b.ranks == 1 {
		who, verb = "1 rank with "+plain.Plural(each, noun), "needs"
	}
	if need > have {
		hint := "start fewer ranks here with -ppn"
		if fits := have / b.ranks; fits > 0 {
			hint = fmt.Sprintf("write PE=%d or less, or %s", fits, hint)
		}
		return fmt.Errorf("%s %s %s; this node allows %d: %s", who, verb, plain.Plural(need, noun), have, hint)
	}
	if b.PerObj > 0 {
		return fmt.Errorf("%s with %s each do not fit into every %s of this node: write a smaller PE, or fewer ranks "+
			"per %s",
			plain.Plural(int(b.PerObj), "rank"), plain.Plural(each, noun), b.Map, b.Map)
	}
	return fmt.Errorf("%s cannot fit into the %s objects of this node, which have room for %d: write --map-by "+
		"core:PE=%d, which crosses their borders where it has to",
		who, b.Map, fits, each)
}

// numbered gives the places that ranks were mapped to another order: the first of each object
// of a kind, then the second of each. A place is in the object of its first CPU.
func (t *tree) numbered(sets []cpuset.Set, kind job.Object) []cpuset.Set {
	if kind <= job.Unbound {
		return sets
	}
	objects := t.within(kind)
	in := map[int]int{} // the object of each CPU
	for i, o := range objects {
		for _, p := range o {
			for cpu := range p.cpus.All() {
				in[cpu] = i
			}
		}
	}
	places := make([][]cpuset.Set, len(objects))
	for _, s := range sets {
		o := in[s.First()]
		places[o] = append(places[o], s)
	}
	ordered := make([]cpuset.Set, 0, len(sets))
	for round := 0; len(ordered) < len(sets); round++ {
		for _, p := range places {
			if round < len(p) {
				ordered = append(ordered, p[round])
			}
		}
	}
	return ordered
}

// widen makes a rank's CPUs of its pieces: what --bind-to says, of the objects
// that they are in.
func (b *binder) widen(pieces []piece) (cpus cpuset.Set) {
	if b.sharing() && b.Bind != job.NotGiven {
		// The share says where; how much of it, the word and the threads.
		pieces = pieces[:min(max(b.preferred, 1), len(pieces))]
	}
	last := -1
	for _, p := range pieces {
		switch b.Bind {
		case job.NotGiven, job.Unbound:
			cpus = cpus.Or(p.cpus)
		case job.HWThread:
			cpus.Add(p.cpus.First())
		default:
			if o := p.in[b.Bind]; o != last {
				cpus = cpus.Or(b.objects[b.Bind][o])
				last = o
			}
		}
	}
	return cpus
}
