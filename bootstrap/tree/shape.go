// Package tree plans launch trees. A tree is never sent: a Shape and a number of nodes determine it, so each agent
// computes its own children from the size of its subtree.
//
// The package also computes a summary from the times of a launch, and the costs with which later trees are planned. It
// performs no I/O and reads no clock.
package tree

import "time"

// Kind is a family of trees.
type Kind uint8

const (
	Flat     Kind = iota // the root starts everything
	Chain                // each agent starts one other
	Kary                 // complete K-ary tree, filled breadth first
	Binomial             // each step doubles the agents that are up
	TwoLevel             // fan-out at the root is the square root of the nodes
	Greedy               // optimal for {SEQ, REM}, Goehner et al. 2012
	Auto                 // the cheapest of the others for the measured costs
)

// Cost is the launch model's pair of constants (Goehner, Arnold, Ahn and Lee,
// "An Optimal Algorithm for Extreme Scale Job Launching", 2012).
type Cost struct {
	SEQ time.Duration // a parent's time between two starts
	REM time.Duration // from the start of a remote launch until the child can launch
	// Window is how many launches a parent has under way at most, each until its
	// child can launch; 0: as many as it likes, as in the paper.
	Window int
}

// Shape names one tree for every number of nodes. It is a value and is sent
// as its text form, for example "kary:8" or "greedy:7ms,172ms".
type Shape struct {
	Kind Kind
	K    int  // fan-out, for Kary
	Cost Cost // for Greedy and Auto, and for predictions
}
