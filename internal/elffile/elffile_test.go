package elffile

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is found is what package debug/elf finds, of programs that are here.
func TestAsDebugELF(t *testing.T) {
	dynamic := 0
	for _, name := range []string{"sh", "true", "perl", "ssh", "go", "mpirun.openmpi", "mpiexec.hydra"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		want, err := elf.Open(path)
		if err != nil {
			continue // a script
		}
		f, err := Open(path)
		require.NoError(t, err, path)
		libraries, err := want.ImportedLibraries()
		require.NoError(t, err)
		require.ElementsMatch(t, libraries, f.Needed(), path)
		require.Equal(t, want.Machine, elf.Machine(f.Machine))
		require.Equal(t, want.Class == elf.ELFCLASS64, f.Is64())
		require.Equal(t, want.ByteOrder, f.Order())
		if s := want.Section(".rodata"); s != nil {
			offset, size, ok := f.Section(".rodata")
			require.True(t, ok)
			require.Equal(t, []uint64{s.Offset, s.FileSize}, []uint64{offset, size}, path)
		}
		_, _, ok := f.Section(".none")
		require.False(t, ok)
		if len(libraries) > 0 {
			dynamic++
			require.FileExists(t, f.Loader())
		} else {
			require.Empty(t, f.Loader())
		}
		st, err := f.Stat()
		require.NoError(t, err)
		require.LessOrEqual(t, f.Required(), st.Size())
		require.NoError(t, f.Close())
		require.NoError(t, want.Close())
	}
	require.Positive(t, dynamic)
}

// The machine's name is debug/elf's, in small letters and without its prefix.
func TestPlatform(t *testing.T) {
	head := make([]byte, 20)
	head[4], head[5], head[18] = 2, 1, byte(elf.EM_PPC64)
	require.Equal(t, "ppc64le", PlatformOf(head).String())
	head[5], head[18], head[19] = 2, 0, byte(elf.EM_PPC64)
	require.Equal(t, "ppc64", PlatformOf(head).String())
	for number := range machines {
		require.Contains(t, elf.Machine(number).String(), "EM_", number)
	}
	require.Equal(t, "an unknown machine", Platform{Machine: 9999}.String())
}

// No beginning of a program, and no program with a byte changed in its head, makes a reader fail
// otherwise than by an error, or read without bound.
func TestDamaged(t *testing.T) {
	path, err := exec.LookPath("true")
	require.NoError(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	at := filepath.Join(t.TempDir(), "x")
	look := func(b []byte) (required int64) {
		require.NoError(t, os.WriteFile(at, b, 0o600))
		f, err := Open(at)
		if err != nil {
			return -1
		}
		defer f.Close()
		f.Needed()
		f.Loader()
		f.Section(".rodata")
		return f.Required()
	}
	for n := 0; n < 1200; n += 37 {
		required := look(whole[:n])
		require.Equal(t, n < HeaderSize, required < 0, n)
		require.True(t, required < 0 || required > int64(n), n)
	}
	for i := range HeaderSize + 56 {
		b := append([]byte{}, whole[:4096]...)
		b[i] ^= 0xff
		look(b)
	}
}
