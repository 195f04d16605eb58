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

// dialects lists the environment variables by which a client chooses a dialect of PMIx, the best one first.
var dialects = []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"}

// only returns the words before a command that hide the better dialects from a client.
func only(dialect string) []string {
	argv := []string{"env"}
	for _, better := range dialects[:slices.Index(dialects, dialect)] {
		argv = append(argv, "-u", better)
	}
	return argv
}

// client runs the client of PMIx, which asks for all that MPI libraries ask for: on one node and on several, with
// information about all ranks and about those of the same node, and with one dialect and several.
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
	// Each rank of a node speaks another dialect.
	mixed := `[ $(($RANK % 4)) -lt 1 ] || unset ` + dialects[0] + `; [ $(($RANK % 4)) -lt 2 ] || unset ` + dialects[1] +
		`; [ $(($RANK % 4)) -lt 3 ] || unset ` + dialects[2] + `; exec "$@"`
	for _, info := range []string{"full", lean} {
		b.ask(t, l, 7, 2, info, "mixed", "sh", "-c", mixed, "sh")
	}
}

// ask runs the client with words before it. Each of its lines must be right.
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
