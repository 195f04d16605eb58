package charm

import (
	"bytes"
	"encoding/binary"

	"ibrun/bootstrap/ccs"
)

// Programs built with --enable-shrinkexpand go on with another number of processes, when a client
// sends process 0 a ccs.ResizeRequest. Those that stay execute themselves again and report anew.
const (
	Realloc    = "realloc"     // of process 0: all wait to go on; a number of processes
	ReallocAck = "realloc_ack" // to all: they may go on, or end
)

// Unhandled reports whether text, which a program has printed, says that it has no ccs.ResizeHandler
// (conv-ccs.C of Charm++). The program sends no reply then.
func Unhandled(text []byte) bool {
	return bytes.Contains(text, []byte("Unknown CCS handler name '"+ccs.ResizeHandler+"'"))
}

// ParseRealloc reads the data of Realloc.
func ParseRealloc(data []byte) (processes uint32, ok bool) {
	if len(data) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(data), true
}
