package job

// Object is what ranks of one node can be placed by or bound to.
type Object uint8

// Objects. The order is on the wire.
const (
	NotGiven Object = iota // nobody said: the rule for shares decides
	Unbound                // none
	HWThread               // one CPU of the kernel's
	Core
	L3
	NUMA
	Package
	objects
)

// Valid reports whether there is such an object.
func (o Object) Valid() bool { return o < objects }

func (o Object) String() string {
	return [...]string{"auto", "none", "hwthread", "core", "l3cache", "numa", "package"}[min(o, objects-1)]
}

// Binding is what the user said of processors, memory and devices. Each node
// makes places for its own ranks of it. The zero value is the default: equal
// shares of what the node allows.
type Binding struct {
	Map    Object // --map-by: where a node's ranks go one after the other; NotGiven: equal shares
	Fill   bool   // --rank-by fill: an object of Map is filled before the next; otherwise they take turns
	Rank   Object // --rank-by: the places are numbered with the objects taking turns; NotGiven: in the order of Map
	Bind   Object // --bind-to: how wide a rank's place is; NotGiven: its share
	PE     uint32 // cores per rank, CPUs if Map or Bind is HWThread; 0: nobody said
	PerObj uint32 // ppr:N:obj: exactly so many ranks on each object of Map; 0: as many as fit
	// map_cpu and mask_cpu as kernel lists: the node's rank i takes the i-th, from the start again
	// after the last
	CPUs     []string
	Slots    []string // --rankfile: slot list of each rank of the job, by rank, as bind.ParseSlots reads it
	Overload bool     // several ranks may share CPUs that they are bound to
	HCA      string   // --hca as written: names or NAME:PORT with commas between them; empty: the nearest
	Report   bool     // --report-bindings: each rank's place goes up the tree
	Topo     bool     // --display topo: each node's picture goes up the tree
	Data     bool     // --json: as data
}

// Worded reports whether the user said where ranks should run.
func (b *Binding) Worded() bool {
	return b.Map != NotGiven || b.Bind > Unbound || b.PE > 0 || len(b.CPUs)+len(b.Slots) > 0
}
