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

// dialects lists the environment variables that have the address of a PMIx server. Each stands for a version of the
// PMIx protocol, the newest one first. A client uses the first variable that is set and whose version it implements.
var dialects = []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"}

// upTo returns a prefix for a command that unsets the variables of protocol versions newer than dialect.
func upTo(dialect string) []string {
	argv := []string{"env"}
	for _, better := range dialects[:slices.Index(dialects, dialect)] {
		argv = append(argv, "-u", better)
	}
	return argv
}

// client runs pmixclient.c, which sends the same PMIx requests as MPI libraries. It runs on one node and on several,
// with each version of the protocol, with different versions in one job, and under an ibrun with the build tag lean.
// Without -whole it runs only some of these combinations.
func (b *bed) client(t *testing.T, l library) {
	for _, dialect := range dialects {
		for _, job := range []struct{ ranks, nodes int }{{1, 1}, {3, 2}, {16, 4}} {
			if *whole {
				b.runClient(t, l, job.ranks, job.nodes, "full", dialect, upTo(dialect)...)
				b.runClient(t, l, job.ranks, job.nodes, lean, dialect, upTo(dialect)...)
			}
		}
	}
	for ibrun, told := range map[string]string{launch.Program: "node0002 with ranks 2,3", b.lean: "status -46"} {
		o := b.begin(t, ibrun, 4, 2, l.Command(t, b.Shared(), l.client, "far")...).wait(t)
		require.Contains(t, o.Stdout, fmt.Sprintf("rank 0: far = %s\n", told), o.Stderr)
	}
	last := dialects[len(dialects)-1]
	b.runClient(t, l, 1, 1, "full", last, upTo(last)...)
	b.runClient(t, l, 11, 1, "full", "best")
	// The ranks of a node use different versions of the protocol.
	mixed := `[ $(($RANK % 4)) -lt 1 ] || unset ` + dialects[0] + `; [ $(($RANK % 4)) -lt 2 ] || unset ` + dialects[1] +
		`; [ $(($RANK % 4)) -lt 3 ] || unset ` + dialects[2] + `; exec "$@"`
	for _, info := range []string{"full", lean} {
		b.runClient(t, l, 7, 2, info, "mixed", "sh", "-c", mixed, "sh")
	}
}

// runClient runs pmixclient.c in a subtest. The words of before precede the path of the program. info is "full", or
// lean for an ibrun with this build tag. dialect is used only in the name of the subtest. The job must print
// suite.PMIxAnswers, and ranks as the universe size of each rank.
func (b *bed) runClient(t *testing.T, l library, ranks, nodes int, info, dialect string, before ...string) {
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
