package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
)

// What has not been used for a month goes, and of the rest what was not among the
// last eight, unless it was used today; parts go, other files do not.
func TestPrune(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1<<30, 0)
	const day = 24 * time.Hour
	make := func(name string, ago time.Duration) {
		require.NoError(t, executable.Write(filepath.Join(dir, name), nil))
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), now, now.Add(-ago)))
	}
	build := func(n int) string { return fmt.Sprintf("ibrun-%016x", n) }
	var want []string
	keep := func(names ...string) { want = append(want, names...) }
	add := func(n int, used time.Duration, kept bool) {
		make(build(n), 90*day) // when it came says nothing
		make(build(n)+digestSuffix, used)
		make(build(n)+packedSuffix, 90*day)
		if kept {
			keep(build(n), build(n)+digestSuffix, build(n)+packedSuffix)
		}
	}
	make(cachedName(), 90*day)
	make(cachedName()+digestSuffix, 0)
	make(cachedName()+packedSuffix, 90*day)
	keep(cachedName(), cachedName()+digestSuffix, cachedName()+packedSuffix)
	for n := range 12 {
		add(n, time.Duration(n+1)*time.Hour, true) // today: more than eight
	}
	add(100, 2*day, false)
	add(101, 40*day, false)
	make(build(200), 3*day)              // never finished: as old as it is
	make(build(201)+packedSuffix, 3*day) // a host that starts jobs only has the compressed binary
	for _, name := range []string{".tmp.abcdefghij", ".tmp.abcdefghij.z", "costs.json", ".tmp.x", ".tmp.x.z",
		"ibrun-old"} {
		make(name, 90*day)
	}
	make(".tmp.0123456789", time.Minute) // on its way
	keep("costs.json", ".tmp.x", ".tmp.x.z", "ibrun-old", ".tmp.0123456789")
	prune(dir, now)
	require.ElementsMatch(t, want, names(t, dir))

	for n := range 12 { // a week later seven of them and this build are left
		if n >= keepAlways-1 {
			want = slices.DeleteFunc(want, func(name string) bool {
				return name == build(n) || name == build(n)+digestSuffix || name == build(n)+packedSuffix
			})
		}
	}
	want = slices.DeleteFunc(want, func(name string) bool { return name == ".tmp.0123456789" })
	prune(dir, now.Add(7*day))
	require.ElementsMatch(t, want, names(t, dir))
}

func names(t *testing.T, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
