// Package tree plans launch trees. A tree is never sent: a Shape and a number of nodes determine it, so each agent
// computes its own children from the size of its subtree.
//
// The package also computes a summary from the times of a launch, and the costs with which later trees are planned. It
// performs no I/O and reads no clock.
package tree

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

// kindNames are the names of kinds in the text of a Shape.
var kindNames = [...]string{Flat: "flat", Chain: "chain", Kary: "kary", Binomial: "binomial", TwoLevel: "two-level",
	Greedy: "greedy", Auto: "auto"}

// MaxFanOut is the maximum of K and of the window of a Cost.
const MaxFanOut = 1 << 20

// String returns s as text that Parse accepts: "kary:8:7ms,172ms", or
// "kary:8:7ms,172ms,16" with a window.
func (s Shape) String() string {
	text := fmt.Sprintf("%s:%v,%v", s.Name(), s.Cost.SEQ, s.Cost.REM)
	if s.Cost.Window > 0 {
		text += "," + strconv.Itoa(s.Cost.Window)
	}
	return text
}

// Name returns s without its costs, as "kary:8". Parse accepts the name, too.
func (s Shape) Name() string {
	if s.Kind == Kary {
		return "kary:" + strconv.Itoa(s.K)
	}
	return kindNames[s.Kind]
}

// Parse parses flat, chain, kary:K, binomial, two-level, greedy or auto. Each may be followed by :SEQ,REM or
// :SEQ,REM,WINDOW. SEQ and REM are above zero and at most one hour. Without them, Parse uses DefaultCost.
func Parse(text string) (Shape, error) {
	parts := strings.Split(text, ":")
	s := Shape{Cost: DefaultCost}
	kind := slices.Index(kindNames[:], parts[0])
	if kind < 0 {
		return s, fmt.Errorf("unknown tree %q: write flat, chain, kary:K, binomial, two-level, greedy or auto", text)
	}
	s.Kind, parts = Kind(kind), parts[1:]
	if s.Kind == Kary {
		if len(parts) == 0 {
			return s, fmt.Errorf("tree %q lacks its fan-out: write kary:8", text)
		}
		k, err := strconv.Atoi(parts[0])
		if err != nil || k < 1 || k > MaxFanOut {
			return s, fmt.Errorf("fan-out %q of tree %q is not a number from 1 to %d", parts[0], text, MaxFanOut)
		}
		s.K, parts = k, parts[1:]
	}
	if len(parts) == 0 {
		return s, nil
	}
	seq, rest, two := strings.Cut(parts[0], ",")
	rem, window, three := strings.Cut(rest, ",")
	var err1, err2 error
	s.Cost.SEQ, err1 = time.ParseDuration(seq)
	s.Cost.REM, err2 = time.ParseDuration(rem)
	if three {
		w, err := strconv.Atoi(window)
		if err != nil || w < 1 || w > MaxFanOut {
			return s, fmt.Errorf("window %q of tree %q is not a number from 1 to %d", window, text, MaxFanOut)
		}
		s.Cost.Window = w
	}
	if len(parts) > 1 || !two || err1 != nil || err2 != nil || s.Cost.SEQ <= 0 || s.Cost.REM <= 0 ||
		s.Cost.REM > time.Hour || s.Cost.SEQ > time.Hour {
		return s, fmt.Errorf("costs of tree %q are not two times above zero: write greedy:7ms,172ms", text)
	}
	return s, nil
}
