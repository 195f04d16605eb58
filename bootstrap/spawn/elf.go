package spawn

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
)

// elfHeaderSize is the size of the header of a 64-bit ELF file, in bytes.
const elfHeaderSize = 64

// maxInterpreter is the largest size in bytes of a dynamic loader's path that loaderOf reads.
const maxInterpreter = 4 << 10

// platform is the class (32 or 64 bits), the byte order and the machine of an ELF file.
type platform struct {
	class   elf.Class
	order   elf.Data
	machine elf.Machine
}

// platformOf returns the platform of an ELF file. head has at least the first 20 bytes of the file (elf(5)).
func platformOf(head []byte) platform {
	p := platform{class: elf.Class(head[elf.EI_CLASS]), order: elf.Data(head[elf.EI_DATA])}
	p.machine = elf.Machine(p.byteOrder().Uint16(head[18:]))
	return p
}

func (p platform) byteOrder() binary.ByteOrder {
	if p.order == elf.ELFDATA2MSB {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// String returns the name of the machine, such as "x86_64". If package debug/elf has no name for it, String returns "an
// unknown machine".
func (p platform) String() string {
	name, known := strings.CutPrefix(p.machine.String(), "EM_")
	if !known || strings.Contains(name, "+") { // debug/elf writes an unknown number as "EM_NAME+N"
		return "an unknown machine"
	}
	name = strings.ToLower(name)
	if p.machine == elf.EM_PPC64 && p.order == elf.ELFDATA2LSB {
		name += "le"
	}
	return name
}

// requiredSize returns the minimum size in bytes of a 64-bit ELF file that contains all its loadable segments. If the
// file ends within the program headers, it returns a size larger than the file. It returns 0 if the file cannot be
// read or is no 64-bit ELF file.
func requiredSize(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	head := make([]byte, elfHeaderSize)
	if _, err := f.ReadAt(head, 0); err != nil || elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return 0
	}
	order := platformOf(head).byteOrder()
	var h elf.Header64
	if _, err := binary.Decode(head, order, &h); err != nil {
		return 0
	}
	var required uint64
	for i := range uint64(h.Phnum) {
		var p elf.Prog64
		at := h.Phoff + i*uint64(h.Phentsize)
		if binary.Read(io.NewSectionReader(f, int64(at), int64(h.Phentsize)), order, &p) != nil {
			return int64(max(required, at+uint64(h.Phentsize)))
		}
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			required = max(required, p.Off+p.Filesz)
		}
	}
	return int64(required)
}

// loaderOf returns the path of the dynamic loader that an ELF file names (PT_INTERP). It returns "" if the file names
// none, cannot be read or is no ELF file, or if the path has more than maxInterpreter bytes.
func loaderOf(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz <= maxInterpreter {
			text, _ := io.ReadAll(p.Open())
			return strings.TrimRight(string(text), "\x00")
		}
	}
	return ""
}

// neededLibraries returns the names of the shared libraries that the ELF file at path needs (DT_NEEDED). It returns an
// error if the file cannot be read or is no ELF file.
func neededLibraries(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	return f.ImportedLibraries()
}
