//go:build soak

package faults

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
)

// shape describes a job: its hosts, its tree and its program.
type shape struct {
	hosts   []string
	each    int // ranks on each host
	args    []string
	program string
	fresh   bool // the nodes have no copy of ibrun
}

func (j shape) ranks() int { return len(j.hosts) * j.each }

func (j shape) String() string {
	fresh := ""
	if j.fresh {
		fresh = ", fresh nodes"
	}
	return fmt.Sprintf("%d ranks of %s on %s, %s%s", j.ranks(), j.program,
		strings.Join(j.hosts, ","), strings.Join(j.args, " "), fresh)
}

// Programs of ranks. Each first prints that it runs, and only brief ends by itself.
const (
	sleeper  = "sleeper"
	brief    = "brief"
	family   = "family" // leaves processes behind in sessions of their own
	talker   = "talker" // uses the package ibrun, and fails when a peer does
	exchange = "pmi"
	mpich    = "mpi"
)

func (j shape) words(ranks string) []string {
	text := map[string]string{
		sleeper:  "exec sleep 1000",
		brief:    "exec sleep 2",
		family:   "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); sleep 1000 & exec sleep 1000",
		talker:   "exec " + filepath.Join(ranks, talker),
		exchange: filepath.Join(ranks, exchange) + " -all >/dev/null; exec sleep 1000",
		mpich:    "exec " + filepath.Join(ranks, mpich) + " spin",
	}[j.program]
	return []string{"sh", "-c", "echo up; " + text}
}

// drawShape draws a random job on at least minNodes of the nodes.
func drawShape(rng *rand.Rand, minNodes int) (j shape) {
	j.program = pick(rng, sleeper, sleeper, family, family, talker, exchange, mpich)
	size := max(minNodes, pick(rng, 1, 2, 3, 4, 5, 7, 8, 11, 16))
	each := pick(rng, 1, 1, 2, 3)
	ssh := pick(rng, "native", "native", "exec")
	if j.program == mpich { // its ranks never sleep
		size, each = max(minNodes, min(size, 3)), 1
	}
	if ssh == "exec" { // costs twice the CPU time
		size = max(minNodes, min(size, 8))
	}
	for _, i := range rng.Perm(campaignNodes)[:size] {
		j.hosts = append(j.hosts, fmt.Sprintf("node%04d", i+1))
	}
	if j.program == talker && size*each == 1 {
		each = 2
	}
	j.each = each
	tree := pick(rng, "auto", "flat", "chain", "kary:2", "kary:2", "kary:4", "binomial", "greedy")
	if tree == "chain" && size > 8 {
		tree = "kary:2"
	}
	j.args = []string{"--ssh", ssh, "--tree", tree, "-ppn", strconv.Itoa(each)}
	j.fresh = rng.IntN(4) == 0
	return j
}
