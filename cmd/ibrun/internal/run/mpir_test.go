//go:build amd64

package run

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The table has the layout that debuggers know: two C strings, a number, 24 bytes for each.
func TestSpawned(t *testing.T) {
	require.False(t, BeingDebugged())
	t.Cleanup(func() { *at.being = 0 })
	*at.being = 1
	require.True(t, BeingDebugged())
	all := []MPIRProcess{{"n1", "/bin/a", 7}, {"n1", "/bin/a", 8}, {"n2", "/bin/b", 9}}
	require.NoError(t, MPIRSpawned(all))
	require.Equal(t, int32(3), *at.size)
	require.Equal(t, int32(spawned), *at.state)
	rows := unsafe.Slice((*descriptor)(*(*unsafe.Pointer)(unsafe.Pointer(at.table))), 3)
	require.Equal(t, uintptr(24), unsafe.Sizeof(rows[0]))
	text := func(p *uintptr) string { return unix.BytePtrToString(*(**byte)(unsafe.Pointer(p))) }
	for i := range rows {
		require.Equal(t, all[i], MPIRProcess{text(&rows[i].host), text(&rows[i].program), uint32(rows[i].pid)})
	}
	require.NoError(t, MPIRSpawned(nil))
	require.Zero(t, *at.size)
}
