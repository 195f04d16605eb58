package spawn

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlatformNames requires that the name of a machine is that of debug/elf, in lower case and without prefix.
func TestPlatformNames(t *testing.T) {
	head := make([]byte, 20)
	head[elf.EI_CLASS], head[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	for machine, name := range map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64",
		elf.EM_PPC64: "ppc64le", elf.EM_RISCV: "riscv", 0x9999: "an unknown machine"} {
		binary.LittleEndian.PutUint16(head[18:], uint16(machine))
		require.Equal(t, name, platformOf(head).String())
	}
	head[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	binary.BigEndian.PutUint16(head[18:], uint16(elf.EM_PPC64))
	require.Equal(t, "ppc64", platformOf(head).String())
}

// TestRequiredSize cuts a program at several places. The required size must exceed that of each part.
func TestRequiredSize(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		var text bytes.Buffer
		ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)}
		if order == binary.BigEndian {
			ident[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
		}
		for _, part := range []any{
			elf.Header64{Ident: ident, Machine: uint16(elf.EM_AARCH64), Phoff: 64, Phentsize: 56, Phnum: 2},
			elf.Prog64{Type: uint32(elf.PT_LOAD), Off: 176, Filesz: 24},
			elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 500, Filesz: 24},
			[24]byte{},
		} {
			require.NoError(t, binary.Write(&text, order, part))
		}
		path := filepath.Join(t.TempDir(), "program")
		for n := range text.Len() + 1 {
			require.NoError(t, os.WriteFile(path, text.Bytes()[:n], 0o600))
			switch required := requiredSize(path); {
			case n < elfHeaderSize:
				require.Zero(t, required)
			case n < 64+2*56:
				require.Greater(t, required, int64(n))
			default:
				require.EqualValues(t, 200, required)
			}
		}
		require.NoError(t, os.WriteFile(path, append([]byte(elf.ELFMAG), make([]byte, 100)...), 0o600))
		require.Zero(t, requiredSize(path), "32 bits")
	}
}

// TestDynamicProgram requires that a program of this machine names a loader that exists and at least one library, and
// that other files name neither.
func TestDynamicProgram(t *testing.T) {
	require.FileExists(t, loaderOf("/bin/sh"))
	names, err := neededLibraries("/bin/sh")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	require.Empty(t, loaderOf("/dev/null"))
	_, err = neededLibraries("/dev/null")
	require.Error(t, err)
}
