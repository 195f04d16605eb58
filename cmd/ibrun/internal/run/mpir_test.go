//go:build amd64

package run

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/control"
)

// The table has the layout that debuggers know: two C strings, a number, 24 bytes for each.
func TestSpawned(t *testing.T) {
	require.False(t, BeingDebugged())
	t.Cleanup(func() { *at.being = 0 })
	*at.being = 1
	require.True(t, BeingDebugged())
	all := []control.Process{{Host: "n1", Program: "/bin/a", PID: 7}, {Host: "n1", Program: "/bin/a", PID: 8},
		{Host: "n2", Program: "/bin/b", PID: 9}}
	require.NoError(t, MPIRSpawned(all))
	require.Equal(t, int32(3), *at.size)
	require.Equal(t, int32(spawned), *at.state)
	rows := unsafe.Slice((*descriptor)(*(*unsafe.Pointer)(unsafe.Pointer(at.table))), 3)
	require.Equal(t, uintptr(24), unsafe.Sizeof(rows[0]))
	for i, row := range rows {
		require.Equal(t, all[i], control.Process{Host: unix.BytePtrToString(row.host),
			Program: unix.BytePtrToString(row.program), PID: uint32(row.pid)})
	}
	require.NoError(t, MPIRSpawned(nil))
	require.Zero(t, *at.size)
}
