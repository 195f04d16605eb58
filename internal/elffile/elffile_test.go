package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
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

// Files of each class and order of bytes, whose parts are loaded elsewhere than they lie.
func TestClasses(t *testing.T) {
	const names = "\x00libmpi.so.40\x00libc.so.6\x00"
	at := filepath.Join(t.TempDir(), "x")
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, wide := range []bool{true, false} {
			ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', 1, 1}
			if order == binary.BigEndian {
				ident[elf.EI_DATA] = 2
			}
			var parts []any
			if wide {
				ident[elf.EI_CLASS] = 2
				parts = []any{
					elf.Header64{Ident: ident, Machine: 183, Phoff: 64, Phentsize: 56, Phnum: 3},
					elf.Prog64{Type: load, Off: 256, Vaddr: 0x400256, Filesz: 512},
					elf.Prog64{Type: dynamic, Off: 400, Filesz: 64},
					elf.Prog64{Type: interp, Off: 256, Filesz: uint64(len(names))},
					[24]byte{}, []byte(names), make([]byte, 400-256-len(names)),
					[]elf.Dyn64{{Tag: needed, Val: 1}, {Tag: needed, Val: 14}, {Tag: table, Val: 0x400256}, {}},
				}
			} else {
				parts = []any{
					elf.Header32{Ident: ident, Machine: 40, Phoff: 52, Phentsize: 32, Phnum: 3},
					elf.Prog32{Type: load, Off: 256, Vaddr: 0x8256, Filesz: 512},
					elf.Prog32{Type: dynamic, Off: 400, Filesz: 32},
					elf.Prog32{Type: interp, Off: 256, Filesz: uint32(len(names))},
					[108]byte{}, []byte(names), make([]byte, 400-256-len(names)),
					[]elf.Dyn32{{Tag: needed, Val: 1}, {Tag: needed, Val: 14}, {Tag: table, Val: 0x8256}, {}},
				}
			}
			var text bytes.Buffer
			for _, p := range parts {
				require.NoError(t, binary.Write(&text, order, p))
			}
			require.NoError(t, os.WriteFile(at, text.Bytes(), 0o600))
			f, err := Open(at)
			require.NoError(t, err)
			require.Equal(t, []string{"libmpi.so.40", "libc.so.6"}, f.Needed(), "%v %v", order, wide)
			require.Equal(t, wide, f.Is64())
			require.Equal(t, int64(768), f.Required())
			require.NoError(t, f.Close())
		}
	}
}
