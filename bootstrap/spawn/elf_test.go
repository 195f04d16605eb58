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

// TestPlatformNames requires that String returns the name of debug/elf in lower case and without the prefix EM_.
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

// TestRequiredSize cuts an ELF file of 200 bytes to each shorter size. The required size must be 0 if the file header is
// cut, larger than the file if the program headers are cut, and 200 otherwise.
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
		require.Zero(t, requiredSize(path), "not a 64-bit ELF file")
	}
}

// TestLoaderAndLibraries requires that /bin/sh names an existing loader and at least one library. For /dev/null there
// must be no loader, and an error for the libraries.
func TestLoaderAndLibraries(t *testing.T) {
	require.FileExists(t, loaderOf("/bin/sh"))
	names, err := neededLibraries("/bin/sh")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	require.Empty(t, loaderOf("/dev/null"))
	_, err = neededLibraries("/dev/null")
	require.Error(t, err)
}
