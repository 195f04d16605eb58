package spawn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecognize(t *testing.T) {
	for name, want := range map[string]kind{
		"libmpi.so.40":                {open: true, soname: "libmpi.so.40"},
		"libmpi_usempif08.so.40":      {open: true, soname: "libmpi_usempif08.so.40"},
		"libmpich.so.12":              {mpich: true, soname: "libmpich.so.12"},
		"libmpichfort.so.12":          {mpich: true, soname: "libmpichfort.so.12"},
		"libmpi.so.12":                {mpich: true, soname: "libmpi.so.12"},
		"libmpifort.so.12":            {mpich: true, soname: "libmpifort.so.12"},
		"libm.so.6":                   {},
		"libcompiz.so.40":             {},
		"/opt/libmpi.so.40/libx.so.1": {},
	} {
		require.Equal(t, want, recognize([]string{"libc.so.6", name}), name)
	}
	require.Equal(t, kind{}, linked("mpi_test.go"))
	require.Equal(t, kind{}, linked(t.TempDir()+"/missing"))
	require.Equal(t, kind{}, linked("/proc/self/exe"))
}

// Open MPI keeps 15 bits of each half, and none of 0 below.
func TestOpenJob(t *testing.T) {
	seen := map[uint32]bool{}
	for i := range 1000 {
		id := openJob(fmt.Sprintf("%016x", i))
		require.Zero(t, id&0x80008000)
		require.NotZero(t, id&0x7fff)
		seen[id] = true
	}
	require.Len(t, seen, 1000)
	require.Equal(t, openJob("a"), openJob("a"))
}
