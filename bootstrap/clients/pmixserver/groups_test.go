package pmixserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
)

// What members of groups have for each other is kept behind the group's end, but for a limited
// number of bytes, and until the node's programs have finalized.
func TestGroupsShrink(t *testing.T) {
	w := newWorld(t, 1, 2)
	all := w.all()
	s, list := w.servers[0], pmixtest.Procs(Namespace(w.job), 0, 1)
	const long = 64 << 10
	construct := func(name string) pmix.Attr {
		groups := askAll(t, pmix.Done, all, func(c *client) replyFunc {
			mine := word("pmix.grp.lclid", fmt.Sprint(name, c.Rank, strings.Repeat("x", long)))
			info := pmix.Attr{Key: "pmix.grp.info", Value: pmix.AttrsValue(mine)}
			return c.group(name, list, pmixtest.Is("pmix.grp.actxid"), info)
		})
		number := pmix.SizeValue(contextOf(t, groups[0], list))
		return pmix.Attr{Key: "pmix.grp.ctxid", Value: number}
	}
	destruct := func(name string, members ...int) {
		for _, i := range members {
			r := all[i].ask(pmixtest.GroupDestruct, pmixtest.Text(name), list, pmixtest.Attrs())
			require.Equal(t, pmix.Done, r.Status)
		}
	}
	finds := func(want pmix.Status, group pmix.Attr) {
		t.Helper()
		for _, c := range all {
			gives(t, want, c.get(1, "pmix.grp.lclid", group, pmixtest.Is("pmix.immediate")))
		}
	}
	used, half, ended := construct("used"), construct("half"), construct("ended")
	destruct("half", 0)
	destruct("ended", 0, 1)
	destruct("ended", 0) // once too often
	destruct("no such group", 0)
	for _, group := range []pmix.Attr{used, half, ended} {
		finds(pmix.Done, group)
	}
	var newest pmix.Attr
	const many = 2 * maxGroups / (2 * long)
	for range many {
		newest = construct("again")
		destruct("again", 0, 1)
		require.LessOrEqual(t, s.groups.bytes, maxGroups)
	}
	require.Greater(t, s.groups.bytes, maxGroups/2)
	require.Len(t, s.byContext, len(s.groups.order))
	for _, group := range []pmix.Attr{used, half, newest} {
		finds(pmix.Done, group)
	}
	finds(pmix.NotFound, ended)

	for range many { // nothing of these can go
		construct("more")
	}
	finds(pmix.Done, used)
	require.Greater(t, s.groups.bytes, 2*maxGroups)
	all[0].ask(pmixtest.Finalize)
	require.NotZero(t, len(s.byContext), "a program of another rank may ask")
	all[1].ask(pmixtest.Finalize)
	require.Zero(t, len(s.byContext))
	require.Zero(t, s.groups.bytes)
}
