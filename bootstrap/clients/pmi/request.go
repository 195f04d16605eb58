package pmi

// Request is what an Engine asks of its owner: one of the types below. All but
// Finalize and Abort wait for an Answer, and no other comes before it is
// given, except Abort.
type Request any

// Identify asks which rank this is: a client that came through PMI_PORT says a
// number from 0 on, PMI_ID, that it was started with; what the number means is
// the owner's. Answer: Rank, App.
type Identify struct{ ID int }

// Put stores a value, at most MaxValue bytes, under a key, at most MaxKey. No
// one may see it before the next Fence. Answer: nothing in it.
type Put struct{ Key, Value string }

// Get wants a value. Answer: Found, Value.
type Get struct{ Key string }

// Fence waits for all ranks: PMI-1's barrier and PMI-2's fence. Answer: nothing in it.
type Fence struct{}

// Publish stores the port of a named service, for all. Answer: nothing in it.
type Publish struct{ Service, Port string }

// Lookup wants the port of a service. Answer: Found, Value.
type Lookup struct{ Service string }

// Unpublish takes a service away. Answer: Found, whether it was there.
type Unpublish struct{ Service string }

// NodePut stores a value for this node's ranks. Answer: nothing in it.
type NodePut struct{ Key, Value string }

// NodeGet wants a value of NodePut; with Wait the answer must wait for it.
// Answer: Found, Value.
type NodeGet struct {
	Key  string
	Wait bool
}

// Ring is PMI-2's ring exchange, of all ranks. The answer's Count is the sum
// of the counts of lower ranks, its Left is the Right of the rank before, its
// Right is the Left of the rank behind; around the ends for both.
type Ring struct {
	Count       int
	Left, Right string
}

// Pair is a key and a value.
type Pair struct{ Key, Value string }

// Command is one program of a Spawn.
type Command struct {
	Argv  []string
	Ranks int    // 1 or more
	Hints []Pair // MPI_Info
}

// Spawn starts further programs, whose key-value space begins with Preput.
// Answer: Value is the new job's name, for PMI-2; Refused when it was not done.
type Spawn struct {
	Commands []Command
	Preput   []Pair
}

// Finalize says that the client takes its leave. It has no answer.
type Finalize struct{}

// Abort ends the job, with a code that may be 0; PMI-2 has none on the wire,
// it is 1 then. Text is empty or for the user. It has no answer, and may come
// while another request waits, which then waits no more.
type Abort struct {
	Code int
	Text string
}

// Answer is the owner's word on a Request; each says which fields count.
type Answer struct {
	Refused     string // why not, for the client; empty: done
	Found       bool
	Value       string
	Rank, App   int // who the client is; App as in Config.AppNum
	Count       int
	Left, Right string
}
