package charm

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Programs built with --enable-shrinkexpand go on with another number of processes, when a client
// asks process 0 for it. Those that stay execute themselves again and report anew.
const (
	Realloc    = "realloc"     // of process 0: all wait to go on; a number of processes
	ReallocAck = "realloc_ack" // to all: they may go on, or end
	// ResizeHandler is the name of the handler that a client asks.
	ResizeHandler = "set_bitmap"
)

// ResizeRequest asks a program of as many processes, each with one PE, to go on with the first kept
// of them, and altogether with another number.
func ResizeRequest(processes, kept, next uint32) Request {
	data := make([]byte, processes, processes+5)
	for i := range kept {
		data[i] = 1
	}
	data = binary.NativeEndian.AppendUint32(data, next) // as the client's machine has an int
	return Request{Handler: ResizeHandler, Data: append(data, 0)}
}

// Unhandled reports whether a program prints that no handler takes a ResizeRequest, which is all
// that it answers then (conv-ccs.C). Only some load balancers have one.
func Unhandled(text []byte) bool {
	return bytes.Contains(text, []byte("Unknown CCS handler name '"+ResizeHandler+"'"))
}

// ParseRealloc reads the data of Realloc.
func ParseRealloc(data []byte) (processes uint32, ok bool) {
	if len(data) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(data), true
}

// RestartArgs are what a process that comes to a running program has on its command line besides
// argv: where the others have left what it takes up.
func RestartArgs(argv []string) []string {
	dir := "/dev/shm"
	if i := slices.Index(argv, "+shrinkexpand_basedir"); i >= 0 && i+1 < len(argv) {
		dir = argv[i+1]
	}
	return []string{"+restart", dir}
}
