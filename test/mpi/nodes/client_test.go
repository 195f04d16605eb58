//go:build mpi

package nodes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
)

// dialects lists the environment variables with the address of a PMIx server, the newest one first. A client of PMIx
// uses the first one that is set and that it knows, and with it a version of the protocol, the dialect.
var dialects = []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"}

// only returns the arguments to be put before a command so that it uses this dialect or an older one.
func only(dialect string) []string {
	argv := []string{"env"}
	for _, better := range dialects[:slices.Index(dialects, dialect)] {
		argv = append(argv, "-u", better)
	}
	return argv
}

// client runs pmixclient.c, which sends the same requests as MPI libraries. It runs on one node and on several, with
// each dialect and with different dialects in one job, and with an ibrun that has the tag lean.
func (b *bed) client(t *testing.T, l library) {
	for _, dialect := range dialects {
		for _, job := range []struct{ ranks, nodes int }{{1, 1}, {3, 2}, {16, 4}} {
			if *whole {
				b.ask(t, l, job.ranks, job.nodes, "full", dialect, only(dialect)...)
				b.ask(t, l, job.ranks, job.nodes, lean, dialect, only(dialect)...)
			}
		}
	}
	for ibrun, told := range map[string]string{launch.Program: "node0002 with ranks 2,3", b.lean: "status -46"} {
		o := b.begin(t, ibrun, 4, 2, l.Command(t, b.Shared(), l.client, "far")...).wait(t)
		require.Contains(t, o.Stdout, fmt.Sprintf("rank 0: far = %s\n", told), o.Stderr)
	}
	last := dialects[len(dialects)-1]
	b.ask(t, l, 1, 1, "full", last, only(last)...)
	b.ask(t, l, 11, 1, "full", "best")
	// The ranks of a node use different dialects.
	mixed := `[ $(($RANK % 4)) -lt 1 ] || unset ` + dialects[0] + `; [ $(($RANK % 4)) -lt 2 ] || unset ` + dialects[1] +
		`; [ $(($RANK % 4)) -lt 3 ] || unset ` + dialects[2] + `; exec "$@"`
	for _, info := range []string{"full", lean} {
		b.ask(t, l, 7, 2, info, "mixed", "sh", "-c", mixed, "sh")
	}
}

// ask runs pmixclient.c in a subtest, with the arguments before put before the program. info selects the ibrun: lean is
// the one with this build tag. The job must print the lines of suite.PMIxAnswers and the universe size of each rank.
func (b *bed) ask(t *testing.T, l library, ranks, nodes int, info, dialect string, before ...string) {
	t.Helper()
	t.Run(fmt.Sprintf("%s/%d on %d/%s", dialect, ranks, nodes, info), func(t *testing.T) {
		argv := append(slices.Clone(before), l.Command(t, b.Shared(), l.client)...)
		want := suite.PMIxAnswers(ranks, perNode(ranks, nodes))
		for rank := range ranks {
			want = append(want, fmt.Sprintf("rank %d: univ-size = %d", rank, ranks))
		}
		ibrun := launch.Program
		if info == lean {
			ibrun = b.lean
		}
		b.begin(t, ibrun, ranks, nodes, argv...).wait(t).Went(t, want)
	})
}
