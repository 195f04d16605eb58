// Package elffile reads of a program in ELF what its start depends on: its machine, its loader, and
// the libraries it is linked with. It reads a few hundred bytes of the file where package debug/elf
// reads all its sections, and brings no decompression with it: agents link it. It does not know
// symbols, and it checks no more than it needs (elf(5)).
package elffile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Magic begins an ELF file.
const Magic = "\x7fELF"

// HeaderSize is the size of the header of a 64-bit file, in bytes. That of a 32-bit one is smaller.
const HeaderSize = 64

// Types of segments, and of entries in the dynamic one.
const (
	load    = 1
	dynamic = 2
	interp  = 3
	needed  = 1
	table   = 5 // DT_STRTAB: where names are, as an address
)

const (
	mostHeaders = 1 << 12 // segments or sections that are looked at
	mostEntry   = 1 << 8  // bytes of one
	mostDynamic = 1 << 16 // bytes
	mostName    = 1 << 12
	compressed  = 1 << 11 // SHF_COMPRESSED
)

var errFormat = errors.New("no ELF file")

// Platform is what a file is made for. Two are equal if a machine that runs one runs the other.
type Platform struct {
	Class, Data uint8 // 1: 32 bits, little endian; 2: 64 bits, big endian
	Machine     uint16
}

// PlatformOf reads it from the first 20 bytes of a file.
func PlatformOf(head []byte) Platform {
	p := Platform{Class: head[4], Data: head[5]}
	p.Machine = p.Order().Uint16(head[18:])
	return p
}

// machines are the names of those that clusters have had, as package debug/elf has them.
var machines = map[uint16]string{
	2: "sparc", 3: "386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390", 40: "arm", 43: "sparcv9", 50: "ia_64",
	62: "x86_64", 183: "aarch64", 243: "riscv", 258: "loongarch",
}

// String is the machine's name.
func (p Platform) String() string {
	name := machines[p.Machine]
	switch {
	case name == "":
		return "an unknown machine"
	case name == "ppc64" && p.Data == 1:
		name += "le"
	}
	return name
}

// Order is that of the numbers in the file.
func (p Platform) Order() binary.ByteOrder {
	if p.Data == 2 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Is64 reports whether addresses have 64 bits.
func (p Platform) Is64() bool { return p.Class == 2 }

// Segment is a part of the file that is loaded, or tells how. Offset and Size are in the file.
type Segment struct {
	Type                  uint32
	Offset, Address, Size uint64
}

// File is a program. It is not safe for concurrent use.
type File struct {
	Platform
	*os.File
	Segments []Segment
	// Cut is where the table of segments would go on in a file that ends before; 0: it is whole.
	Cut      int64
	sections uint64 // where their table is
	entry    uint16 // bytes of one
	count    uint16
	names    uint16 // which of them holds the names
}

// Open opens a program, which is the caller's to close.
func Open(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{File: in}
	if err := f.header(); err != nil {
		in.Close()
		return nil, err
	}
	return f, nil
}

// header reads the header and the table of segments, which follows it in nearly all files.
func (f *File) header() error {
	head := make([]byte, 1<<10)
	n, _ := f.ReadAt(head, 0)
	head = head[:n]
	if n < HeaderSize || !bytes.HasPrefix(head, []byte(Magic)) || head[4] != 1 && head[4] != 2 {
		return errFormat
	}
	f.Platform = PlatformOf(head)
	var at uint64
	var size, count uint16
	half := f.Order().Uint16
	if f.Is64() {
		at, f.sections = f.word(head[32:]), f.word(head[40:])
		size, count, f.entry, f.count, f.names = half(head[54:]), half(head[56:]), half(head[58:]), half(head[60:]),
			half(head[62:])
	} else {
		at, f.sections = f.word(head[28:]), f.word(head[32:])
		size, count, f.entry, f.count, f.names = half(head[42:]), half(head[44:]), half(head[46:]), half(head[48:]),
			half(head[50:])
	}
	least := map[bool]uint16{true: 56, false: 32}[f.Is64()]
	if count > 0 && size < least {
		return errFormat
	}
	for i := range uint64(min(count, mostHeaders)) {
		from := at + i*uint64(size)
		entry := make([]byte, least)
		if from+uint64(least) <= uint64(n) {
			copy(entry, head[from:])
		} else if _, err := f.ReadAt(entry, int64(from)); err != nil {
			f.Cut = int64(from) + int64(size)
			return nil
		}
		s := Segment{Type: f.Order().Uint32(entry)}
		if f.Is64() {
			s.Offset, s.Address, s.Size = f.word(entry[8:]), f.word(entry[16:]), f.word(entry[32:])
		} else {
			s.Offset, s.Address, s.Size = f.word(entry[4:]), f.word(entry[8:]), f.word(entry[16:])
		}
		f.Segments = append(f.Segments, s)
	}
	return nil
}

// word is an address or an offset.
func (f *File) word(b []byte) uint64 {
	if f.Is64() {
		return f.Order().Uint64(b)
	}
	return uint64(f.Order().Uint32(b))
}

// Required is how many bytes the file must have for what is to be loaded of it.
func (f *File) Required() (most int64) {
	for _, s := range f.Segments {
		if s.Type == load {
			most = max(most, int64(s.Offset+s.Size))
		}
	}
	return max(most, f.Cut)
}

// Loader is the dynamic loader that the program asks for; empty: none.
func (f *File) Loader() string {
	for _, s := range f.Segments {
		if s.Type == interp && s.Size < mostName {
			return f.text(s.Offset)
		}
	}
	return ""
}

// Needed are the names of the libraries that the program is linked with.
func (f *File) Needed() (libraries []string) {
	step := map[bool]int{true: 16, false: 8}[f.Is64()]
	for _, s := range f.Segments {
		if s.Type != dynamic || s.Size > mostDynamic {
			continue
		}
		list := make([]byte, s.Size)
		if _, err := f.ReadAt(list, int64(s.Offset)); err != nil {
			return nil
		}
		var at []uint64
		names := uint64(0)
		for ; len(list) >= step; list = list[step:] {
			switch tag, value := f.word(list), f.word(list[step/2:]); tag {
			case needed:
				at = append(at, value)
			case table:
				names = f.offset(value)
			}
		}
		for _, a := range at {
			libraries = append(libraries, f.text(names+a))
		}
	}
	return libraries
}

// offset is where in the file an address is.
func (f *File) offset(address uint64) uint64 {
	for _, s := range f.Segments {
		if s.Type == load && address >= s.Address && address-s.Address < s.Size {
			return address - s.Address + s.Offset
		}
	}
	return 0
}

// text is the text at an offset, up to its zero.
func (f *File) text(at uint64) string {
	b := make([]byte, 128)
	for {
		n, err := f.ReadAt(b, int64(at))
		if end := bytes.IndexByte(b[:n], 0); end >= 0 {
			return string(b[:end])
		}
		if err != nil && err != io.EOF || len(b) >= mostName || n < len(b) {
			return ""
		}
		b = make([]byte, 4*len(b))
	}
}

// Section is where a section is, by its name; ok is false if there is none or it is compressed.
func (f *File) Section(name string) (offset, size uint64, ok bool) {
	least := map[bool]uint16{true: 64, false: 40}[f.Is64()]
	if f.entry < least || f.entry > mostEntry || f.count > mostHeaders || f.names >= f.count {
		return 0, 0, false
	}
	table := make([]byte, int(f.entry)*int(f.count))
	if _, err := f.ReadAt(table, int64(f.sections)); err != nil {
		return 0, 0, false
	}
	names, _, _ := f.section(table, f.names)
	for i := range f.count {
		at := int(i) * int(f.entry)
		offset, size, flags := f.section(table, i)
		if label := f.text(names + uint64(f.Order().Uint32(table[at:]))); label == name {
			return offset, size, flags&compressed == 0
		}
	}
	return 0, 0, false
}

// section is an entry of the table of sections.
func (f *File) section(table []byte, i uint16) (offset, size, flags uint64) {
	e := table[int(i)*int(f.entry):]
	if f.Is64() {
		return f.word(e[24:]), f.word(e[32:]), f.word(e[8:])
	}
	return f.word(e[16:]), f.word(e[20:]), f.word(e[8:])
}
