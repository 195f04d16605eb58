package charm

import (
	"encoding/binary"
	"errors"
)

// Generation is which form of the table of processes a program knows. The length of its InitNode
// tells.
type Generation uint8

const (
	Gen65 Generation = 1 + iota // Charm++ 6.5 and 6.6: an entry has 16 bytes
	Gen67                       // 6.7 and 6.8: it begins with the processes of its host
	Gen69                       // 6.9 to 8.0: it begins with the number of the process
)

// Bytes of InitNode, and of an entry, by generation.
var (
	initSizes  = [...]int{Gen65: 20, Gen67: 24, Gen69: 40}
	entrySizes = [...]int{Gen65: 16, Gen67: 20, Gen69: 24}
)

func (g Generation) String() string {
	return [...]string{"no Charm++", "Charm++ 6.5 or 6.6", "Charm++ 6.7 or 6.8", "Charm++ 6.9 or later"}[g]
}

// Init is what a program says of itself.
type Init struct {
	Generation Generation
	Process    uint32
	Port       uint16 // of its data
}

// Errors of ParseInit.
var (
	ErrInit   = errors.New("an initnode of no known version of Charm++")
	ErrNoPort = errors.New("a program without a network: it has no data port")
)

// ParseInit reads the data of InitNode.
func ParseInit(data []byte) (in Init, err error) {
	for g := Gen65; g <= Gen69; g++ {
		if len(data) == initSizes[g] {
			in.Generation = g
		}
	}
	if in.Generation == 0 {
		return in, ErrInit
	}
	in.Process = binary.BigEndian.Uint32(data)
	port := binary.BigEndian.Uint32(data[len(data)-12:]) // before a word that is 0, and the address
	if port > 1<<16-1 {
		return in, ErrInit
	}
	if in.Port = uint16(port); port == 0 {
		return in, ErrNoPort
	}
	return in, nil
}

// Process is one entry of the table.
type Process struct {
	OnHost uint32 // processes on its host
	PEs    uint32
	Port   uint16
	Addr   [4]byte
}

// AppendEntry appends a process's entry.
func (g Generation) AppendEntry(b []byte, number uint32, p Process) []byte {
	words := []uint32{number, p.OnHost, p.PEs, uint32(p.Port), 0}
	for _, w := range words[Gen69-g:] {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return append(b, p.Addr[:]...)
}

// TableHead is the frame NodeTab for a process, up to its entries, of which there are count.
func (g Generation) TableHead(count, process uint32) []byte {
	words := []uint32{count, process}
	if g < Gen69 {
		words = words[:1]
	}
	b := Append(nil, NodeTab, 4*len(words)+int(count)*entrySizes[g])
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}
