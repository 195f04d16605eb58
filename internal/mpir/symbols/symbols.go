// Package symbols makes ibrun small without taking its MPIR names: debuggers look for these in the
// symbol table, which is a twelfth of the binary. It changes nothing but that table, and knows ELF
// as Go's linker writes it: 64 bits, little-endian, with the tables at the end.
package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// prefix is what the names that stay begin with.
const prefix = "MPIR_"

// Keep drops all symbols of a binary but those of package mpir. The linker has left out debugging
// data (-w), and kept the symbols (no -s).
func Keep(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.LittleEndian {
		return fmt.Errorf("%s: not an ELF file of 64 bits, little-endian", path)
	}
	all, err := f.Symbols()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	table, names := make([]byte, elf.Sym64Size), []byte{0} // the first symbol is none
	for _, s := range all {
		if !strings.HasPrefix(s.Name, prefix) {
			continue
		}
		kept := elf.Sym64{Name: uint32(len(names)), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.ST_TYPE(s.Info)),
			Other: s.Other, Shndx: uint16(s.Section), Value: s.Value, Size: s.Size}
		if table, err = binary.Append(table, binary.LittleEndian, kept); err != nil {
			return err
		}
		names = append(append(names, s.Name...), 0)
	}
	if raw, err = replace(raw, f, map[string][]byte{".symtab": table, ".strtab": names}); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return rewrite(path, raw, int64(f.Section(".symtab").Offset))
}

// rewrite changes the head of a file, and all from an offset on. The rest is left alone: the page
// cache keeps what is written at once in large pieces, which processes would then map as a whole.
func rewrite(path string, raw []byte, offset int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = f.WriteAt(raw[:headBytes], 0); err != nil {
		return err
	}
	if _, err = f.WriteAt(raw[offset:], offset); err != nil {
		return err
	}
	return f.Truncate(int64(len(raw)))
}

// headBytes has the section headers.
const headBytes = 4096

// Offsets in struct Elf64_Shdr.
const (
	offsetAt  = 24
	sizeAt    = 32
	infoAt    = 44
	headerAt  = 40 // of e_shoff in struct Elf64_Ehdr
	shdrBytes = 64
)

// replace puts new contents in place of the sections at the end of a file.
func replace(raw []byte, f *elf.File, with map[string][]byte) ([]byte, error) {
	first := f.Section(".symtab")
	if first == nil {
		return nil, fmt.Errorf("it has no symbols: link it without -s")
	}
	out := raw[:first.Offset:first.Offset]
	headers := binary.LittleEndian.Uint64(raw[headerAt:])
	if headers+uint64(len(f.Sections))*shdrBytes > headBytes || first.Offset < headBytes {
		return nil, fmt.Errorf("its section headers are not at the beginning")
	}
	out = bytes.Clone(out)
	for i, s := range f.Sections {
		if s.Offset < first.Offset || s.Type == elf.SHT_NOBITS {
			continue
		}
		content, given := with[s.Name]
		if !given {
			content = raw[s.Offset : s.Offset+s.FileSize]
		}
		header := out[headers+uint64(i)*shdrBytes:]
		binary.LittleEndian.PutUint64(header[offsetAt:], uint64(len(out)))
		binary.LittleEndian.PutUint64(header[sizeAt:], uint64(len(content)))
		if s.Type == elf.SHT_SYMTAB {
			binary.LittleEndian.PutUint32(header[infoAt:], 1) // no symbol but the first is local
		}
		out = append(out, content...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	return out, nil
}
