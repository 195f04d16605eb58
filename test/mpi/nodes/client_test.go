//go:build mpi

package nodes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
)

// dialects are the names of the variables by which a client chooses one, best first.
var dialects = []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"}

// only is a command that lets a client see no better dialect than that.
func only(dialect string) []string {
	argv := []string{"env"}
	for _, better := range dialects[:slices.Index(dialects, dialect)] {
		argv = append(argv, "-u", better)
	}
	return argv
}

// client asks for all that MPI libraries ask for, in each dialect: on one node and on several, with
// job information about all ranks and about those of the own node.
func (b *bed) client(t *testing.T, l library) {
	for i, dialect := range dialects {
		for k, job := range []struct{ ranks, nodes int }{{1, 1}, {3, 2}, {16, 4}} {
			for _, info := range []string{"full", lean} {
				if info == lean && (i+k)%2 == 0 { // each size and each dialect lean, too, but not all of both
					continue
				}
				if !*whole && (k != i%3 || info == lean && i%2 == 0) {
					continue
				}
				b.ask(t, l, job.ranks, job.nodes, info, dialect, only(dialect)...)
			}
		}
	}
	for ibrun, told := range map[string]string{program: "node0002 with ranks 2,3", b.lean: "status -46"} {
		o := b.begin(t, ibrun, 4, 2, l.Command(t, b.Shared(), l.client, "far")...).wait(t)
		require.Contains(t, o.stdout, fmt.Sprintf("rank 0: far = %s\n", told), o.stderr)
	}
	b.ask(t, l, 16, 1, "full", "best")
	b.ask(t, l, 16, 2, lean, "best")
	mixed := `[ $(($RANK % 2)) = 0 ] || unset ` + strings.Join(dialects[:2], " ") + `; exec "$@"`
	b.ask(t, l, 6, 2, "full", "mixed", "sh", "-c", mixed, "sh")
}

// ask runs the client behind a command, and compares each of its lines.
func (b *bed) ask(t *testing.T, l library, ranks, nodes int, info, dialect string, before ...string) {
	t.Helper()
	t.Run(fmt.Sprintf("%s/%d on %d/%s", dialect, ranks, nodes, info), func(t *testing.T) {
		argv := append(slices.Clone(before), l.Command(t, b.Shared(), l.client)...)
		want := suite.PMIxAnswers(ranks, perNode(ranks, nodes))
		for rank := range ranks {
			want = append(want, fmt.Sprintf("rank %d: univ-size = %d", rank, ranks))
		}
		ibrun := program
		if info == lean {
			ibrun = b.lean
		}
		b.begin(t, ibrun, ranks, nodes, argv...).wait(t).went(t, want)
	})
}
