package suite

import (
	"fmt"
	"slices"
	"strings"
)

// notFound is PMIX_ERR_NOT_FOUND.
const notFound = -46

// PMIxAnswers returns the sorted lines that a job of test/mpi/testdata/pmixclient.c must print. The job has ranks
// ranks: the first perNode are on node0001, the next perNode on node0002, and so on. The lines with the universe size
// are left out, because it depends on the launcher: it is the number of ranks, slots or nodes.
func PMIxAnswers(ranks, perNode int) (all []string) {
	for rank := range ranks {
		say := func(what, format string, args ...any) {
			all = append(all, fmt.Sprintf("rank %d: %s = %s", rank, what, fmt.Sprintf(format, args...)))
		}
		first := rank - rank%perNode
		var peers []string
		for peer := first; peer < min(first+perNode, ranks); peer++ {
			peers = append(peers, fmt.Sprint(peer))
		}
		say("job-size", "%d", ranks)
		say("local-size", "%d", len(peers))
		say("local-peers", "%s", strings.Join(peers, ","))
		say("local-rank", "%d", rank-first)
		say("node-rank", "%d", rank-first)
		say("appnum", "0")
		say("hostname", "node%04d", 1+rank/perNode)
		say("lookup", "port of the last rank, by rank %d", ranks-1)
		for _, what := range []string{"unpublished", "absent", "absent of the next rank"} {
			say(what, "status %d", notFound)
		}
		for _, what := range []string{"fence", "fence with data", "fence of every second rank", "fence of names",
			"fence of no names", "finalize"} {
			say(what, "passed")
		}
		for peer := range ranks {
			if peer != rank {
				say("values", "of rank %d in round 1", peer)
				say("values", "of rank %d in round 2", peer)
			}
		}
	}
	slices.Sort(all)
	return all
}

// MPIAnswers returns the sorted lines that a job of test/mpi/testdata/mpi.c must print. what is the first argument of
// the program: the names of one or more tests, joined by "+".
func MPIAnswers(ranks int, what string) (all []string) {
	for rank := range ranks {
		for part := range strings.SplitSeq(what, "+") {
			all = append(all, fmt.Sprintf("rank %d of %d: %s", rank, ranks, part))
		}
	}
	slices.Sort(all)
	return all
}
