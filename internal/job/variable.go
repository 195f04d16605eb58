package job

// Fact is something that each rank of a job can be told about itself.
type Fact uint8

const (
	OwnRank      Fact = iota // the rank's number
	OwnLocalRank             // its place on its node
	OwnNode                  // its node's number
	OwnHost                  // its node's name in the list of hosts
	AllRanks                 // the number of ranks of the job
	Facts                    // the number of facts
)

// RankVariable is a variable with a fact about each rank, under the name that a resource manager
// has for it. Every rank has it beside ibrun's own variables.
type RankVariable struct {
	Name string
	Fact Fact
}
